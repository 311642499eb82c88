"""The top-k search for many queries at once, shared by words, occurrences and evaluations.

The scores of a block of rows against all queries are one matrix product that stays in the cache. The k-th best score of
the first block is a bar: of each later block only the few scores that reach it are kept, so that the selection costs
one comparison per score instead of a partition of all scores.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable
from itertools import islice
from typing import Any

import numpy as np

from polyseme.arrays import FloatArray, Ints

_BLOCK = 8192  # rows per matrix product: 8192 × 32 queries × 4 bytes = 1 MB
_PENDING = 128  # candidates per query before all but the best are dropped and the bar is raised


Rows = Any  # (n, D): a NumPy array, or words.sparse.SparseRows, which has shape, len, [rows] and methods used below


def products(rows: Rows, others: Rows) -> FloatArray:
    """(n, D) × (m, D) -> (n, m), dense."""
    scores: FloatArray = rows @ others.T if isinstance(rows, np.ndarray) else rows.products(others)
    return scores


def dense_rows(rows: Rows) -> FloatArray:
    """The rows as a NumPy array."""
    dense: FloatArray = rows if isinstance(rows, np.ndarray) else rows.dense()
    return dense


def squared_lengths(rows: Rows) -> FloatArray:
    """(n, D) -> (n,)"""
    if not isinstance(rows, np.ndarray):
        sparse: FloatArray = rows.squares()
        return sparse
    squares = np.empty(len(rows), dtype=np.float32)
    for start in range(0, len(rows), 1 << 16):
        block = rows[start : start + (1 << 16)]
        np.einsum("ij,ij->i", block, block, out=squares[start : start + len(block)])
    return squares


def nearest_rows(rows: Rows, inverse_norms: FloatArray, questions: FloatArray, topn: int) -> tuple[Ints, FloatArray]:
    """For each unit vector in ``questions`` (q, d), the ``rows`` (n, d) with the greatest cosine, best first.

    Returns row numbers and cosines, both (q, min(topn, n)); among equal cosines the lower row comes first. Rows with
    NaN are never returned; if too few others are left, the result ends in cosines of -inf.
    """

    def cosines(start: int) -> FloatArray:
        block = slice(start, start + _BLOCK)
        scores = products(rows[block], questions)  # (b, q): faster than (q, b) for few queries
        with np.errstate(invalid="ignore"):  # infinity times 0 is NaN, and such a row is never returned
            scores *= inverse_norms[block, None]
        return scores

    blocks = (cosines(start) for start in range(0, len(rows), _BLOCK))
    return best_of_blocks(blocks, len(questions), min(topn, len(rows)))


def best_of_blocks(blocks: Iterable[FloatArray], n_questions: int, topn: int) -> tuple[Ints, FloatArray]:
    """Row numbers and scores, both (q, topn), of the highest scores in consecutive blocks (b, q)."""
    best, start = _Best(n_questions, topn), 0
    for scores in blocks:
        best.offer(scores, start)
        start += len(scores)
    return best.table()


def ranked(
    rows: Iterable[int], scores: Iterable[float], topn: int, leave_out: Container[int] = ()
) -> list[tuple[int, float]]:
    """One line of such a table as ``topn`` pairs: without the rows to leave out, and without what was not found."""
    pairs = zip(rows, scores, strict=True)
    return list(islice((pair for pair in pairs if pair[0] not in leave_out and math.isfinite(pair[1])), topn))


class _Best:
    """The best candidates for each query so far, as flat arrays: query, row, score."""

    def __init__(self, questions: int, k: int) -> None:
        self.shape = (questions, k)
        self.bar = np.full(questions, -np.inf, dtype=np.float32)  # what a score must reach
        self.parts: list[tuple[Ints, Ints, FloatArray]] = []
        self.pending = 0

    def offer(self, scores: FloatArray, start: int) -> None:
        """Keep the scores that reach the bar, from a block whose first row is ``start``."""
        questions, k = self.shape
        if start == 0 and len(scores) > 4 * k > 0:
            self.bar = np.partition(scores.T, -k, axis=1)[:, -k]
            np.nan_to_num(self.bar, copy=False, nan=-np.inf)
        flat = np.flatnonzero(scores >= self.bar)
        row, question = np.divmod(flat, questions)
        self.parts.append((question, row + start, scores.ravel()[flat]))
        self.pending += len(flat)
        if start == 0 or self.pending > _PENDING * questions:
            self._thin()

    def table(self) -> tuple[Ints, FloatArray]:
        """Row numbers and scores, both (q, k), best first."""
        question, rank = self._thin()
        _, place, score = self.parts[0]
        places, scores = np.zeros(self.shape, dtype=np.int64), np.full(self.shape, -np.inf, dtype=np.float32)
        places[question, rank], scores[question, rank] = place, score
        return places, scores

    def _thin(self) -> tuple[Ints, Ints]:
        """Drop all but the k best of each query and raise its bar to the k-th; return the queries and ranks kept."""
        if not self.parts:
            self.parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
        question, place, score = (np.concatenate(arrays) for arrays in zip(*self.parts, strict=True))
        order = np.lexsort((place, -score, question))
        question, place, score = question[order], place[order], score[order]
        rank = np.arange(len(question)) - np.searchsorted(question, question)
        kept = rank < self.shape[1]
        question, rank, place, score = question[kept], rank[kept], place[kept], score[kept]
        self.parts, self.pending = [(question, place, score)], len(question)
        last = rank == self.shape[1] - 1
        # A later row with an equal score loses to the earlier one, so from now on a score must be higher.
        self.bar[question[last]] = np.nextafter(score[last], np.float32(np.inf))
        return question, rank
