"""Options of every model that the training loop trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from polyseme.options import option
from polyseme.training.schedules import SCHEDULES

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
