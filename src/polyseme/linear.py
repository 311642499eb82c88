"""The main directions of many vectors, for every room that needs them. 主成分"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polyseme.nouns import FloatArray

_BLOCK = 1 << 16  # rows multiplied at a time


def main_directions(rows: FloatArray, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The ``n`` directions in which the rows are longest, ``(D, n)``, and the sums of their squares there, ``(n,)``.

    Of centred rows they are the principal components; of rows as they are, the right singular vectors. The sign of a
    direction is arbitrary: its largest entry is made positive, so that equal rows give equal directions.
    """
    products = np.zeros((rows.shape[1], rows.shape[1]))
    for start in range(0, len(rows), _BLOCK):
        block = np.asarray(rows[start : start + _BLOCK])
        products += block.T @ block
    values, vectors = np.linalg.eigh(products)  # rising
    main = vectors[:, ::-1][:, :n]
    largest = np.take_along_axis(main, np.abs(main).argmax(axis=0)[None], axis=0)[0]
    return main * np.where(largest < 0, -1.0, 1.0), np.maximum(values[::-1][:n], 0)
