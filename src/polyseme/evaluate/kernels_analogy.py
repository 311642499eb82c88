"""Compiled: the best answer to each question, one block of the vocabulary after another."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc", "contract", "arcp"})
def better_answers(
    cosines: NDArray[np.float32],
    triples: NDArray[np.int64],
    banned: NDArray[np.int64],
    start: int,
    product: bool,
    best: NDArray[np.int64],
    highest: NDArray[np.float32],
) -> None:
    """Take over the answers of a block that are better than the best so far.

    cosines (G, n): of the G query words with the n words of the block, as (1 + cos)/2 for the product;
    triples (Q, 3): a, b, c as numbers of those G words; banned (Q, k): rows that are not answers, in any block.
    """
    n = cosines.shape[1]
    scores = np.empty(n, dtype=np.float32)
    for q in range(len(triples)):
        a, b, c = cosines[triples[q, 0]], cosines[triples[q, 1]], cosines[triples[q, 2]]
        top = np.float32(-1e30)
        if product:
            for i in range(n):
                scores[i] = b[i] * c[i] / (a[i] + np.float32(1e-6))
        else:
            for i in range(n):
                scores[i] = b[i] + c[i] - a[i]
        for row in banned[q]:
            if start <= row < start + n:
                scores[row - start] = np.float32(-1e30)
        for i in range(n):
            top = max(top, scores[i])
        if top > highest[q]:  # of equals the more frequent word stays
            highest[q] = top
            for i in range(n):
                if scores[i] == top:
                    best[q] = start + i
                    break
