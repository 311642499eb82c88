"""What is to be told of each input (学习目标): targets, the loss of outputs, what they say, and how good that is.

``Classes`` are here, for most; scores are in ``tasks/pair.py``, and choices, tags and places in a passage with their
tasks too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import FloatArray, Ints
from polyseme.data.examples import Examples, targets_of
from polyseme.errors import TrainingError
from polyseme.learn.metrics import PRIMARY, Figures, classification
from polyseme.learn.prepared import PreparedInputs, in_order
from polyseme.store.folder import Parts
from polyseme.training.task import Score

TIE = 1e-6  # weight of the held-out loss, which decides between equal scores
LOWER_IS_BETTER = ("mse",)


class Goal(ABC):
    """What is to be told of each row of examples."""

    primary: str  # the figure that it is judged by
    shown: tuple[str, ...] = ()  # other figures that reports of a training show
    n_outputs: int

    @abstractmethod
    def wanted(self, examples: Examples) -> Any:
        """The targets of all rows, indexed by arrays of rows."""

    @abstractmethod
    def loss(self, outputs: Any, wanted: Any) -> Tensor:
        """The sum of the losses of a batch's rows."""

    def answers(self, outputs: Iterable[tuple[Ints, Any]], prepared: PreparedInputs, net: nn.Module) -> Any:
        """What the outputs of all batches of a net say of all rows; by default the outputs, row by row."""
        return in_order(outputs, len(prepared.sizes))

    @abstractmethod
    def figures(self, answers: Any, examples: Examples) -> Figures:
        """How good the answers are."""

    @abstractmethod
    def figure_names(self, examples: Examples) -> Collection[str]:
        """The names of the figures for such examples."""

    def dev_loss(self, answers: Any, examples: Examples) -> float | None:
        """The mean loss of the answers, which decides between equal figures; None: nothing does."""
        return None

    def score(self, answers: Any, examples: Examples, metric: str) -> Score:
        """The score of held-out examples by a metric, and the figures that a report of the training shows."""
        figures = self.figures(answers, examples)
        facts = {name: figures[name] for name in dict.fromkeys((metric, *self.shown))}
        loss = self.dev_loss(answers, examples)
        if loss is not None:
            facts["dev_loss"] = loss
        tie = TIE * (loss or 0.0)
        if metric in LOWER_IS_BETTER:
            return Score(figures[metric] + tie, facts)
        return Score(figures[metric] - tie, facts, higher_is_better=True)

    def parts(self) -> Parts:
        """What the model's folder keeps of it."""
        return Parts()


# ---- classes


class Classes(Goal):
    """One of several labels."""

    primary = PRIMARY["texts"]
    shown = ("accuracy",)

    def __init__(self, labels: Sequence[str], loss: ClassLoss | None = None) -> None:
        """``loss`` is for training only."""
        self.labels, self.class_loss = list(labels), loss
        self.n_outputs = len(self.labels)

    @classmethod
    def of(cls, examples: Examples, options: Any) -> Classes:
        """The goal to learn the labels of these examples."""
        check_classes(examples)
        targets = np.asarray(examples.targets, dtype=np.int64)
        return cls(examples.labels, ClassLoss(targets, len(examples.labels), options))

    def wanted(self, examples: Examples) -> Ints:
        return targets_of(examples, self.labels)

    def loss(self, outputs: Tensor, wanted: Ints) -> Tensor:
        assert self.class_loss is not None
        return self.class_loss(outputs, wanted)

    def figures(self, answers: FloatArray, examples: Examples) -> Figures:
        return classification(gold_labels(examples), self.names(answers), self.labels)

    def figure_names(self, examples: Examples) -> Collection[str]:
        gold = gold_labels(examples)
        return classification(gold, gold, self.labels)

    def dev_loss(self, answers: FloatArray, examples: Examples) -> float:
        return mean_loss(answers, self.wanted(examples))

    def names(self, answers: FloatArray) -> list[str]:
        """The likeliest label of each row."""
        return [self.labels[place] for place in answers.argmax(axis=1)]

    def parts(self) -> Parts:
        return Parts({}, {"labels": self.labels})


class ClassLoss:
    """The cross-entropy of classes, summed over a batch, with their weights and with label smoothing."""

    def __init__(self, targets: Ints, n_classes: int, options: Any) -> None:
        self.weights = class_weights(targets, n_classes, options.class_weights)
        self.smoothing: float = options.label_smoothing

    def __call__(self, logits: Tensor, targets: Ints) -> Tensor:
        """The loss of the logits ``(B, classes)``."""
        weights = None if self.weights is None else self.weights.to(logits.device)
        wanted = torch.from_numpy(targets).to(logits.device)
        return F.cross_entropy(logits, wanted, weight=weights, reduction="sum", label_smoothing=self.smoothing)


def class_weights(targets: Ints, n_classes: int, how: str) -> Tensor | None:
    """Balanced: n / (classes · count), so that all classes have the same total weight; 0 for a class not seen."""
    if how == "none":
        return None
    counts = np.bincount(targets, minlength=n_classes)
    weights = np.divide(len(targets), (counts > 0).sum() * counts, out=np.zeros(n_classes), where=counts > 0)
    return torch.from_numpy(weights.astype(np.float32))


def check_classes(data: Examples) -> None:
    """Check that the labels are classes, and at least two."""
    if data.scored:
        raise TrainingError(f"the labels of {data.path} are numbers, but this learns classes (use scored=False)")
    if len(data.labels) < 2:
        raise TrainingError(f"all texts of {data.path} have one label: there is nothing to learn")


def gold_labels(examples: Examples) -> list[str]:
    """The label of each row by name."""
    return [examples.labels[int(target)] for target in examples.targets]


def softmax(logits: FloatArray) -> FloatArray:
    """The softmax along the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True), dtype=np.float32)


def mean_loss(logits: FloatArray, targets: Ints) -> float:
    """The mean -log p(target) of the rows whose target is known (not -1)."""
    known = targets >= 0
    return -float(np.log(softmax(logits)[known, targets[known]] + 1e-12).mean()) if known.any() else 0.0
