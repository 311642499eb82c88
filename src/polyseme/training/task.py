"""The interface between a model and the training loop: the weights, the batches and their losses.

Several tasks that share weights (多任务训练): each batch comes from one task.

With shares, the task of each batch is drawn at random in these proportions. Without them, an epoch goes once through
the batches of all tasks, shuffled together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.arrays import Ints
from polyseme.errors import OptionError, close_matches
from polyseme.neural.batches import BudgetBatches
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


class RowsTask(BatchTask):
    """A task over rows of inputs, in batches of rows of similar length."""

    batches: BudgetBatches

    def n_steps(self, epoch: int) -> int:
        return self.batches.n_steps(epoch)

    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        rows = self.batches.rows(epoch, index)[part.rank :: part.of]
        return (self.loss_of(rows), len(rows)) if len(rows) else (torch.zeros(()), 0)

    @abstractmethod
    def loss_of(self, rows: Ints) -> Tensor:
        """The sum of the losses of these rows."""


def read_shares(text: str | None, names: Iterable[str], usual: Mapping[str, float]) -> dict[str, float]:
    """The share of each task, from a text such as ``corpus=5 nli=1``; tasks it does not name get ``usual``, or 1."""
    known = list(names)
    shares = {name: usual.get(name, 1.0) for name in known}
    for one in (text or "").split():
        name, _, value = one.partition("=")
        if name not in known:
            raise OptionError(f"option 'shares' names {name!r}, which is not given{close_matches(name, known)}")
        try:
            shares[name] = float(value)
        except ValueError:
            shares[name] = -1.0
        if not 0 <= shares[name] < float("inf"):
            raise OptionError(f"option 'shares' takes NAME=NUMBER for each source, not {one!r}")
    if not sum(shares.values()):
        raise OptionError("option 'shares' gives every source 0: give one of them more")
    return shares


class MixedTask(BatchTask):
    """Tasks by name, with their modules in one ModuleDict. The score is the mean of their held-out scores."""

    unit = "examples"

    def __init__(self, tasks: Mapping[str, BatchTask], shares: Mapping[str, float] | None, seed: int) -> None:
        self.tasks, self.seed, self.names = dict(tasks), seed, list(tasks)
        total = sum(shares.values()) if shares else 1.0
        self.shares = [shares[name] / total for name in self.names] if shares else None
        self.module = nn.ModuleDict({name: task.module for name, task in tasks.items()})
        self.reports = max(task.reports for task in tasks.values())
        self._plan = lru_cache(maxsize=2)(self._make_plan)
        self._drawn_until = lru_cache(maxsize=None)(self._count_until)

    def n_steps(self, epoch: int) -> int:
        return sum(task.n_steps(epoch) for task in self.tasks.values())

    def _make_plan(self, epoch: int) -> list[tuple[str, int, int]]:
        """For every step of the epoch: the task, and the epoch and batch index within that task."""
        if self.shares is None:
            batches = [(name, epoch, index) for name in self.names for index in range(self.tasks[name].n_steps(epoch))]
            return [batches[i] for i in np.random.default_rng((self.seed, epoch)).permutation(len(batches))]
        done, plan = Counter(self._drawn_until(epoch)), []
        for name in self._drawn(epoch):
            plan.append((name, *self._own_place(name, done[name])))
            done[name] += 1
        return plan

    def _drawn(self, epoch: int) -> list[str]:
        random = np.random.default_rng((self.seed, epoch))
        return [self.names[i] for i in random.choice(len(self.names), self.n_steps(epoch), p=self.shares)]

    def _count_until(self, epoch: int) -> Counter[str]:
        """How often each task was drawn before this epoch."""
        return self._drawn_until(epoch - 1) + Counter(self._drawn(epoch - 1)) if epoch else Counter()

    def _own_place(self, name: str, number: int) -> tuple[int, int]:
        """The epoch and batch index within a task of the ``number``-th batch drawn from it."""
        epoch = 0
        while number >= (n := self.tasks[name].n_steps(epoch)):
            number, epoch = number - n, epoch + 1
        return epoch, number

    def groups(self, epoch: int) -> dict[str, ParameterGroup]:
        """The parameter groups of all tasks."""
        return {
            f"{name}.{start}": group for name in self.names for start, group in self.tasks[name].groups(epoch).items()
        }

    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        name, own_epoch, own_index = self._plan(epoch)[index]
        return self.tasks[name].loss(own_epoch, own_index, part)

    def evaluate(self, module: nn.Module) -> Score | None:
        assert isinstance(module, nn.ModuleDict)
        values: list[float] = []
        facts: dict[str, float] = {}
        for name, task in self.tasks.items():
            score = task.evaluate(module[name])
            if score is not None:
                values.append(1 - score.value if score.higher_is_better else score.value)
                facts |= {f"{name}_{fact}": value for fact, value in score.facts.items()}
        return Score(float(np.mean(values)), facts) if values else None
