"""Dynamic pooling 动态池化: compare two texts of different lengths with a fixed number of features.

Socher et al., "Dynamic Pooling and Unfolding Recursive Autoencoders for Paraphrase Detection", NIPS 2011: the distances
between all words and phrases of one text and all of the other are divided into a grid of ``size`` × ``size`` cells, and
the minimum of each cell is kept; rows and columns of a smaller matrix are repeated first. Three more features compare
the numbers in both texts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyseme.interfaces import FloatArray

NUMBERS = 3


def pooled_distances(first: FloatArray, second: FloatArray, size: int) -> FloatArray:
    """Pooled Euclidean distances, ``(n, D), (m, D) -> (size, size)``; zeros if one text has no nodes."""
    if not len(first) or not len(second):
        return np.zeros((size, size), dtype=np.float32)
    squares = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1) - 2 * first @ second.T
    return least_of_cells(least_of_cells(np.sqrt(np.maximum(squares, 0)), size).T, size).T


def least_of_cells(matrix: FloatArray, size: int) -> FloatArray:
    """The minimum of each of ``size`` groups of rows, the last perhaps with one row more: ``(n, m) -> (size, m)``."""
    if len(matrix) < size:
        matrix = np.repeat(matrix, -(-size // len(matrix)), axis=0)
    each, larger = divmod(len(matrix), size)
    sizes = np.full(size, each)
    sizes[size - larger :] += 1 if larger else 0
    return np.asarray(np.minimum.reduceat(matrix, np.cumsum(sizes) - sizes, axis=0), dtype=np.float32)


def number_features(first: Sequence[str], second: Sequence[str]) -> NDArray[np.float32]:
    """Whether the numbers of both texts are equal; equal and not none; one a proper subset of the other."""
    a, b = ({word for word in words if any(map(str.isdecimal, word))} for words in (first, second))
    return np.array([a == b, a == b and bool(a), a < b or b < a], dtype=np.float32)
