"""Nearest occurrences among all words: an inverted file (IVF). 倒排单元

Spherical k-means learns √n / 2 centres; each occurrence belongs to the cell of its nearest centre, and a query is
compared with the codes in the ``probes`` cells whose centres are nearest to it (Jégou et al., "Product Quantization for
Nearest Neighbor Search", 2011, section 4). The lists hold places in the index, and the codes are read where they are on
disk: no second copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, unit_rows
from polyseme.errors import FormatError
from polyseme.interfaces import Progress
from polyseme.search.occurrences.index_folder import create, release
from polyseme.search.occurrences.short_codes import BLOCK, decode, nearest
from polyseme.search.occurrences.sorting import Places

TARGET = 0.95  # recall of the ten nearest that is asked of the search
QUERIES = 200
_POINTS_PER_CENTRE = 48
_ROUNDS = 8  # of k-means
_PRODUCTS = 1 << 22  # of vectors and centres at a time


@dataclass
class Cells:
    """Centres ``(k, d)``, where each cell's list begins ``(k + 1,)``, and the lists ``(n,)``."""

    centres: FloatArray
    offsets: NDArray[np.int64]
    rows: NDArray[Any]
    probes: int

    def candidates(self, vector: FloatArray) -> NDArray[np.int64]:
        """The occurrences in the cells nearest to a vector, in rising order."""
        near = np.argsort(-(self.centres @ vector), kind="stable")[: self.probes]
        found = np.concatenate([self.rows[self.offsets[c] : self.offsets[c + 1]] for c in near])
        return np.sort(found.astype(np.int64))

    def tensors(self) -> dict[str, NDArray[Any]]:
        """What stands among the index's tables."""
        return {"cells.centres": self.centres, "cells.offsets": self.offsets}

    @classmethod
    def from_tensors(
        cls, arrays: Mapping[str, NDArray[Any]], rows: NDArray[Any], probes: int, dim: int, where: str
    ) -> Cells:
        """What ``tensors`` gave, checked against the lists."""
        centres, offsets = arrays.get("cells.centres"), arrays.get("cells.offsets")
        if centres is None or offsets is None or centres.ndim != 2 or centres.shape[1] != dim or probes < 1:
            raise FormatError(f"{where} was altered: its cells do not fit its codes")
        sizes = np.diff(offsets)
        if len(sizes) != len(centres) or offsets[0] != 0 or offsets[-1] != len(rows) or (sizes < 0).any():
            raise FormatError(f"{where} was altered: its cells do not hold its occurrences")
        return cls(centres, offsets, rows, probes)


def build_cells(
    codes: NDArray[Any], step: FloatArray, file: Path, *, seed: int, progress: Progress
) -> tuple[Cells, float]:
    """Cells over all codes, the lists written to ``file``, and their measured recall of the ten nearest.

    A code ``(d,)`` times ``step`` ``(d,)`` is its vector: of vectors that are not coded, ``step`` is 1.
    """
    n = len(codes)
    k = max(1, round(n**0.5 / 2))  # half as many as are usual: half the work, and as many as needed are visited
    rng = np.random.default_rng(seed)
    sample = np.sort(rng.choice(n, size=min(n, k * _POINTS_PER_CENTRE), replace=False))
    progress("cells: centres", 0, 1)
    centres = _centres(np.concatenate([decode(rows, step) for rows in _picked(codes, sample)]), k, rng)
    progress("cells: centres", 1, 1)
    aside = file.with_name(".assigned.npy")  # on disk too: memory does not grow with the index
    assigned = create(aside, (n,), np.dtype(np.int32))
    for begin in range(0, n, BLOCK):
        block = decode(codes[begin : begin + BLOCK], step)
        assigned[begin : begin + BLOCK] = _nearest_centres(block, centres)
        release(codes)
        progress("cells: occurrences", min(begin + BLOCK, n), n)
    counts = np.zeros(k, dtype=np.int64)
    for begin in range(0, n, BLOCK):
        counts += np.bincount(assigned[begin : begin + BLOCK], minlength=k)
    places = Places(counts)
    rows = create(file, (n,), np.dtype(np.int32 if n < 2**31 else np.int64))
    for begin in range(0, n, BLOCK):
        block_rows = places.take(assigned[begin : begin + BLOCK])
        rows[block_rows] = np.arange(begin, begin + len(block_rows))
    rows.flush()  # type: ignore[attr-defined]
    aside.unlink()
    cells = Cells(centres, places.offsets, rows, 1)
    recall = _choose_probes(cells, codes, step, rng)
    return cells, recall


def _centres(vectors: FloatArray, k: int, rng: np.random.Generator) -> FloatArray:
    """Spherical k-means of vectors of length one, ``(n, d) -> (k, d)``, from ``k`` of them."""
    from scipy.sparse import csr_array

    n = len(vectors)
    centres = vectors[rng.choice(n, k, replace=False)]
    for _ in range(_ROUNDS):
        cells = _nearest_centres(vectors, centres)
        members = csr_array((np.ones(n, dtype=np.float32), cells, np.arange(n + 1)), shape=(n, k))
        sums = np.asarray(members.T @ vectors)
        empty = np.bincount(cells, minlength=k) == 0
        sums[empty] = vectors[rng.choice(n, int(empty.sum()), replace=False)]
        centres = unit_rows(sums)
    return centres


def _nearest_centres(vectors: FloatArray, centres: FloatArray) -> NDArray[np.int64]:
    """The cell of each vector, ``(n, d) -> (n,)``."""
    n = max(_PRODUCTS // len(centres), 1)
    blocks = (vectors[begin : begin + n] for begin in range(0, len(vectors), n))
    return np.concatenate([(block @ centres.T).argmax(axis=1) for block in blocks])


def _picked(codes: NDArray[Any], places: NDArray[np.int64]) -> Iterator[NDArray[Any]]:
    """Codes at rising places, block by block: of the disk no more than a block is held in memory at a time."""
    for begin in range(0, len(codes), BLOCK):
        first, last = np.searchsorted(places, (begin, begin + BLOCK))
        yield codes[places[first:last]]
        release(codes)


def _choose_probes(cells: Cells, codes: NDArray[Any], step: FloatArray, rng: np.random.Generator) -> float:
    # The fewest cells that reach the target, counted against comparing every code; a query does not count itself.
    queries = np.sort(rng.choice(len(codes), size=min(QUERIES, len(codes)), replace=False))
    vectors = decode(codes[queries], step)
    exact = nearest(codes, step, vectors, topn=11)
    recall = 0.0
    for probes in (8, 16, 32, 64, 128, 256, 512):
        cells.probes = min(probes, len(cells.centres))
        found = kept = 0
        for query, vector, expected in zip(queries, vectors, exact, strict=True):
            wanted = expected[expected != query][:10]
            kept += len(wanted)
            found += int(np.isin(wanted, cells.candidates(vector)).sum())
        release(cells.rows)
        recall = found / max(kept, 1)
        if recall >= TARGET or cells.probes == len(cells.centres):
            break
    return recall
