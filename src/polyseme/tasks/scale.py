"""Scores as distributions over the whole numbers of their scale (Tai et al., 2015).

p(⌊r⌋) = ⌊r⌋ + 1 - r,   p(⌊r⌋ + 1) = r - ⌊r⌋
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray

MOST_STEPS = 100  # whole numbers of a scale; a longer one is learned as one number


def steps_of(low: float, high: float) -> FloatArray:
    """The whole numbers from below ``low`` to above ``high``."""
    return np.arange(math.floor(low), math.ceil(high) + 1, dtype=np.float32)


def spread(targets: NDArray[Any], steps: FloatArray) -> FloatArray:
    """Scores as distributions over two or more steps, ``(n,) -> (n, steps)``; those outside count as its ends."""
    inside = np.clip(targets, steps[0], steps[-1]) - steps[0]
    below = np.minimum(np.floor(inside).astype(np.int64), len(steps) - 2)
    share = (inside - below).astype(np.float32)
    found = np.zeros((len(targets), len(steps)), dtype=np.float32)
    rows = np.arange(len(targets))
    found[rows, below], found[rows, below + 1] = 1 - share, share
    return found
