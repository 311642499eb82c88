"""Arrays of numbers: their types, rows of unit length, the best of many scores, principal components. 数组"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
Ints = NDArray[np.int64]
T = TypeVar("T", bound=np.generic)

_BLOCK = 1 << 16  # rows multiplied at a time


def within_square(plane: FloatArray) -> FloatArray:
    """Points in the plane, (n, 2), moved and scaled, alike in both directions, to be within [-1, 1]."""
    centred = plane - (plane.max(axis=0) + plane.min(axis=0)) / 2
    widest = float(np.abs(centred).max(initial=0))
    return np.asarray(centred / widest if widest > 0 else centred, dtype=np.float32)


def filled_rows(matrix: FloatArray) -> NDArray[np.bool_]:
    """Which rows are not all zeros; nearly always the first number decides."""
    filled = matrix[:, 0] != 0 if matrix.shape[1] else np.zeros(len(matrix), dtype=bool)
    doubtful = np.flatnonzero(~filled)
    filled[doubtful] = matrix[doubtful].any(axis=1)
    return filled


def unit_rows(matrix: FloatArray) -> FloatArray:
    """The rows scaled to length one; a zero row stays zero."""
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.asarray(matrix / np.where(norms > 0, norms, 1), dtype=np.float32)


def best_places(scores: FloatArray, topn: int) -> NDArray[np.int64]:
    """Places of the ``topn`` highest of one question's scores, (n,), highest first; of equal ones the lower place.

    What has no finite score, such as a vector with NaN, is nobody's neighbour: then there are fewer places.
    """
    kept = np.argpartition(-scores, topn)[:topn] if topn < len(scores) else np.arange(len(scores))
    kept = kept[np.isfinite(scores[kept])]
    return kept[np.lexsort((kept, -scores[kept]))]


def gathered(data: NDArray[T], starts: Ints, sizes: Ints) -> NDArray[T]:
    """Concatenate the slices of ``data`` with these starts and sizes."""
    ends = np.cumsum(sizes)
    places = np.repeat(starts - (ends - sizes), sizes)
    places += np.arange(len(places))
    slices: NDArray[T] = data.take(places, mode="clip")
    return slices


def main_directions(rows: FloatArray, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The ``n`` directions of largest sum of squares, ``(D, n)``, and those sums, ``(n,)``.

    For centred rows these are the principal components; otherwise the right singular vectors. The sign of a
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


def principal_components(rows: FloatArray, n: int) -> NDArray[np.float64]:
    """The rows projected on their first ``n`` principal components, ``(rows, n)``; fewer if the rank is lower."""
    centred = np.asarray(rows, dtype=np.float64)
    centred = centred - centred.mean(axis=0)
    directions, squares = main_directions(centred, n)
    mean_squares = squares / max(len(rows), 1)
    told_apart = mean_squares > 1e-9 * max(float(mean_squares.max(initial=0.0)), 1e-9)
    return np.asarray(centred @ directions[:, told_apart])


def principal_plane(rows: FloatArray) -> FloatArray:
    """The rows projected on their first two principal components, ``(rows, 2)``: the simplest map."""
    components = principal_components(rows, 2)
    return np.pad(components, ((0, 0), (0, 2 - components.shape[1]))).astype(np.float32)
