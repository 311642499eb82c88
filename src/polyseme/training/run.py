"""How a training is carried out, and what can be trained."""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from polyseme.nouns import Progress, silent
from polyseme.store.model import Model
from polyseme.training.checkpoint import Checkpoint, Snapshot

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass
class Run:
    """How a training is carried out: all that is not an option of the method."""

    checkpoint: Checkpoint | None = None
    resume: bool = False
    start: Model | None = None  # continue from this model, perhaps on other data
    progress: Progress = silent
    models: dict[str, Model] = field(default_factory=dict)  # those that options name, opened
    curve: list[dict[str, Any]] = field(default_factory=list)  # becomes training.jsonl
    began: float = field(default_factory=time.monotonic)  # from when a limit of time counts

    def resumed(self) -> Snapshot | None:
        """The snapshot to continue from, its curve restored; None if training starts at the beginning."""
        snapshot = self.checkpoint.load() if self.checkpoint and self.resume else None
        if snapshot:
            self.curve[:] = snapshot.state.get("curve", [])
        return snapshot

    def save(self, snapshot: Snapshot) -> None:
        """Keep a checkpoint, the curve with it, where checkpoints are kept."""
        if self.checkpoint:
            snapshot.state["curve"] = self.curve
            self.checkpoint.save(snapshot)


class Trainable(Model):
    """A model of the catalog that is learned from data; its row says which kind (``learns_from``)."""

    trains_further: ClassVar[bool] = True  # can it continue from a model of its own kind (``start``)?

    @classmethod
    @abstractmethod
    def train(cls, data: Any, options: Any, run: Run) -> Self:
        """Learn from a Corpus, Parallel or Examples, or from several of them by name."""
