"""The settings of a training run, and the base class of trainable models.

The output folder of a training run, if any: locked against other writers until the model is saved.
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from polyseme.disk.atomic import writing
from polyseme.disk.ownership import check_replaceable, recipe
from polyseme.interfaces import Progress, silent
from polyseme.machine import leads
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


log = logging.getLogger(__name__)

M = TypeVar("M", bound=Model)


@contextmanager
def output(out: str | Path | None, method: str, run: Run, *, force: bool) -> Iterator[Output]:
    """Check and lock the output folder before the long work of training."""
    place = Output(None if out is None else Path(out), method, run, force)
    with ExitStack() as held:
        if out is not None and leads():
            for path in (out, f"{out}.checkpoint"):
                held.enter_context(writing(path))
        if out is not None:
            check_replaceable(out, "model", force=force or run.resume, method=method)
        yield place


@dataclass
class Output:
    """The folder where the model will be saved; the checkpoint of unfinished training is ``<out>.checkpoint``."""

    path: Path | None
    method: str
    run: Run
    force: bool
    recipe: str = ""

    def begin(self, identity: dict[str, Any], *models: str) -> None:
        """Record the identity of the run (method, options, corpus), and check what is at the output path already.

        Warns if a checkpoint will be replaced or is missing; raises if a file there must not be overwritten. ``models``
        are the fingerprints of the models it builds on; "" for one that was not opened from a folder.
        """
        self.recipe = recipe([identity, *models]) if all(models) else ""
        if self.path is None:
            return
        kept = self.run.checkpoint = Checkpoint(Path(f"{self.path}.checkpoint"), identity)
        begun = kept.check(resume=self.run.resume)
        self.force = self.force or (begun and self.run.resume)  # a resumed run was allowed to write when it began
        check_replaceable(self.path, "model", recipe=self.recipe, force=self.force, method=self.method)
        if begun and not self.run.resume:
            log.warning("starting over: %s of an earlier run will be replaced (resume would continue it)", kept.path)
        elif self.run.resume and not begun:
            log.warning("there is no %s to resume from: training starts from the beginning", kept.path)

    def saved(self, model: M) -> M:
        """Save the model if there is an output folder, remove the checkpoint, and return the model."""
        model.about.recipe = self.recipe
        if self.path is not None and self.run.checkpoint is not None and leads():
            model.save(self.path, force=self.force)
            self.run.checkpoint.remove()
        return model
