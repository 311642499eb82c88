"""Co-occurrence counts of words, in bounded memory. 共现计数

A hash table of fixed size counts pairs. When it is full, its pairs are sorted and written to disk as a run, and at the
end the runs are merged range by range.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polyseme.disk.atomic import Scratch
from polyseme.errors import TrainingError, as_given
from polyseme.interfaces import Progress
from polyseme.text.corpus import Corpus
from polyseme.words.epochs import chunk_bounds, preparing, read_only
from polyseme.words.vocabulary_plan import WordPlan

SortedPairs = tuple[NDArray[np.uint64], NDArray[np.float32]]  # sorted pairs and their sums

SLOT_BYTES = 16 * 2  # a slot of the table, and the same again while its pairs are sorted


@dataclass
class Cooccurrence:
    """Sorted pairs (see ``kernels/count.py``) and their sums; memory-mapped if they were merged on disk."""

    keys: NDArray[np.uint64]
    sums: NDArray[np.float32]
    n_words: int
    symmetric: bool
    runs: int = 1
    folder: Scratch | None = field(default=None, repr=False)  # the temporary folder, alive as long as the arrays are

    def __len__(self) -> int:
        return len(self.keys)

    def indices(self, start: int = 0, stop: int | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and column indices of the pairs ``start:stop``."""
        from polyseme.words.kernels.count import CELL_BITS, TILE, TILE_BITS

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
    stretches: NDArray[np.int64] | None = None,
) -> Cooccurrence:
    """Count the pairs of a corpus, or of its ``stretches`` (n, 2) only, with ``memory`` megabytes for the table."""
    from polyseme.words.kernels.count import EMPTY, count_some_pairs

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
    from polyseme.words.kernels.count import EMPTY

    full = np.flatnonzero(keys != EMPTY)
    found = keys[full]
    order = np.argsort(found)
    run = found[order], sums[full[order]].astype(np.float32)
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
