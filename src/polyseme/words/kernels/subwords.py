"""Compiled: vectors of all words of a model from their own rows and their n-grams' rows."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

_LEFT, _RIGHT = np.uint8(60), np.uint8(62)  # < and >


@njit(cache=True, nogil=True)
def compose(
    data: NDArray[np.uint8],
    bounds: NDArray[np.int64],
    minn: int,
    maxn: int,
    n_buckets: int,
    kept: NDArray[np.int64],
    rows: NDArray[np.float32],
    plain: int,
    vectors: NDArray[np.float32],
) -> None:
    """Turn ``vectors`` from the words' own rows into the means with their n-grams' rows.

    Word i is ``data[bounds[i]:bounds[i + 1]]``; word ``plain`` has no n-grams. ``kept`` holds pairs of a bucket and its
    row, by rising bucket, where only some buckets have rows; it is empty where all have theirs.
    """
    longest = 0
    for i in range(len(bounds) - 1):
        longest = max(longest, bounds[i + 1] - bounds[i])
    marked = np.empty(longest + 2, dtype=np.uint8)  # <word>
    for i in range(len(bounds) - 1):
        if i == plain:
            continue
        size = bounds[i + 1] - bounds[i] + 2
        marked[0] = _LEFT
        marked[1 : size - 1] = data[bounds[i] : bounds[i + 1]]
        marked[size - 1] = _RIGHT
        n = 1 + _add_ngrams(marked[:size], minn, maxn, n_buckets, kept, rows, vectors[i])
        vectors[i] *= np.float32(1.0 / n)


@njit(cache=True, nogil=True)
def _add_ngrams(
    word: NDArray[np.uint8],
    minn: int,
    maxn: int,
    n_buckets: int,
    kept: NDArray[np.int64],
    rows: NDArray[np.float32],
    total: NDArray[np.float32],
) -> int:
    """Add the rows of the n-grams of ``<word>`` to ``total``; how many there were."""
    found = 0
    for start in range(len(word)):
        if word[start] & 0xC0 == 0x80:
            continue
        h = np.uint32(2166136261)
        at = start
        for n in range(1, maxn + 1):
            if at == len(word):
                break
            h = _mixed(h, word[at])
            at += 1
            while at < len(word) and word[at] & 0xC0 == 0x80:
                h = _mixed(h, word[at])
                at += 1
            if n < minn or (n == 1 and (start == 0 or at == len(word))):
                continue
            row = np.int64(h % np.uint32(n_buckets))
            if len(kept):
                place = np.searchsorted(kept[:, 0], row)
                row = kept[place, 1] if place < len(kept) and kept[place, 0] == row else np.int64(-1)
            if row >= 0:
                for d in range(len(total)):
                    total[d] += rows[row, d]
                found += 1
    return found


@njit(cache=True, nogil=True)
def _mixed(h: np.uint32, byte: np.uint8) -> np.uint32:
    # fastText's FNV-1a takes a byte as a signed char
    return np.uint32((h ^ np.uint32(np.int8(byte))) * np.uint32(16777619))
