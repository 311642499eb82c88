"""A small task: predict which of three classes a row of numbers belongs to. One of its gradients is sparse."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.training.task import BatchTask, Loss, Part, Score, Task


class ToyNet(nn.Module):
    def __init__(self, *, dropout=0.0) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.rows = nn.Embedding(20, 6, sparse=True)
        self.out = nn.Linear(6, 3)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.dropout(torch.tanh(self.rows(ids)).mean(dim=1)))


def rows_of(epoch: int, index: int, size: int) -> np.ndarray:
    """Rows of four ids; the class of a row is its greatest id modulo 3."""
    return np.random.default_rng((7, epoch, index)).integers(0, 20, (size, 4))


def summed_loss(module: nn.Module, ids: np.ndarray) -> Tensor:
    targets = torch.from_numpy(ids.max(axis=1) % 3)
    return F.cross_entropy(module(torch.from_numpy(ids)), targets, reduction="sum")


def held_out() -> np.ndarray:
    return np.random.default_rng(99).integers(0, 20, (200, 4))


class ToyTask(Task):
    """The task with its own gradients; the loss of step ``poison`` is NaN."""

    def __init__(self, *, poison: int | None = None, after_step=None, batch=16, shareable=True) -> None:
        self.module = ToyNet()
        self.poison, self.after_step, self.size, self.shareable = poison, after_step, batch, shareable
        self.carried_sum = torch.zeros(1)

    def n_steps(self, epoch: int) -> int:
        return 8

    def gradients(self, epoch: int, index: int, part: Part) -> Loss:
        ids = rows_of(epoch, index, self.size)[part.rank :: part.of]
        if not len(ids):  # more processes than rows
            return Loss(0.0, 0)
        loss = summed_loss(self.module, ids) / len(ids)
        if self.poison is not None and epoch * 8 + index == self.poison:
            loss = loss * float("nan")
        loss.backward()
        self.carried_sum += float(loss.detach())
        if self.after_step:
            self.after_step(epoch * 8 + index)
        return Loss(float(loss.detach()) * len(ids), len(ids))

    def evaluate(self, module: nn.Module) -> Score:
        with torch.no_grad():
            loss = float(summed_loss(module, held_out())) / 200
        return Score(loss, {"held_out_loss": loss})

    def carried(self) -> dict[str, Tensor]:
        return {"sum": self.carried_sum}

    def carry(self, tensors: dict[str, Tensor]) -> None:
        self.carried_sum = tensors["sum"]


class ToyBatchTask(BatchTask):
    """The same with autograd, scored by accuracy. Batches have ``sizes`` rows, in turn."""

    unit = "rows"

    def __init__(self, *, sizes=(16,), n_batches=8, dropout=0.0, groups=None) -> None:
        self.module = ToyNet(dropout=dropout)
        self.sizes, self.n_batches, self.given_groups = sizes, n_batches, groups or (lambda epoch: {})

    def n_steps(self, epoch: int) -> int:
        return self.n_batches

    def rows(self, epoch: int, index: int) -> np.ndarray:
        return rows_of(epoch, index, self.sizes[index % len(self.sizes)])

    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        ids = self.rows(epoch, index)[part.rank :: part.of]
        return summed_loss(self.module, ids), len(ids)

    def evaluate(self, module: nn.Module) -> Score:
        with torch.no_grad():
            found = module(torch.from_numpy(held_out())).argmax(dim=1).numpy()
        accuracy = float((found == held_out().max(axis=1) % 3).mean())
        return Score(accuracy, {"accuracy": accuracy}, higher_is_better=True)

    def groups(self, epoch: int):
        return self.given_groups(epoch)
