"""Compiled: the search of ``nearest.py`` on dense rows, in one call that runs without the interpreter's lock (GIL).

A server answers many clients from one interpreter: a search made of a hundred small NumPy calls would need the GIL a
hundred times, and each time wait for the threads that talk to the clients.
"""

from __future__ import annotations

import numba
import numpy as np

from polyseme.arrays import FloatArray, Ints
from polyseme.words import nearest

_BLOCK = 2048  # rows per matrix product: 2048 × 32 queries × 4 bytes = 256 KB, which fits in the cache


def nearest_rows(
    rows: nearest.Rows, inverse_norms: FloatArray, questions: FloatArray, topn: int
) -> tuple[Ints, FloatArray]:
    """Same as ``nearest.nearest_rows``, which is called if the rows are sparse."""
    if not isinstance(rows, np.ndarray):
        return nearest.nearest_rows(rows, inverse_norms, questions, topn)
    topn = min(topn, len(rows))
    places = np.zeros((len(questions), topn), dtype=np.int64)
    cosines = np.full((len(questions), topn), -np.inf, dtype=np.float32)
    across = np.ascontiguousarray(questions.T)  # (d, q)
    if topn:
        _search(np.ascontiguousarray(rows), inverse_norms, across, places, cosines, _BLOCK)
    return places, cosines


@numba.njit(nogil=True, cache=True)
def _search(
    rows: FloatArray,
    inverse_norms: FloatArray,
    across: FloatArray,
    places: Ints,
    cosines: FloatArray,
    block: int,
) -> None:
    """Fill ``places`` and ``cosines``, (q, k), keeping each line sorted by insertion; insertions are rare."""
    k = places.shape[1]
    for start in range(0, rows.shape[0], block):
        scores = np.dot(rows[start : start + block], across)  # (b, d) × (d, q) -> (b, q)
        for i in range(scores.shape[0]):
            inverse = inverse_norms[start + i]
            for question in range(scores.shape[1]):
                score = scores[i, question] * inverse
                if score > cosines[question, k - 1]:
                    place = k - 1
                    while place > 0 and score > cosines[question, place - 1]:
                        cosines[question, place] = cosines[question, place - 1]
                        places[question, place] = places[question, place - 1]
                        place -= 1
                    cosines[question, place] = score
                    places[question, place] = start + i
