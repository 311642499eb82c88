"""Compiled: the hashes of the n-grams of many words, and the sums of their rows."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints


@njit(cache=True, nogil=True)
def _mixed(h: np.uint32, byte: np.uint8) -> np.uint32:
    # fastText's FNV-1a treats a byte as a signed char
    return np.uint32((h ^ np.uint32(np.int8(byte))) * np.uint32(16777619))


@njit(cache=True, nogil=True)
def _hashes(
    data: NDArray[np.uint8], bounds: Ints, minn: int, maxn: int, marked: bool, into: NDArray[np.uint32]
) -> Ints:
    """Write the n-gram hashes of each spelling ``data[bounds[i]:bounds[i + 1]]`` to ``into``; return their offsets.

    If ``marked``, the first and last characters are boundary marks, which are not n-grams by themselves. If ``into``
    has size 0, hashes are only counted.
    """
    offsets = np.zeros(len(bounds), np.int64)
    found = 0
    for i in range(len(bounds) - 1):
        begin, end = bounds[i], bounds[i + 1]
        for start in range(begin, end):
            if data[start] & 0xC0 == 0x80:  # inside a character
                continue
            h, at = np.uint32(2166136261), start
            for n in range(1, maxn + 1):
                if at == end:
                    break
                h = _mixed(h, data[at])
                at += 1
                while at < end and data[at] & 0xC0 == 0x80:
                    h = _mixed(h, data[at])
                    at += 1
                if n >= minn and not (marked and n == 1 and (start == begin or at == end)):
                    if len(into):
                        into[found] = h
                    found += 1
        offsets[i + 1] = found
    return offsets


def ngram_hashes(spellings: list[bytes], minn: int, maxn: int, *, marked: bool) -> tuple[Ints, NDArray[np.uint32]]:
    """Offsets and hashes; spelling i has ``hashes[offsets[i]:offsets[i + 1]]``, in fastText's order."""
    data = np.frombuffer(b"".join(spellings), dtype=np.uint8)
    bounds = np.zeros(len(spellings) + 1, np.int64)
    np.cumsum([len(spelling) for spelling in spellings], out=bounds[1:])
    size = _hashes(data, bounds, minn, maxn, marked, np.empty(0, np.uint32))[-1]
    hashes = np.empty(size, np.uint32)
    return _hashes(data, bounds, minn, maxn, marked, hashes), hashes


@njit(cache=True, nogil=True)
def add_rows(rows: FloatArray, offsets: Ints, ids: Ints, vectors: FloatArray) -> Ints:
    """Add the rows ``ids[offsets[i]:offsets[i + 1]]`` to vector i, skipping ids of -1; return how many were added."""
    found = np.zeros(len(vectors), np.int64)
    for i in range(len(vectors)):
        for at in range(offsets[i], offsets[i + 1]):
            row = ids[at]
            if row >= 0:
                found[i] += 1
                for d in range(vectors.shape[1]):
                    vectors[i, d] += rows[row, d]
    return found
