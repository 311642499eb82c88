"""Options of every model that the training loop trains.

Learning-rate schedules: the factor that multiplies the learning rate at each step.

During the warm-up the factor is also multiplied by (step + 1) / warmup. With p the share of the training that is done:

    constant       1
    linear         1 - p
    cosine         (1 + cos πp) / 2
    inverse-sqrt   √(w / max(step + 1, w)),  w = warmup
    exponential    decay ^ epoch             (completed epochs)
    plateau        decay ^ setbacks          (reports whose held-out score was not the best so far)
    slanted        (1 + 31 q) / 32,          q rising to 1 over the first tenth, then falling to 0 (Howard & Ruder 2018)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from polyseme.errors import OptionError
from polyseme.options import option

RISE, DEEPEST = 0.1, 32  # slanted: the share of the training in which it rises, and the ratio of its peak to its ends


@dataclass(frozen=True)
class TrainingState:
    """The state of training before a step: everything that a schedule can depend on."""

    step: int  # from 0
    progress: float  # the share that is done, 0 … 1
    epoch: int = 0  # from 0
    setbacks: int = 0  # reports so far without a better score
    warmup: int = 0
    decay: float = 0.5


SCHEDULES: dict[str, Callable[[TrainingState], float]] = {
    "constant": lambda now: 1.0,
    "linear": lambda now: 1 - now.progress,
    "cosine": lambda now: (1 + math.cos(math.pi * now.progress)) / 2,
    "inverse-sqrt": lambda now: math.sqrt(max(now.warmup, 1) / max(now.step + 1, now.warmup, 1)),
    "exponential": lambda now: now.decay**now.epoch,
    "plateau": lambda now: now.decay**now.setbacks,
    "slanted": lambda now: _slanted(now.progress),
}


def _slanted(progress: float) -> float:
    share = progress / RISE if progress < RISE else (1 - progress) / (1 - RISE)
    return (1 + share * (DEEPEST - 1)) / DEEPEST


def rate_factor(schedule: str, now: TrainingState) -> float:
    """The factor of the learning rate for the next step."""
    if schedule not in SCHEDULES:
        raise OptionError(f"there is no schedule {schedule!r}; there are {', '.join(SCHEDULES)}")
    rising = min(1.0, (now.step + 1) / now.warmup) if now.warmup else 1.0
    return rising * SCHEDULES[schedule](now)


OPTIMIZERS = ("adamw", "adagrad", "sgd")
DEVICES = ("auto", "cpu", "cuda", "mps")


def schedule_option(usual: str) -> Any:
    """The option ``schedule`` of a method with its own default."""
    return option(usual, "learning rate schedule", choices=tuple(SCHEDULES))


@dataclass(frozen=True)
class TrainingOptions:
    """Options of training and optimisation. A method's options derive from this and may change the defaults."""

    epochs: int = option(10, "passes over the data", minimum=0)
    minutes: float = option(
        0.0, "stop after this many minutes, with the schedule scaled to fit; 0: no limit", minimum=0
    )
    optimizer: str = option("adamw", "optimiser", choices=OPTIMIZERS)
    lr: float = option(1e-3, "learning rate", minimum=0)
    schedule: str = schedule_option("linear")
    warmup: int = option(100, "warm-up steps of the learning rate", minimum=0)
    decay: float = option(
        0.5, "learning rate factor per epoch (exponential) or per report without a better score "
             "(plateau)",
        minimum=0, maximum=1,
    )  # fmt: skip
    accumulate: int = option(1, "gradient accumulation: batches per step", minimum=1)
    clip_norm: float = option(1.0, "maximum gradient norm (clipping); 0: no limit", minimum=0)
    weight_decay: float = option(0.0, "decoupled weight decay, except for biases and norms", minimum=0)
    momentum: float = option(0.0, "momentum (sgd)", minimum=0, maximum=1)
    accumulator: float = option(1.0, "initial sum of squares (adagrad)", minimum=0)
    patience: int = option(4, "early stopping: reports without a better held-out score; 0: never stop", minimum=0)
    threads: int | None = option(None, "CPU cores to use; default: all; 1 is reproducible", minimum=1, changes="speed")
    device: str = option("auto", "device to compute on; auto: a GPU if there is one", choices=DEVICES, changes="speed")
    seed: int = option(1, "random seed", minimum=0)
