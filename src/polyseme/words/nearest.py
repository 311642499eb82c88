"""The highest scores of many questions at once: the one search of words, occurrences and evaluations.

The scores of a block of rows against all questions are one matrix product that stays in the cache. The k-th best of
the first block is a bar: of each later block only the few scores above it are kept, so that choosing costs a comparison
instead of a partition of everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.nouns import FloatArray

_BLOCK = 8192  # rows per matrix product: 8192 × 32 questions × 4 bytes = 1 MB
_PENDING = 128  # candidates per question before they are thinned out and the bar is raised


Rows = Any  # (n, D): a NumPy array, or words.sparse.SparseRows, which has shape, len, [rows] and what is below


def products(rows: Rows, others: Rows) -> FloatArray:
    """(n, D) × (m, D) -> (n, m), dense."""
    found: FloatArray = rows @ others.T if isinstance(rows, np.ndarray) else rows.products(others)
    return found


def dense_rows(rows: Rows) -> FloatArray:
    """Some rows with all their zeros."""
    found: FloatArray = rows if isinstance(rows, np.ndarray) else rows.dense()
    return found


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


def nearest_rows(
    rows: Rows, inverse_norms: FloatArray, questions: FloatArray, topn: int
) -> tuple[NDArray[np.int64], FloatArray]:
    """For each of ``questions`` (q, d), of length one, the ``rows`` (n, d) with the greatest cosine, best first.

    Returns places and cosines, both (q, min(topn, n)); of equal cosines the lower place comes first. Rows that are not
    numbers are never found; where too few others are left, the answer ends in cosines of -inf.
    """

    def cosines(start: int) -> FloatArray:
        block = slice(start, start + _BLOCK)
        scores = products(rows[block], questions)  # (b, q): faster than (q, b) for few questions
        scores *= inverse_norms[block, None]
        return scores

    blocks = (cosines(start) for start in range(0, len(rows), _BLOCK))
    return best_of_blocks(blocks, len(questions), min(topn, len(rows)))


def best_of_blocks(blocks: Iterable[FloatArray], n_questions: int, topn: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Places and scores, (q, topn), of the highest scores in blocks (b, q) that follow each other."""
    best, start = _Best(n_questions, topn), 0
    for scores in blocks:
        best.offer(scores, start)
        start += len(scores)
    return best.table()


class _Best:
    """The best candidates of each question so far, as flat arrays: question, place, score."""

    def __init__(self, questions: int, k: int) -> None:
        self.shape = (questions, k)
        self.bar = np.full(questions, -np.inf, dtype=np.float32)  # what a score must reach
        self.parts: list[tuple[NDArray[np.int64], NDArray[np.int64], FloatArray]] = []
        self.pending = 0

    def offer(self, scores: FloatArray, start: int) -> None:
        """Keep what reaches the bar of a block whose first row is ``start``."""
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

    def table(self) -> tuple[NDArray[np.int64], FloatArray]:
        """Places and scores, (q, k), best first."""
        question, rank = self._thin()
        _, place, score = self.parts[0]
        places, scores = np.zeros(self.shape, dtype=np.int64), np.full(self.shape, -np.inf, dtype=np.float32)
        places[question, rank], scores[question, rank] = place, score
        return places, scores

    def _thin(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Drop all but the k best of each question, and raise the bars to the k-th; the questions and ranks kept."""
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
        # An equal score further on loses to the lower place, so from now on it takes a higher one.
        self.bar[question[last]] = np.nextafter(score[last], np.float32(np.inf))
        return question, rank
