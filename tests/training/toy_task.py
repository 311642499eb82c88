"""A small thing to learn: which of three classes a row of numbers belongs to. One of its gradients is sparse."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.training.task import Loss, Part, Score, Task


class ToyNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.rows = nn.Embedding(20, 6, sparse=True)
        self.out = nn.Linear(6, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(torch.tanh(self.rows(ids)).mean(dim=1))


class ToyTask(Task):
    """Rows of four ids; the class is the greatest id modulo 3. ``poison`` is a step whose loss is not a number."""

    def __init__(self, *, poison: int | None = None, after_step=None, batch=16, shareable=True) -> None:
        self.module = ToyNet()
        self.poison, self.after_step, self.size, self.shareable = poison, after_step, batch, shareable
        self.carried_sum = torch.zeros(1)

    def n_steps(self, epoch: int) -> int:
        return 8

    def gradients(self, epoch: int, index: int, part: Part) -> Loss:
        random = np.random.default_rng((7, epoch, index))
        ids = random.integers(0, 20, (self.size, 4))[part.rank :: part.of]
        if not len(ids):  # more processes than rows
            return Loss(0.0, 0)
        targets = torch.from_numpy(ids.max(axis=1) % 3)
        loss = F.cross_entropy(self.module(torch.from_numpy(ids)), targets, reduction="sum") / self.size
        if self.poison is not None and epoch * 8 + index == self.poison:
            loss = loss * float("nan")
        loss.backward()
        self.carried_sum += float(loss.detach())
        if self.after_step:
            self.after_step(epoch * 8 + index)
        return Loss(float(loss.detach()) * self.size, len(ids))

    def evaluate(self, module: nn.Module) -> Score:
        ids = np.random.default_rng(99).integers(0, 20, (200, 4))
        with torch.no_grad():
            loss = F.cross_entropy(module(torch.from_numpy(ids)), torch.from_numpy(ids.max(axis=1) % 3))
        return Score(float(loss.detach()), {"held_out_loss": float(loss.detach())})

    def carried(self) -> dict[str, Tensor]:
        return {"sum": self.carried_sum}

    def carry(self, tensors: dict[str, Tensor]) -> None:
        self.carried_sum = tensors["sum"]
