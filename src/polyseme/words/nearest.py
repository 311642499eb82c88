"""Exact nearest rows of many questions at once.

The scores of a block of rows against all questions are one matrix product that stays in the cache. The k-th best of
the first block is a bar: of each later block only the few scores above it are kept, so that choosing costs a comparison
instead of a partition of everything.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polyseme.nouns import FloatArray

_BLOCK = 8192  # rows per matrix product: 8192 × 32 questions × 4 bytes = 1 MB
_PENDING = 4096  # candidates per question before they are thinned out and the bar is raised


def nearest_rows(
    rows: FloatArray, inverse_norms: FloatArray, questions: FloatArray, topn: int
) -> tuple[NDArray[np.int64], FloatArray]:
    """For each of ``questions`` (q, d), of length one, the ``rows`` (n, d) with the greatest cosine, best first.

    Returns places and cosines, both (q, min(topn, n)); of equal cosines the lower place comes first. Rows that are not
    numbers are never found; where too few others are left, the answer ends in cosines of -inf.
    """
    topn = min(topn, len(rows))
    best = _Best(len(questions), topn)
    for start in range(0, len(rows), _BLOCK):
        block = slice(start, start + _BLOCK)
        cosines = rows[block] @ questions.T  # (b, q): quicker than (q, b) for few questions
        cosines *= inverse_norms[block, None]
        best.offer(cosines, start)
    return best.table()


class _Best:
    """The best candidates of each question so far, as flat arrays: question, place, cosine."""

    def __init__(self, questions: int, k: int) -> None:
        self.shape = (questions, k)
        self.bar = np.full(questions, -np.inf, dtype=np.float32)  # what a cosine must reach
        self.parts: list[tuple[NDArray[np.int64], NDArray[np.int64], FloatArray]] = []
        self.pending = 0

    def offer(self, cosines: FloatArray, start: int) -> None:
        """Keep what reaches the bar of a block whose first row is ``start``."""
        questions, k = self.shape
        if start == 0 and len(cosines) > 4 * k > 0:
            self.bar = np.partition(cosines.T, -k, axis=1)[:, -k]
            np.nan_to_num(self.bar, copy=False, nan=-np.inf)
        flat = np.flatnonzero(cosines >= self.bar)
        row, question = np.divmod(flat, questions)
        self.parts.append((question, row + start, cosines.ravel()[flat]))
        self.pending += len(flat)
        if self.pending > _PENDING * questions:
            self._thin()

    def table(self) -> tuple[NDArray[np.int64], FloatArray]:
        """Places and cosines, (q, k), best first."""
        question, rank = self._thin()
        _, place, cosine = self.parts[0]
        places, cosines = np.zeros(self.shape, dtype=np.int64), np.full(self.shape, -np.inf, dtype=np.float32)
        places[question, rank], cosines[question, rank] = place, cosine
        return places, cosines

    def _thin(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Drop all but the k best of each question, and raise the bars to the k-th; the questions and ranks kept."""
        question, place, cosine = (np.concatenate(arrays) for arrays in zip(*self.parts, strict=True))
        order = np.lexsort((place, -cosine, question))
        question, place, cosine = question[order], place[order], cosine[order]
        rank = np.arange(len(question)) - np.searchsorted(question, question)
        kept = rank < self.shape[1]
        question, rank, place, cosine = question[kept], rank[kept], place[kept], cosine[kept]
        self.parts, self.pending = [(question, place, cosine)], len(question)
        last = rank == self.shape[1] - 1
        self.bar[question[last]] = cosine[last]
        return question, rank
