"""A model of a task 任务模型: an encoder with a head over it, saved and served like any other model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from polyseme.data.detect import SAYS
from polyseme.data.examples import Examples
from polyseme.errors import OptionError, TextError
from polyseme.learn.metrics import Figures
from polyseme.store.model import Model
from polyseme.tasks.options import TaskOptions
from polyseme.training.run import Run

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class TaskReport:
    """How good a model is on some examples."""

    task: str
    file: str
    n: int
    metric: str  # the figure the task is judged by
    figures: Figures
    rows: list[dict[str, Any]] = field(default_factory=list)  # of each label or type
    labels: list[str] = field(default_factory=list)
    confusion: list[list[int]] = field(default_factory=list)  # how often a label (row) was called another (column)

    def to_json(self) -> dict[str, Any]:
        """Figures by name, and the rest."""
        more = {"labels": self.labels, "confusion": self.confusion} if self.confusion else {}
        return {
            "task": self.task, "file": self.file, "n": self.n, "metric": self.metric, **self.figures,
            "per_label": self.rows, **more,
        }  # fmt: skip


class Prediction(NamedTuple):
    """A label with its probability, and those of all labels, the likeliest first."""

    label: str
    probability: float
    probabilities: dict[str, float]


class TaskModel(Model, ABC):
    """What can be fitted to examples, predicts, and is scored."""

    kind: ClassVar[str]  # of the examples: texts, pairs, tags, spans or choices
    options: TaskOptions
    labels: list[str]

    @property
    def attends(self) -> bool:
        """Whether it says how much each word counted."""
        return False

    @classmethod
    @abstractmethod
    def fit(
        cls, train: Examples, dev: Examples | None, encoders: Sequence[Any], options: TaskOptions, run: Run
    ) -> Self:
        """Learn from examples; without ``dev`` a share of them is held out to tell when to stop."""

    @abstractmethod
    def predict(self, rows: Sequence[Any]) -> list[Any]:
        """What the model says to each row."""

    @abstractmethod
    def records(self, rows: Sequence[Any], *, attention: bool = False) -> Iterator[dict[str, Any]]:
        """What the model says to each row as plain data; ``attention``: also how much each word counted."""

    @abstractmethod
    def rows_to_predict(self, path: str | Path, **reading: Any) -> Sequence[Any]:
        """What a file holds for this task, labelled or not."""

    @abstractmethod
    def score(self, examples: Examples) -> TaskReport:
        """How good its predictions are."""

    def examples(self, source: str | Path | Sequence[str | Path], **reading: Any) -> Examples:
        """Labelled examples for ``score``, read as those it was fitted to; labels in parts are cut as theirs."""
        return Examples.read(source, kind=self.kind, like=self.about.corpus, **{**self.cut_labels(), **reading})

    def cut_labels(self) -> dict[str, int]:
        """How labels in parts were cut when it was fitted, as an option of reading."""
        parts = self.about.corpus.get("label_parts")
        return {"label_parts": parts} if isinstance(parts, int) and parts > 0 else {}

    def with_label_parts(self, label_parts: int | None) -> TaskModel:
        """The model with labels of at most so many parts, where it has labels of each row."""
        return self

    def check(self, examples: Examples) -> Examples:
        """The examples, where they are of the kind that this task takes."""
        if examples.kind != self.kind:
            raise OptionError(f"{examples.path} holds {SAYS[examples.kind]}; {self.method} takes {SAYS[self.kind]}")
        if not len(examples):
            raise TextError(f"{examples.path} holds no examples")
        if self.labels and examples.labels and not set(self.labels) & set(examples.labels):
            own, found = _some(self.labels), _some(examples.labels)
            raise OptionError(f"{examples.path} has none of the model's labels ({own}); it has {found}")
        return examples


def _some(labels: Sequence[str]) -> str:
    return ", ".join(label[:30] for label in labels[:5]) + (" …" if len(labels) > 5 else "")


def several(texts: Iterable[Any]) -> list[Any]:
    """The texts as a list; one bare text is refused, which would be read character by character."""
    if isinstance(texts, (str, bytes)):
        raise OptionError("this takes several texts: give a list, [text] for one")
    return list(texts)
