"""Where a training is, how far that is, and what one step is made of."""

from __future__ import annotations

import math
from dataclasses import dataclass

from polyseme.errors import TrainingError
from polyseme.training.optimisers import Optimiser, clip_gradients
from polyseme.training.options import TrainingOptions
from polyseme.training.processes import Group
from polyseme.training.schedules import rate_factor
from polyseme.training.task import Loss, Task


@dataclass
class Position:
    """The next batch, and the steps done before it."""

    epoch: int = 0
    index: int = 0
    step: int = 0

    def advance(self, n_steps: int) -> None:
        """Go on to the next batch of an epoch with ``n_steps``."""
        self.step += 1
        self.index += 1
        if self.index >= n_steps:
            self.epoch, self.index = self.epoch + 1, 0


def progress_of(position: Position, n_steps: int, seconds: float, options: TrainingOptions) -> float:
    """The share of the training that is done, by epochs or by time, whichever is further."""
    by_epochs = (position.epoch + position.index / max(n_steps, 1)) / options.epochs if options.epochs else 0.0
    by_time = seconds / (60 * options.minutes) if options.minutes else 0.0
    return min(1.0, max(by_epochs, by_time)) if options.epochs or options.minutes else 1.0


def take_step(
    task: Task, optimiser: Optimiser, options: TrainingOptions, position: Position, progress: float, group: Group
) -> Loss:
    """Gradients of one batch, joined over the processes of ``group``, clipped and applied."""
    for parameter in optimiser.parameters.values():
        parameter.grad = None
    loss = task.gradients(position.epoch, position.index, group.part)
    loss = group.join(optimiser.parameters, loss)
    norm = clip_gradients(optimiser.parameters.values(), options.clip_norm) if options.clip_norm else 0.0
    if not (math.isfinite(loss.total) and math.isfinite(norm)):
        raise TrainingError(
            f"the loss or its gradient is not a number any more at step {position.step + 1} of epoch "
            f"{position.epoch + 1}: try a lower lr than {options.lr:g}, or clip_norm"
        )
    optimiser.step(options.lr * rate_factor(options.schedule, progress, position.step, options.warmup))
    return loss
