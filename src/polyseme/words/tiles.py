"""Passes over the cells of a co-occurrence matrix, tile by tile in random order, on several threads.

A tile is 512×512 words, so that the rows in use stay in the cache; ``kernels/count.py`` explains how pairs are encoded.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from polyseme.words.chunks import Pace, in_threads
from polyseme.words.cooccurrence import Cooccurrence

CELLS = 20_000  # cells per chunk
Places = NDArray[np.int64]
Train = Callable[[Places, int, int], NDArray[np.float64]]  # (tiles, epoch, chunk) -> (cost, updates)


def tiles_across(n_words: int) -> int:
    """The number of tiles per row of the matrix."""
    from polyseme.words.kernels.count import TILE, TILE_BITS

    return (n_words + TILE - 1) >> TILE_BITS


def tile_bounds(cells: Cooccurrence) -> Places:
    """Where the cells of each tile begin, and where those of the last end."""
    from polyseme.words.kernels.count import CELL_BITS

    n_tiles = tiles_across(cells.n_words) ** 2
    return np.searchsorted(cells.keys, np.arange(n_tiles + 1, dtype=np.uint64) << CELL_BITS)


def pass_over_tiles(
    bounds: Places, train: Train, *, epoch: int, seed: int, threads: int, pace: Pace
) -> tuple[float, float]:
    """Train on every cell once; return the sum of costs and the number of updates."""
    tiles = np.random.default_rng((seed, epoch)).permutation(np.flatnonzero(np.diff(bounds)))
    sizes = np.diff(bounds)[tiles]
    cuts = np.unique(np.append(np.searchsorted(np.cumsum(sizes), np.arange(0, bounds[-1], CELLS)), len(tiles)))

    def work(chunk: int) -> NDArray[np.float64]:
        return train(tiles[cuts[chunk] : cuts[chunk + 1]], epoch, chunk)

    total = np.zeros(2)
    for chunk, result in in_threads(work, range(len(cuts) - 1), threads):
        total += result
        done = int(sizes[cuts[chunk] : cuts[chunk + 1]].sum())
        pace.add(done, "cells", epoch=epoch + 1, loss=total[0] / max(total[1], 1))
    return float(total[0]), float(total[1])
