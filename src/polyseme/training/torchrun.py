"""Data-parallel training with torchrun: each process has a replica and a part of the batch; gradients are summed.

torchrun --nproc-per-node 2 -m polyseme train elmo CORPUS -o MODEL

Choosing the torch device, and seeding its random numbers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from polyseme.errors import OptionError
from polyseme.training.task import Loss, Part

_NONE, _DENSE, _SPARSE = 0, 1, 2  # kinds of gradients


class Group:
    """The processes that train together. This base class stands for a single process."""

    part = Part()

    def join(self, parameters: Mapping[str, Tensor], loss: Loss) -> Loss:
        """Sum gradients and losses over the processes."""
        return loss

    def whole(self, rows: Tensor) -> Tensor:
        """The rows of all processes in batch order; ``Part.rows`` is the inverse."""
        return rows

    def leader_says(self, *values: float) -> tuple[float, ...]:
        """The first process's values, so that clocks and Ctrl-C lead to the same decision in all processes."""
        return values


class Replicas(Group):
    """Processes started by torchrun, which communicate by gloo on the CPU and by nccl on GPUs."""

    def __init__(self) -> None:
        self.part = Part(dist.get_rank(), dist.get_world_size())

    def join(self, parameters: Mapping[str, Tensor], loss: Loss) -> Loss:
        kinds = self._kinds(list(parameters.values()))
        self._join_dense([p for p, kind in zip(parameters.values(), kinds, strict=True) if kind == _DENSE])
        for parameter, kind in zip(parameters.values(), kinds, strict=True):
            if kind == _SPARSE:
                parameter.grad = self._joined_rows(_no_rows(parameter) if parameter.grad is None else parameter.grad)
        sums = torch.tensor([loss.total, float(loss.n)], dtype=torch.float64)
        dist.all_reduce(sums)
        return Loss(float(sums[0]), int(sums[1]))

    def whole(self, rows: Tensor) -> Tensor:
        n = torch.tensor(len(rows))
        dist.all_reduce(n)
        whole = rows.new_zeros(int(n), *rows.shape[1:])
        self.part.rows(whole).copy_(rows)
        dist.all_reduce(whole)  # each row is nonzero in one process only
        return whole

    def leader_says(self, *values: float) -> tuple[float, ...]:
        said = torch.tensor(values, dtype=torch.float64)
        dist.broadcast(said, 0)
        return tuple(said.tolist())

    @staticmethod
    def _kinds(parameters: list[Tensor]) -> list[int]:
        # A process without rows of this batch has no gradients, but must take part in the same collective calls. A
        # parameter without a gradient in any process (frozen, or of another task) keeps none: zeros would move it.
        found = [_NONE if p.grad is None else _SPARSE if p.grad.is_sparse else _DENSE for p in parameters]
        kinds = torch.tensor(found, dtype=torch.uint8)
        dist.all_reduce(kinds, dist.ReduceOp.MAX)
        return [int(kind) for kind in kinds.tolist()]

    @staticmethod
    def _join_dense(parameters: list[Tensor]) -> None:
        for parameter in parameters:
            if parameter.grad is None:  # not used in this part of the batch
                parameter.grad = torch.zeros_like(parameter)
        gradients = [p.grad.reshape(-1) for p in parameters if p.grad is not None]
        if not gradients:
            return
        flat = torch.cat(gradients)
        dist.all_reduce(flat)
        for parameter, piece in zip(parameters, torch.split(flat, [g.numel() for g in gradients]), strict=True):
            parameter.grad = torch.empty_like(parameter).copy_(piece.view_as(parameter))

    @staticmethod
    def _joined_rows(gradient: Tensor) -> Tensor:
        gradient = gradient.coalesce()
        gathered: list[Any] = [None] * dist.get_world_size()
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in gathered]
        dist.all_gather(sizes, torch.tensor([gradient.indices().shape[1]]))
        most = int(max(int(size) for size in sizes))
        rows = gradient.indices().new_zeros(most)
        values = gradient.values().new_zeros(most, *gradient.shape[1:])
        rows[: gradient.indices().shape[1]] = gradient.indices()[0]
        values[: gradient.indices().shape[1]] = gradient.values()
        all_rows, all_values = [torch.empty_like(rows) for _ in sizes], [torch.empty_like(values) for _ in sizes]
        dist.all_gather(all_rows, rows)
        dist.all_gather(all_values, values)
        kept_rows = torch.cat([r[: int(n)] for r, n in zip(all_rows, sizes, strict=True)])
        kept_values = torch.cat([v[: int(n)] for v, n in zip(all_values, sizes, strict=True)])
        return torch.sparse_coo_tensor(kept_rows[None], kept_values, gradient.shape, check_invariants=False).coalesce()


def _no_rows(parameter: Tensor) -> Tensor:
    """An empty sparse gradient for a parameter that has none."""
    values = parameter.detach().new_zeros(0, *parameter.shape[1:])
    nowhere = torch.zeros(1, 0, dtype=torch.int64, device=values.device)
    return torch.sparse_coo_tensor(nowhere, values, parameter.shape, check_invariants=False)


@contextmanager
def joined_processes(device: torch.device) -> Iterator[Group]:
    """The group of processes that torchrun started, or this process alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or not dist.is_available():
        yield Group()
        return
    joins_now = not dist.is_initialized()
    if joins_now:
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    try:
        yield Replicas()
    finally:
        if joins_now:
            dist.destroy_process_group()


def chosen_device(name: str) -> torch.device:
    """The device of this name; ``auto`` is a GPU if there is one. torchrun's processes are spread over several GPUs."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if name == "cuda":
        if not torch.cuda.is_available():
            raise OptionError("device is cuda, but torch finds no such GPU here: use auto or cpu")
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    if name == "mps" and not torch.backends.mps.is_available():
        raise OptionError("device is mps, but torch finds no Apple GPU here: use auto or cpu")
    return torch.device(name)


def seed_draws(seed: int, device: torch.device) -> None:
    """Seed torch's generators on the CPU and on the device.

    ``torch.manual_seed`` does this for every possible device and records the call stack each time, which takes 2 ms.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)
