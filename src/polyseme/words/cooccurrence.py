"""Co-occurrence counts of words, in bounded memory. 共现计数

A hash table of fixed size counts pairs. When it is full, its pairs are sorted and written to disk as a run, and at the
end the runs are merged range by range.

Passes over the cells of a co-occurrence matrix, tile by tile in random order, on several threads.

A tile is 512×512 words, so that the rows in use stay in the cache; ``kernels/cells.py`` explains how pairs are encoded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints
from polyseme.disk.atomic import Scratch
from polyseme.errors import TrainingError, as_given
from polyseme.interfaces import Progress
from polyseme.text.corpus import Corpus
from polyseme.training.checkpoint import Snapshot
from polyseme.training.run import Run
from polyseme.words.epochs import Pace, available_threads, chunk_bounds, in_threads, preparing, read_only
from polyseme.words.vocabulary_plan import WordPlan

SortedPairs = tuple[NDArray[np.uint64], FloatArray]  # sorted pairs and their sums

SLOT_BYTES = 16 * 2  # a slot of the table, and the same again while its pairs are sorted


@dataclass
class Cooccurrence:
    """Sorted pairs (see ``kernels/cells.py``) and their sums; memory-mapped if they were merged on disk."""

    keys: NDArray[np.uint64]
    sums: FloatArray
    n_words: int
    symmetric: bool
    runs: int = 1
    folder: Scratch | None = field(default=None, repr=False)  # the temporary folder, alive as long as the arrays are

    def __len__(self) -> int:
        return len(self.keys)

    def indices(self, start: int = 0, stop: int | None = None) -> tuple[Ints, Ints]:
        """Row and column indices of the pairs ``start:stop``."""
        from polyseme.words.kernels.cells import CELL_BITS, TILE, TILE_BITS

        keys = np.asarray(self.keys[start:stop])
        tiles = (self.n_words + TILE - 1) >> TILE_BITS
        tile, cell = (keys >> CELL_BITS).astype(np.int64), (keys & np.uint64(TILE * TILE - 1)).astype(np.int64)
        return (tile // tiles) * TILE + (cell >> TILE_BITS), (tile % tiles) * TILE + (cell & (TILE - 1))


def count_pairs(
    corpus: Corpus,
    plan: WordPlan,
    *,
    window: int,
    symmetric: bool,
    harmonic: bool,
    memory: int,
    progress: Progress,
    stretches: Ints | None = None,
) -> Cooccurrence:
    """Count the pairs of a corpus, or of its ``stretches`` (n, 2) only, with ``memory`` megabytes for the table."""
    from polyseme.words.kernels.cells import EMPTY, count_some_pairs

    n_words = len(plan.vocabulary)
    keys: NDArray[np.uint64] = np.full(_slots(memory, len(corpus.ids) * window, window), EMPTY, dtype=np.uint64)
    sums = np.zeros(len(keys), dtype=np.float64)
    ids, offsets = read_only(corpus.ids), read_only(corpus.sentence_offsets)
    folder: Scratch | None = None
    runs: list[SortedPairs] = []
    filled = 0
    if stretches is None:
        bounds = chunk_bounds(corpus.sentence_offsets, 200_000)
        stretches = np.stack([bounds[:-1], bounds[1:]], axis=1)
    count_some = partial(count_some_pairs, ids, offsets, plan.numbers, n_words)
    with preparing(progress):
        count_some(0, 0, window, symmetric, harmonic, keys, sums, 0)
    for at, end in stretches.tolist():
        while at < end:
            at, filled = count_some(at, end, window, symmetric, harmonic, keys, sums, filled)
            if at < end:
                folder = folder or Scratch()
                runs.append(_spilled(_emptied(keys, sums), folder.path / f"run{len(runs)}"))
                filled = 0
        progress("counting pairs", at, len(ids), pairs=filled + sum(len(run[0]) for run in runs))
    last = _emptied(keys, sums)
    if not runs and not len(last[0]):
        raise TrainingError(
            f"no two words of the vocabulary occur in the same sentence: give more text, or {as_given('min_count', 1)}"
        )
    if folder is None:
        return Cooccurrence(*last, n_words, symmetric)
    del keys, sums
    merged = _merged([*runs, last], folder.path, block=max(1 << 16, (memory << 20) // 64))
    return Cooccurrence(*merged, n_words, symmetric, runs=len(runs) + 1, folder=folder)


def _slots(memory: int, most_pairs: int, window: int) -> int:
    """Slots of the hash table, a power of two: as many as fit in memory, but not more than a small text can fill."""
    wanted = min((memory << 20) // SLOT_BYTES, 2 * most_pairs + 8 * window)
    return max(1 << 10, 1 << (wanted.bit_length() - 1), 1 << (8 * window).bit_length())


def _emptied(keys: NDArray[np.uint64], sums: NDArray[np.float64]) -> SortedPairs:
    from polyseme.words.kernels.cells import EMPTY

    full = np.flatnonzero(keys != EMPTY)
    kept = keys[full]
    order = np.argsort(kept)
    run = kept[order], sums[full[order]].astype(np.float32)
    keys.fill(EMPTY)
    return run


def _spilled(run: SortedPairs, path: Path) -> SortedPairs:
    """The run written to files and memory-mapped."""
    np.save(f"{path}.keys.npy", run[0])
    np.save(f"{path}.sums.npy", run[1])
    return np.load(f"{path}.keys.npy", mmap_mode="r"), np.load(f"{path}.sums.npy", mmap_mode="r")


def _merged(runs: list[SortedPairs], folder: Path, block: int) -> SortedPairs:
    """All runs merged into one, adding up one range of about ``block`` pairs after another."""
    sample = max(1, block // (8 * len(runs)))
    marks = np.sort(np.concatenate([keys[::sample] for keys, _ in runs]))[:: max(1, block // sample)][1:]
    places = [np.concatenate(([0], np.searchsorted(keys, marks), [len(keys)])) for keys, _ in runs]
    total = 0
    with open(folder / "keys", "wb") as key_file, open(folder / "sums", "wb") as sum_file:
        for part in range(len(marks) + 1):
            cuts = [slice(place[part], place[part + 1]) for place in places]
            keys = np.concatenate([run[0][cut] for run, cut in zip(runs, cuts, strict=True)])
            sums = np.concatenate([run[1][cut] for run, cut in zip(runs, cuts, strict=True)])
            distinct, where = np.unique(keys, return_inverse=True)
            distinct.tofile(key_file)
            np.bincount(where, weights=sums, minlength=len(distinct)).astype(np.float32).tofile(sum_file)
            total += len(distinct)
    merged_keys = np.memmap(folder / "keys", dtype=np.uint64, mode="r", shape=(total,))
    return merged_keys, np.memmap(folder / "sums", dtype=np.float32, mode="r", shape=(total,))


CELLS = 20_000  # cells per chunk
Train = Callable[[Ints, int, int], NDArray[np.float64]]  # (tiles, epoch, chunk) -> (cost, updates)


def tiles_across(n_words: int) -> int:
    """The number of tiles per row of the matrix."""
    from polyseme.words.kernels.cells import TILE, TILE_BITS

    return (n_words + TILE - 1) >> TILE_BITS


def tile_bounds(cells: Cooccurrence) -> Ints:
    """Where the cells of each tile begin, and where those of the last end."""
    from polyseme.words.kernels.cells import CELL_BITS

    n_tiles = tiles_across(cells.n_words) ** 2
    return np.searchsorted(cells.keys, np.arange(n_tiles + 1, dtype=np.uint64) << CELL_BITS)


def pass_over_tiles(
    bounds: Ints, train: Train, *, epoch: int, seed: int, threads: int, pace: Pace
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
    bounds: Ints,
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
