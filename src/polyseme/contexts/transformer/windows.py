"""Overlapping windows over a long sequence: the subwords that each window reads, and those it gives the states of.

subwords  0 ……………………………………………………… n
window 1  [------------------]
window 2            [------------------]
states    [-------------)[-------------)…      change in the middle of the overlap; in a causal model at its end,
                                               where the left context is longest
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple


class Window(NamedTuple):
    """Reads the subwords ``start … end`` and gives the states of ``first … last``."""

    start: int
    end: int
    first: int
    last: int

    @classmethod
    def whole(cls, n: int) -> Window:
        """One window over all subwords."""
        return cls(0, n, 0, n)


def windows(n: int, room: int, *, causal: bool) -> list[Window]:
    """Windows of ``room`` subwords over ``n``, each overlapping the previous by half; one window if all fit."""
    if n <= room:
        return [Window.whole(n)]
    stride = max(room // 2, 1)
    starts = [*range(0, n - room, stride), n - room]
    bounds = [0]
    for start, following in pairwise(starts):
        end = start + room
        bounds.append(end if causal else (following + end) // 2)
    bounds.append(n)
    return [
        Window(start, start + room, first, last)
        for start, first, last in zip(starts, bounds[:-1], bounds[1:], strict=True)
    ]
