"""Learning-rate schedules: a factor of the learning rate, from how far the training is."""

from __future__ import annotations

import math

from polyseme.errors import OptionError


def rate_factor(schedule: str, progress: float, step: int, warmup: int) -> float:
    """The factor at ``step`` (from 0) when the share ``progress`` of all training lies behind.

    Warm-up rises as (step + 1) / warmup. Then

        constant 1        linear 1 - p        cosine (1 + cos πp) / 2        inverse-sqrt √(w / max(step + 1, w))
    """
    rising = min(1.0, (step + 1) / warmup) if warmup else 1.0
    progress = min(max(progress, 0.0), 1.0)
    if schedule == "constant":
        return rising
    if schedule == "linear":
        return rising * (1 - progress)
    if schedule == "cosine":
        return rising * (1 + math.cos(math.pi * progress)) / 2
    if schedule == "inverse-sqrt":
        first = max(warmup, 1)
        return rising * math.sqrt(first / max(step + 1, first))
    raise OptionError(f"no schedule is called {schedule!r}")
