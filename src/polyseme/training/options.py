"""Options that every model trained by the loop has."""

from __future__ import annotations

from dataclasses import dataclass

from polyseme.options import option
from polyseme.training.schedules import SCHEDULES

OPTIMIZERS = ("adamw", "adagrad", "sgd")
DEVICES = ("auto", "cpu", "cuda", "mps")


@dataclass(frozen=True)
class TrainingOptions:
    """How long and how fast to learn. A method's options derive from this and may give other defaults."""

    epochs: int = option(10, "passes over the data", minimum=0)
    minutes: float = option(0.0, "stop after this many minutes, the schedule fitted to them; 0: no limit", minimum=0)
    optimizer: str = option("adamw", "how gradients move the weights", choices=OPTIMIZERS)
    lr: float = option(1e-3, "learning rate", minimum=0)
    schedule: str = option("linear", "how the learning rate falls towards the end", choices=tuple(SCHEDULES))
    warmup: int = option(100, "steps over which the learning rate rises", minimum=0)
    decay: float = option(
        0.5, "factor of the learning rate for an epoch (exponential) or for a report without a better score (plateau)",
        minimum=0, maximum=1,
    )  # fmt: skip
    accumulate: int = option(1, "batches whose gradients make one step", minimum=1)
    clip_norm: float = option(1.0, "bound of the gradient's norm; 0: none", minimum=0)
    weight_decay: float = option(0.0, "decoupled weight decay, of all but biases and norms", minimum=0)
    momentum: float = option(0.0, "share of the last move that goes into the next (sgd)", minimum=0, maximum=1)
    accumulator: float = option(1.0, "first value of the sum of squares (adagrad)", minimum=0)
    patience: int = option(4, "reports without a better held-out score after which to stop; 0: never", minimum=0)
    threads: int | None = option(
        None, "cores to use; unless given, all there are; 1 is reproducible", minimum=1, changes="speed"
    )
    device: str = option("auto", "where to compute; auto: a GPU where there is one", choices=DEVICES, changes="speed")
    seed: int = option(1, "seed of every random choice", minimum=0)
