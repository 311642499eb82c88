"""What a model gives to the loop: its weights, its batches and their losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from polyseme.training.optimisers import BETAS, ParameterGroup


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

    def plus(self, other: Loss) -> Loss:
        """Both together."""
        return Loss(self.total + other.total, self.n + other.n)


@dataclass(frozen=True)
class Score:
    """A held-out score by which the best weights are chosen, and the facts to show for it."""

    value: float
    facts: dict[str, float] = field(default_factory=dict)
    higher_is_better: bool = False

    def better_than(self, best: float | None) -> bool:
        """Whether this is the best score so far."""
        return best is None or (self.value > best if self.higher_is_better else self.value < best)


class Task(ABC):
    """Something to learn, with gradients of its own making; ``BatchTask`` leaves them to autograd.

    Every random choice of a step follows from the seed and the step's position alone (torch's own generator is seeded
    so before every batch), so that a training that was killed and resumed draws what the unbroken one drew.
    """

    module: nn.Module
    unit: str = "tokens"  # what a Loss counts, and so what the speed is told in
    reports: int = 1  # in an epoch
    betas: tuple[float, float] = BETAS  # of AdamW
    # Whether processes may step on the same weights without waiting for each other: a step depends on nothing but the
    # weights, and they are small enough for that to be faster than threads.
    shareable: bool = False

    @property
    def device(self) -> torch.device:
        """Where the weights are, and so where a batch must go."""
        return next(self.module.parameters()).device

    @abstractmethod
    def n_steps(self, epoch: int) -> int:
        """Batches of an epoch."""

    @abstractmethod
    def gradients(self, epoch: int, index: int, part: Part) -> Loss:
        """Leave the gradient of the *mean* loss of this part of a batch in the parameters (none if it is empty)."""

    @abstractmethod
    def evaluate(self, module: nn.Module) -> Score | None:
        """The held-out score of these weights; None if nothing is held out. The module is in evaluation mode."""

    def groups(self, epoch: int) -> Mapping[str, ParameterGroup]:
        """How parameters learn in this epoch, by the beginning of their names; the longest that fits counts."""
        return {}

    def carried(self) -> dict[str, Tensor]:
        """What goes from step to step next to the weights, one entry on the first axis for each row of the part."""
        return {}

    def carry(self, tensors: dict[str, Tensor]) -> None:  # noqa: B027 (most tasks carry nothing)
        """Take up what ``carried`` gave."""


class BatchTask(Task):
    """Something to learn by automatic differentiation: a subclass gives the loss of a batch."""

    @abstractmethod
    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        """The sum of the losses of a part of a batch, and how many predictions it has; 0 if the part is empty."""

    def gradients(self, epoch: int, index: int, part: Part) -> Loss:
        total, n = self.loss(epoch, index, part)
        if not n:
            return Loss(0.0, 0)
        (total / n).backward()  # type: ignore[no-untyped-call]
        return Loss(float(total.detach()), n)
