"""What a pair of texts is to be given: one of some classes, or a score on a scale.

A score r between two whole numbers is learned as the sparse distribution of Tai et al. (2015) over the whole numbers of
the scale, p(⌊r⌋) = ⌊r⌋ + 1 - r and p(⌊r⌋ + 1) = r - ⌊r⌋, by its divergence; the answer is Σ k p_k. Or as one number, by
its squared error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from polyseme.arrays import FloatArray
from polyseme.data.examples import Examples
from polyseme.errors import FormatError, TrainingError
from polyseme.learn.metrics import PRIMARY, Figures, classification, scores
from polyseme.learn.token_vectors import Ints
from polyseme.sentences.learned import ClassLoss, check_classes, softmax, targets_of
from polyseme.store.folder import Parts
from polyseme.tasks.scale import MOST_STEPS, spread, steps_of


class Goal(ABC):
    """Outputs, their loss, and what they say."""

    n_outputs: int
    primary: str

    @abstractmethod
    def targets(self, examples: Examples) -> NDArray[Any]:
        """What is to be learned, row by row."""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: NDArray[Any]) -> Tensor:
        """The sum of the losses."""

    @abstractmethod
    def figures(self, outputs: FloatArray, examples: Examples) -> Figures:
        """How good the outputs are."""

    @abstractmethod
    def parts(self) -> Parts:
        """What the model's folder keeps of it."""


class Classes(Goal):
    """One of several labels."""

    primary = PRIMARY["pairs"]

    def __init__(self, labels: Sequence[str], loss: ClassLoss | None = None) -> None:
        """``loss`` is for training only."""
        self.labels, self.class_loss = list(labels), loss
        self.n_outputs = len(self.labels)

    def targets(self, examples: Examples) -> Ints:
        return targets_of(examples, self.labels)

    def loss(self, outputs: Tensor, targets: NDArray[Any]) -> Tensor:
        assert self.class_loss is not None
        return self.class_loss(outputs, targets)

    def figures(self, outputs: FloatArray, examples: Examples) -> Figures:
        return classification(gold_labels(examples), self.names(outputs), self.labels)

    def names(self, outputs: FloatArray) -> list[str]:
        """The likeliest label of each row."""
        return [self.labels[place] for place in outputs.argmax(axis=1)]

    def parts(self) -> Parts:
        return Parts({}, {"labels": self.labels})


class Scale(Goal):
    """A score from ``low`` to ``high``."""

    primary = PRIMARY["scores"]

    def __init__(self, low: float, high: float, regression: str) -> None:
        self.low, self.high = low, high
        self.steps = steps_of(low, high)
        self.distributed = regression == "distribution" and 1 < len(self.steps) <= MOST_STEPS
        self.n_outputs = len(self.steps) if self.distributed else 1

    def targets(self, examples: Examples) -> NDArray[np.float32]:
        return np.asarray(examples.targets, dtype=np.float32)

    def loss(self, outputs: Tensor, targets: NDArray[Any]) -> Tensor:
        if not self.distributed:
            wanted = torch.from_numpy((targets - self.low) / max(self.high - self.low, 1e-6)).to(outputs.device)
            return F.mse_loss(torch.sigmoid(outputs[:, 0]), wanted, reduction="sum")
        wanted = torch.from_numpy(self.spread(targets)).to(outputs.device)
        return F.kl_div(torch.log_softmax(outputs, dim=1), wanted, reduction="sum")

    def spread(self, targets: NDArray[Any]) -> FloatArray:
        """Scores as distributions over the whole numbers, ``(n, steps)``."""
        return spread(targets, self.steps)

    def values(self, outputs: FloatArray) -> FloatArray:
        """The score of each row."""
        if self.distributed:
            return np.asarray(softmax(outputs) @ self.steps, dtype=np.float32)
        return np.asarray(self.low + (self.high - self.low) / (1 + np.exp(-outputs[:, 0])), dtype=np.float32)

    def figures(self, outputs: FloatArray, examples: Examples) -> Figures:
        return scores(np.asarray(examples.targets, dtype=np.float64).tolist(), self.values(outputs).tolist())

    def parts(self) -> Parts:
        return Parts({"scale": np.array([self.low, self.high])}, {})


def gold_labels(examples: Examples) -> list[str]:
    """The label of each row by name."""
    return [examples.labels[int(target)] for target in examples.targets]


def goal_of(examples: Examples, options: Any) -> Goal:
    """What the examples ask for."""
    if not examples.scored:
        check_classes(examples)
        targets = np.asarray(examples.targets, dtype=np.int64)
        return Classes(examples.labels, ClassLoss(targets, len(examples.labels), options))
    low, high = float(np.min(examples.targets)), float(np.max(examples.targets))
    if low == high:
        raise TrainingError(f"all scores of {examples.path} are {low:g}: there is nothing to learn")
    return Scale(low, high, options.regression)


def goal_from(parts: Parts, options: Any) -> Goal:
    """The goal that ``parts`` kept."""
    scale = parts.tensors.get("scale")
    if scale is not None and scale.shape == (2,) and np.isfinite(scale).all():
        return Scale(float(scale[0]), float(scale[1]), options.regression)
    if len(parts.tables.get("labels", [])) < 2:
        raise FormatError("the model folder was altered: it has neither labels nor a scale")
    return Classes(parts.tables["labels"])
