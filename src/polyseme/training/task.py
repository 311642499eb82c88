"""What a model gives to the loop: its weights, its batches and their losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor, nn


class Part(NamedTuple):
    """Which share of every batch a process works on."""

    rank: int = 0
    of: int = 1

    def rows(self, whole: Tensor) -> Tensor:
        """This process's rows of a tensor with one for each row of the batch."""
        return whole[self.rank :: self.of]


class Loss(NamedTuple):
    """The sum of the losses of a part of a batch, and how many predictions it has."""

    total: float
    n: int


@dataclass(frozen=True)
class Score:
    """A held-out score, less is better, and the facts to show for it."""

    value: float
    facts: dict[str, float] = field(default_factory=dict)


class Task(ABC):
    """Something to learn. Every random choice of a step follows from the seed and the step's position alone.

    So a training that was killed and resumed draws what the unbroken one drew.
    """

    module: nn.Module
    reports: int = 1  # in an epoch
    shareable: bool = True  # whether steps depend on the weights only, so that processes may take them in any order

    @abstractmethod
    def n_steps(self, epoch: int) -> int:
        """Batches of an epoch."""

    @abstractmethod
    def gradients(self, epoch: int, index: int, part: Part) -> Loss:
        """Leave the gradient of (the part's losses) / (predictions of the whole batch) in the parameters."""

    @abstractmethod
    def evaluate(self, module: nn.Module) -> Score | None:
        """The held-out score of these weights; None where nothing is held out."""

    def carried(self) -> dict[str, Tensor]:
        """What goes from step to step beside the weights, one entry on the first axis for each row of the part."""
        return {}

    def carry(self, tensors: dict[str, Tensor]) -> None:  # noqa: B027 (most tasks carry nothing)
        """Take up what ``carried`` gave."""
