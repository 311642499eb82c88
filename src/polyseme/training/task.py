"""The interface between a model and the training loop: the weights, the batches and their losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from polyseme.training.optimisers import BETAS, ParameterGroup


class Part(NamedTuple):
    """The part of every batch that a process works on: rows ``rank``, ``rank + of``, …"""

    rank: int = 0
    of: int = 1

    def rows(self, whole: Tensor) -> Tensor:
        """The rows of this process, from a tensor with one row for each of the batch."""
        return whole[self.rank :: self.of]


class Loss(NamedTuple):
    """The sum of the losses over part of a batch, and the number of predictions in it."""

    total: float
    n: int

    def plus(self, other: Loss) -> Loss:
        """The sum of both."""
        return Loss(self.total + other.total, self.n + other.n)


@dataclass(frozen=True)
class Score:
    """A held-out score that selects the best weights, and the figures to show with it."""

    value: float
    facts: dict[str, float] = field(default_factory=dict)
    higher_is_better: bool = False

    def better_than(self, best: float | None) -> bool:
        """Whether this is the best score so far."""
        return best is None or (self.value > best if self.higher_is_better else self.value < best)


class Task(ABC):
    """Something to learn that computes its own gradients; ``BatchTask`` leaves them to autograd.

    The random choices of a step must depend on the seed and the step's position alone (torch's generator is seeded from
    them before every batch), so that a resumed training makes the same choices as an uninterrupted one.
    """

    module: nn.Module
    unit: str = "tokens"  # what a Loss counts; speed is shown in this unit
    reports: int = 1  # per epoch
    betas: tuple[float, float] = BETAS  # of AdamW
    # Whether processes may update the same weights without locks (Hogwild): only if a step depends on nothing but the
    # weights, and if they are small enough for this to be faster than threads.
    shareable: bool = False

    @property
    def device(self) -> torch.device:
        """The device of the weights, where the batches must go too."""
        return next(self.module.parameters()).device

    @abstractmethod
    def n_steps(self, epoch: int) -> int:
        """The number of batches in an epoch."""

    @abstractmethod
    def gradients(self, epoch: int, index: int, part: Part) -> Loss:
        """Set ``.grad`` of the parameters to the gradient of the *mean* loss over this part of a batch (if any)."""

    @abstractmethod
    def evaluate(self, module: nn.Module) -> Score | None:
        """The held-out score of these weights; None if nothing is held out. The module is in evaluation mode."""

    def groups(self, epoch: int) -> Mapping[str, ParameterGroup]:
        """The parameter groups of this epoch, by name prefix; the longest matching prefix applies."""
        return {}

    def carried(self) -> dict[str, Tensor]:
        """Tensors that one step passes to the next (hidden states), with one row for each row of this part."""
        return {}

    def carry(self, tensors: dict[str, Tensor]) -> None:  # noqa: B027 (most tasks carry nothing)
        """Restore the tensors that ``carried`` returned."""


class BatchTask(Task):
    """A task whose gradients come from autograd: a subclass computes the loss of a batch."""

    @abstractmethod
    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        """The sum of the losses over part of a batch, and the number of predictions; 0 if the part is empty."""

    def gradients(self, epoch: int, index: int, part: Part) -> Loss:
        total, n = self.loss(epoch, index, part)
        if not n:
            return Loss(0.0, 0)
        (total / n).backward()  # type: ignore[no-untyped-call]
        return Loss(float(total.detach()), n)
