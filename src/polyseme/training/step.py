"""One training step, the position of the next one, and the progress at a position."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from polyseme.errors import TrainingError
from polyseme.training.device import seed_draws
from polyseme.training.optimisers import Optimiser, clip_gradients
from polyseme.training.options import TrainingOptions
from polyseme.training.schedules import Standing, rate_factor
from polyseme.training.task import Loss, Task
from polyseme.training.torchrun import Group


@dataclass
class Position:
    """The next batch (epoch and index), and the number of steps before it."""

    epoch: int = 0
    index: int = 0
    step: int = 0

    def advance(self, n_batches: int, accumulate: int = 1) -> None:
        """Advance by a step of ``accumulate`` batches in an epoch of ``n_batches``; the last step may have fewer."""
        self.step += 1
        self.index += accumulate
        if self.index >= n_batches:
            self.epoch, self.index = self.epoch + 1, 0


def progress_of(position: Position, n_batches: int, time_share: float, options: TrainingOptions) -> float:
    """The share of the training that is done, by epochs or by time, whichever is greater."""
    if not options.epochs and not options.minutes:
        return 1.0
    by_epochs = (position.epoch + position.index / max(n_batches, 1)) / options.epochs if options.epochs else 0.0
    return min(1.0, max(by_epochs, time_share))


class Stepper:
    """Takes training steps: gradients of one or more batches are summed over the processes, clipped and applied."""

    def __init__(self, task: Task, optimiser: Optimiser, options: TrainingOptions, group: Group) -> None:
        self.task, self.optimiser, self.options, self.group = task, optimiser, options, group
        self._epoch = -1  # the epoch whose parameter groups the optimiser uses

    def step(self, position: Position, progress: float, setbacks: int) -> Loss:
        """Update the weights with the batches at ``position``, and return the sum of their losses."""
        options, optimiser = self.options, self.optimiser
        if position.epoch != self._epoch:
            optimiser.arrange(self.task.groups(position.epoch))
            self._epoch = position.epoch
        if options.accumulate == self.group.part.of == 1:
            loss = self._batch(position.epoch, position.index)
        else:
            loss = self._joined(position)
        norm = clip_gradients(optimiser.parameters.values(), options.clip_norm) if options.clip_norm else 0.0
        if not (math.isfinite(loss.total) and math.isfinite(norm)):
            raise TrainingError(
                "the loss or its gradient is no longer a finite number at step "
                f"{position.step + 1} of epoch {position.epoch + 1}: try a lower lr than "
                f"{options.lr:g}, or clip_norm"
            )
        now = Standing(position.step, progress, position.epoch, setbacks, options.warmup, options.decay)
        optimiser.step(options.lr * rate_factor(options.schedule, now))
        return loss

    def _batch(self, epoch: int, index: int) -> Loss:
        """Compute the gradient of the mean loss over this process's part of a batch, into ``.grad``."""
        for parameter in self.optimiser.parameters.values():
            parameter.grad = None
        # torch's random numbers (dropout) depend on the position too, and differ between the parts of a batch.
        place = (self.options.seed, epoch, index, self.group.part.rank)
        seed_draws(int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0] >> 1), self.task.device)
        return self.task.gradients(epoch, index, self.group.part)

    def _joined(self, position: Position) -> Loss:
        """Compute the gradient of the mean loss over several batches and processes, weighted by their predictions."""
        parameters, sums, total = self.optimiser.parameters, dict[str, Tensor](), Loss(0.0, 0)
        end = min(position.index + self.options.accumulate, self.task.n_steps(position.epoch))
        for index in range(position.index, end):
            loss = self._batch(position.epoch, index)
            _add_gradients(parameters, sums, loss.n)
            total = total.plus(loss)
        for name, parameter in parameters.items():
            parameter.grad = sums.get(name)
        total = self.group.join(parameters, total)
        for parameter in parameters.values():
            if parameter.grad is not None:
                parameter.grad.div_(max(total.n, 1))
        return total


def _add_gradients(parameters: Mapping[str, Tensor], sums: dict[str, Tensor], n: int) -> None:
    """Add the gradients times ``n`` to the sums."""
    for name, parameter in parameters.items():
        if parameter.grad is not None and n:
            gradient = parameter.grad.mul_(n)
            sums[name] = sums[name] + gradient if name in sums else gradient
