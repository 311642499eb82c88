"""The settings of a training run, and the base class of trainable models."""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from polyseme.interfaces import Progress, silent
from polyseme.store.model import Model
from polyseme.training.checkpoint import Checkpoint, Snapshot

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass
class Run:
    """The settings of a training run that are not options of the method."""

    checkpoint: Checkpoint | None = None
    resume: bool = False
    start: Model | None = None  # train this model further, perhaps on other data
    progress: Progress = silent
    models: dict[str, Model] = field(default_factory=dict)  # the opened models that options refer to, by option
    curve: list[dict[str, Any]] = field(default_factory=list)  # becomes training.jsonl
    began: float = field(default_factory=time.monotonic)  # start of the time that ``minutes`` limits

    def resumed(self) -> Snapshot | None:
        """The snapshot to resume from, after restoring its curve; None if training starts from the beginning."""
        snapshot = self.checkpoint.load() if self.checkpoint and self.resume else None
        if snapshot:
            self.curve[:] = snapshot.state.get("curve", [])
        return snapshot

    def save(self, snapshot: Snapshot) -> None:
        """Save a checkpoint that includes the curve, if this run has checkpoints."""
        if self.checkpoint:
            snapshot.state["curve"] = self.curve
            self.checkpoint.save(snapshot)


class Trainable(Model):
    """A model of the catalog that is trained on data; its catalog row says which kind (``learns_from``)."""

    trains_further: ClassVar[bool] = True  # can it continue from a model of its own kind (``start``)?

    @classmethod
    @abstractmethod
    def train(cls, data: Any, options: Any, run: Run) -> Self:
        """Train on a Corpus, Parallel or Examples, or on several of them by name."""
