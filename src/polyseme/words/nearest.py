"""Exact nearest rows of many questions at once.

The scores of a block of rows against all questions are one matrix product that stays in the cache; of each block
only the best are kept. The best k of a line lie in the k groups with the greatest maxima, so a line costs one pass of
``max`` and a sort of few candidates instead of a partition of everything.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polyseme.types import FloatArray

_BLOCK = 8192  # rows per matrix product: 8192 × 32 questions × 4 bytes = 1 MB
_GROUP = 64  # rows per maximum


def nearest_rows(
    rows: FloatArray, inverse_norms: FloatArray, questions: FloatArray, topn: int
) -> tuple[NDArray[np.int64], FloatArray]:
    """For each of ``questions`` (q, d), of length one, the ``rows`` (n, d) with the greatest cosine, best first.

    Returns places and cosines, both (q, min(topn, n)); of equal cosines the lower place comes first.
    """
    topn = min(topn, len(rows))
    places, scores = [], []
    for start in range(0, len(rows), _BLOCK):
        block = slice(start, start + _BLOCK)
        cosines = questions @ rows[block].T  # (q, b)
        cosines *= inverse_norms[block]
        best = _best_columns(cosines, topn)  # (q, <= topn)
        places.append(best + start)
        scores.append(np.take_along_axis(cosines, best, axis=1))
    all_places, all_scores = np.concatenate(places, axis=1), np.concatenate(scores, axis=1)
    order = np.lexsort((all_places, -all_scores))[:, :topn]
    return np.take_along_axis(all_places, order, axis=1), np.take_along_axis(all_scores, order, axis=1)


def _best_columns(scores: FloatArray, k: int) -> NDArray[np.int64]:
    """The columns of the k greatest of each line, in no order."""
    lines, columns = scores.shape
    if k >= columns:
        return np.broadcast_to(np.arange(columns, dtype=np.int64), (lines, columns))
    groups = columns // _GROUP
    if columns % _GROUP or k * 2 > groups:
        return np.argpartition(-scores, k - 1, axis=1)[:, :k]
    grouped = scores.reshape(lines, groups, _GROUP)
    best_groups = np.argpartition(-grouped.max(axis=2), k - 1, axis=1)[:, :k]  # (q, k)
    candidates = np.take_along_axis(grouped, best_groups[:, :, None], axis=1).reshape(lines, -1)  # (q, k * group)
    inside = np.argpartition(-candidates, k - 1, axis=1)[:, :k]
    found: NDArray[np.int64] = np.take_along_axis(best_groups, inside // _GROUP, axis=1) * _GROUP + inside % _GROUP
    return found
