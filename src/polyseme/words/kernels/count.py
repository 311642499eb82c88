"""Compiled: count co-occurrences of words in a hash table of fixed size.

A pair of words (i, j) is encoded as one number whose high bits are the number of its 512×512 tile of the matrix, so
sorting pairs groups them by tile.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

TILE_BITS = 9
TILE = 1 << TILE_BITS
CELL_BITS = np.uint64(2 * TILE_BITS)
EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@njit(nogil=True, cache=True)
def pair_key(i: int, j: int, tiles: int) -> np.uint64:
    """The pair (i, j) as one number; the matrix has ``tiles`` tiles per row."""
    tile = (i >> TILE_BITS) * tiles + (j >> TILE_BITS)
    return (np.uint64(tile) << CELL_BITS) | np.uint64(((i & (TILE - 1)) << TILE_BITS) | (j & (TILE - 1)))


@njit(nogil=True, cache=True)
def _add(keys: NDArray[np.uint64], sums: NDArray[np.float64], key: np.uint64, weight: float) -> int:
    """Add ``weight`` to the pair's sum; return 1 if the pair is new, else 0. The table size is a power of two."""
    mask = np.uint64(len(keys) - 1)
    slot = ((key * _GOLDEN) >> np.uint64(20)) & mask
    while keys[slot] != key:
        if keys[slot] == EMPTY:
            keys[slot] = key
            sums[slot] = weight
            return 1
        slot = (slot + np.uint64(1)) & mask
    sums[slot] += weight
    return 0


@njit(nogil=True, cache=True)
def count_some_pairs(
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    numbers: NDArray[np.int32],
    n_words: int,
    begin: int,
    end: int,
    window: int,
    symmetric: bool,
    harmonic: bool,
    keys: NDArray[np.uint64],
    sums: NDArray[np.float64],
    filled: int,
) -> tuple[int, int]:
    """Count each word of ``ids[begin:end]`` with the ``window`` words before it, until the table is full.

    A pair at distance d weighs 1/d if ``harmonic``, else 1. If ``symmetric``, a pair is stored once for both orders, as
    (smaller, larger); else as (word, word before it). Returns where counting stopped and the number of filled slots.
    """
    tiles = (n_words + TILE - 1) >> TILE_BITS
    sentence = np.searchsorted(offsets, begin, side="right") - 1
    room = len(keys) - len(keys) // 4 - window
    for at in range(begin, end):
        if filled > room:
            return at, filled
        while offsets[sentence + 1] <= at:
            sentence += 1
        word = numbers[ids[at]]
        if word >= n_words:
            continue
        distance, back = 1, at - 1
        while distance <= window and back >= offsets[sentence]:
            other = numbers[ids[back]]
            back -= 1
            if other < n_words:
                weight = 1.0 / distance if harmonic else 1.0
                if symmetric:
                    weight = 2 * weight if word == other else weight
                    key = pair_key(min(word, other), max(word, other), tiles)
                else:
                    key = pair_key(word, other, tiles)
                filled += _add(keys, sums, key, weight)
                distance += 1
    return end, filled
