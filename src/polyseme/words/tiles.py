"""Passes over the cells of a co-occurrence matrix, tile by tile in random order, on several threads.

A tile is 512×512 words, so that the rows in use stay in the cache; ``kernels/count.py`` explains how pairs are encoded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import TrainingError
from polyseme.interfaces import FloatArray
from polyseme.training.checkpoint import Snapshot
from polyseme.training.run import Run
from polyseme.words.cooccurrence import Cooccurrence
from polyseme.words.epochs import Pace, available_threads, in_threads, preparing

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


def learn_in_tiles(
    bounds: Places,
    train: Train,
    weights: Mapping[str, FloatArray],
    options: Any,
    run: Run,
    *,
    before: Callable[[int], None] = lambda epoch: None,
    save_every: int = 1,
) -> None:
    """Train for all epochs, or those left of a resumed run; reports each, and saves ``weights`` every few epochs.

    ``before`` is called with the number of each epoch before it begins.
    """
    snapshot = run.resumed()
    first = int(snapshot.state["epoch"]) if snapshot else 0
    if snapshot:
        snapshot.fill(**weights)
    with preparing(run.progress):
        train(bounds[:0], 0, 0)  # no tiles: only compiles, so that the measured speed excludes it
    threads, n_cells = available_threads(options.threads), int(bounds[-1])
    pace = Pace(run.progress, options.epochs * n_cells, done=first * n_cells)
    for epoch in range(first, options.epochs):
        began = time.monotonic()
        before(epoch)
        cost, updates = pass_over_tiles(bounds, train, epoch=epoch, seed=options.seed, threads=threads, pace=pace)
        if not np.isfinite(cost) or not all(np.isfinite(m.sum(dtype=np.float64)) for m in weights.values()):
            raise TrainingError(
                f"training diverged in epoch {epoch + 1}: a weight is no longer a number; lower lr ({options.lr})"
            )
        speed = updates / max(time.monotonic() - began, 1e-9)
        run.curve.append({"epoch": epoch + 1, "loss": cost / updates, "updates_per_second": round(speed)})
        if (epoch + 1) % save_every == 0:
            run.save(Snapshot(dict(weights), {"epoch": epoch + 1}))
