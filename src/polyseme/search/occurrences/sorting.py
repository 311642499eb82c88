"""Places: a counting sort that sees its input once, in memory that does not grow with it, and even samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def even_sample(n: int, most: int) -> NDArray[np.int64]:
    """At most ``most`` of the places 0 … n−1, evenly spread, in order."""
    places = np.linspace(0, n - 1, min(n, most)).round().astype(np.int64)
    return places[np.diff(places, prepend=-1) > 0]  # np.unique takes ten times as long


class Places:
    """Gives each key the next free place of its group; groups are contiguous in the order of their keys."""

    def __init__(self, counts: NDArray[np.integer]) -> None:
        self.offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])  # (K + 1,)
        self._next = self.offsets[:-1].copy()

    def skip(self, counts: NDArray[np.integer]) -> None:
        """Count places as taken already, so many of each group."""
        self._next += counts

    def take(self, keys: NDArray[np.integer]) -> NDArray[np.int64]:
        """The places of the next keys; equal keys keep their order."""
        order = np.argsort(keys, kind="stable")
        ranked = keys[order]
        starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(keys) else np.zeros(0, dtype=np.int64)
        sizes = np.diff(np.r_[starts, len(keys)])
        within = np.arange(len(keys)) - np.repeat(starts, sizes)
        places = np.empty(len(keys), dtype=np.int64)
        places[order] = self._next[ranked] + within
        self._next[ranked[starts]] += sizes
        return places
