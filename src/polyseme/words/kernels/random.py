"""Compiled: random numbers, and sampling in proportion to weights in constant time (Walker's alias method)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

_HALF = np.uint64(32)


class Alias(NamedTuple):
    """The alias table: column i gives i if a random 32-bit number is below ``threshold[i]``, else ``other[i]``."""

    threshold: NDArray[np.uint32]
    other: NDArray[np.int32]


@njit(nogil=True, cache=True, forceinline=True)
def next_random(state: NDArray[np.uint64]) -> Any:
    """64 random bits (xorshift64*); ``state`` is one number other than 0."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return x * np.uint64(0x2545F4914F6CDD1D)


@njit(nogil=True, cache=True, forceinline=True)
def below(state: NDArray[np.uint64], n: int) -> Any:
    """A random integer from 0 to n - 1, for n up to 2³²."""
    return np.int64(((next_random(state) >> _HALF) * np.uint64(n)) >> _HALF)


@njit(nogil=True, cache=True, forceinline=True)
def draw(state: NDArray[np.uint64], threshold: NDArray[np.uint32], other: NDArray[np.int32]) -> Any:
    """A random index, drawn in proportion to the weights of the alias table."""
    bits = next_random(state)
    i = np.int64(((bits >> _HALF) * np.uint64(threshold.size)) >> _HALF)
    return i if np.uint32(bits & np.uint64(0xFFFFFFFF)) < threshold[i] else np.int64(other[i])


@njit(nogil=True, cache=True)
def _fill_alias(share: NDArray[np.float64], threshold: NDArray[np.uint32], other: NDArray[np.int32]) -> None:
    # ``share`` has mean 1. Columns below 1 are filled up from columns above it; two stacks grow towards each other.
    n = share.size
    stack = np.empty(n, dtype=np.int64)
    low, high = 0, n
    for i in range(n):
        if share[i] < 1:
            stack[low] = i
            low += 1
        else:
            high -= 1
            stack[high] = i
    while low > 0 and high < n:
        low -= 1
        small, large = stack[low], stack[high]
        threshold[small] = np.uint32(min(share[small] * 4294967296.0, 4294967295.0))
        other[small] = large
        share[large] -= 1 - share[small]
        if share[large] < 1:
            high += 1
            stack[low] = large
            low += 1


def alias_table(weights: NDArray[np.float64]) -> Alias:
    """The alias table for positive weights."""
    share = weights * (len(weights) / weights.sum())
    threshold = np.full(len(weights), 0xFFFFFFFF, dtype=np.uint32)
    other = np.arange(len(weights), dtype=np.int32)
    _fill_alias(share, threshold, other)
    return Alias(threshold, other)


def random_state(*numbers: int) -> NDArray[np.uint64]:
    """A state for ``next_random``, different for each combination of numbers (seed, epoch, chunk …)."""
    return np.random.SeedSequence(numbers).generate_state(1, np.uint64) | np.uint64(1)
