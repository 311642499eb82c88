"""A model of a task 任务模型: an encoder with a head over it, fitted, saved and served like any other model.

fit:      examples ─goal_of─► Goal    encoders ─new─► model (Reader, net)    ─learning─► Learning ─► the loop
predict:  rows ─► records, some at a time
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from torch import nn

from polyseme.arrays import FloatArray
from polyseme.data.detect import SAYS
from polyseme.data.examples import Examples
from polyseme.errors import OptionError, TextError
from polyseme.interfaces import Progress
from polyseme.learn.frozen import standardise
from polyseme.learn.goals import Goal
from polyseme.learn.learning import Held, Learning
from polyseme.learn.metrics import Figures, check_metric
from polyseme.learn.modules import segmentation_of
from polyseme.learn.prepared import InputReader, PreparedInputs
from polyseme.store.model import About, Model
from polyseme.tasks.options import TaskOptions, head_options, held_out_share
from polyseme.training.loop import fit
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
        tables = {"labels": self.labels, "confusion": self.confusion} if self.confusion else {}
        return {
            "task": self.task, "file": self.file, "n": self.n, "metric": self.metric, **self.figures,
            "per_label": self.rows, **tables,
        }  # fmt: skip


class Prediction(NamedTuple):
    """A label with its probability, and those of all labels, the likeliest first."""

    label: str
    probability: float
    probabilities: dict[str, float]


class TaskModel(Model, ABC):
    """What can be fitted to examples, predicts, and is scored."""

    kind: ClassVar[str]  # of the examples: texts, pairs, tags, spans or choices
    unit: ClassVar[str] = "examples"  # what training counts
    pace: ClassVar[float] = 1.0  # of fine-tuned encoders
    at_once: ClassVar[int] = 512  # rows of a file that are predicted together
    options: TaskOptions
    labels: list[str]
    goal: Goal
    reader: InputReader  # what turns inputs into batches
    net: nn.Module  # from a batch to outputs

    @property
    def attends(self) -> bool:
        """Whether it says how much each word counted."""
        return False

    # ---- fitting

    @classmethod
    def fit(
        cls, train: Examples, dev: Examples | None, encoders: Sequence[Any], options: TaskOptions, run: Run
    ) -> Self:
        """Learn from examples; without ``dev`` a share of them is held out to tell when to stop."""
        options = cls.settled(options, train)
        settings = head_options(cls.method, options, len(train))
        goal = cls.goal_of(train, settings)
        cls.tell_odd(train, dev)
        share = 0.0 if dev is not None else held_out_share(options, settings, len(train))
        if share:
            train, dev = train.split(share, settings.seed)
        check_metric(options.metric or goal.primary, goal.figure_names(train if dev is None else dev))
        return cls.fitted(train, dev, encoders, options, settings, goal, run)

    @classmethod
    def settled(cls, options: TaskOptions, train: Examples) -> TaskOptions:
        """The options with those decided that depend on the examples."""
        return options

    @classmethod
    @abstractmethod
    def goal_of(cls, train: Examples, settings: Any) -> Goal:
        """What is to be told of the examples; an error where there is nothing to learn."""

    @classmethod
    def tell_odd(cls, train: Examples, dev: Examples | None) -> None:
        """Tell what is odd about the examples."""

    @classmethod
    def fitted(
        cls, train: Examples, dev: Examples | None, encoders: Sequence[Any], options: TaskOptions, settings: Any,
        goal: Goal, run: Run,
    ) -> Self:  # fmt: skip
        """A new model that has learned; ``settings`` are the options of the head."""
        about = About(segmentation_of(encoders, train.segmentation), train.facts, run.curve)
        model = cls.new(train, encoders, options, settings, goal, about, run)
        fit(model.learning(train, dev, settings, run.progress), settings, run)
        return model

    @classmethod
    @abstractmethod
    def new(
        cls, train: Examples, encoders: Sequence[Any], options: TaskOptions, settings: Any, goal: Any, about: About,
        run: Run,
    ) -> Self:  # fmt: skip
        """A model that has learned nothing yet."""

    def learning(self, train: Examples, dev: Examples | None, settings: Any, progress: Progress) -> Learning:
        """The training task of its net."""
        prepared = self.prepare(train, progress)
        if prepared.vectors is not None:
            standardise(self.net, prepared.vectors)
        held = Held(dev, self.prepare(dev, progress)) if dev is not None and len(dev) else None
        wanted, metric = self.goal.wanted(train), self.options.metric
        return Learning(
            self.net, self.goal, prepared, wanted, settings, held=held, metric=metric, unit=self.unit, pace=self.pace
        )

    def prepare(self, examples: Examples, progress: Progress) -> PreparedInputs:
        """The inputs of examples, looked at once."""
        return self.reader.prepare(self.inputs_of(examples), progress)

    @classmethod
    @abstractmethod
    def inputs_of(cls, examples: Any) -> list[Any]:
        """The inputs of rows of examples, as ``predict`` takes them."""

    # ---- answers

    @abstractmethod
    def predict(self, rows: Sequence[Any]) -> list[Any]:
        """What the model says to each row."""

    def records(self, rows: Sequence[Any], *, attention: bool = False) -> Iterator[dict[str, Any]]:
        """What the model says to each row as plain data; ``attention``: also how much each word counted."""
        for start in range(0, len(rows), self.at_once):
            part = rows[start : start + self.at_once]
            for row, answer in zip(part, self.predict(part), strict=True):
                yield self.record(row, answer)

    @abstractmethod
    def record(self, row: Any, answer: Any) -> dict[str, Any]:
        """A row and what was predicted of it as plain data."""

    def rows_to_predict(self, path: str | Path, **reading: Any) -> Sequence[Any]:
        """What a file holds for this task, labelled or not."""
        examples = Examples.read(path, kind=self.kind, unlabelled=True, like=self.about.corpus, **reading)
        return self.inputs_of(examples)

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
            known, given = _first_labels(self.labels), _first_labels(examples.labels)
            raise OptionError(f"{examples.path} has none of the model's labels ({known}); it has {given}")
        return examples


def predictions(probabilities: FloatArray, labels: Sequence[str]) -> list[Prediction]:
    """The likeliest label of each row with all probabilities, from ``(n, labels)``."""
    answers = []
    for row in probabilities:
        ranked = np.argsort(-row, kind="stable").tolist()
        by_label = {labels[place]: float(row[place]) for place in ranked}
        answers.append(Prediction(labels[ranked[0]], float(row[ranked[0]]), by_label))
    return answers


def _first_labels(labels: Sequence[str]) -> str:
    return ", ".join(label[:30] for label in labels[:5]) + (" …" if len(labels) > 5 else "")


def several(texts: Iterable[Any]) -> list[Any]:
    """The texts as a list; one bare text is refused, which would be read character by character."""
    if isinstance(texts, (str, bytes)):
        raise OptionError("this takes several texts: give a list, [text] for one")
    return list(texts)
