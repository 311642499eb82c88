"""Compiled: the two stages of WordRank: gradient steps on the cells of some tiles, and exact ranks of contexts.

A cell (i, j) of the co-occurrence matrix, i < j, stands for both (i, j) and (j, i); a diagonal cell for itself only.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polyseme.arrays import FloatArray
from polyseme.words.kernels.count import TILE, TILE_BITS
from polyseme.words.kernels.rows import FAST, INLINE, F, below


@njit(**INLINE)
def _step(
    words: FloatArray,
    i: int,
    contexts: FloatArray,
    j: int,
    coefficient: float,
    negative: int,
    lr: float,
    gradient: FloatArray,
    state: NDArray[np.uint64],
) -> float:
    """Rank context j of word i above ``negative`` random contexts by a margin of 1; returns the weighted hinge loss."""
    columns, n_contexts = words.shape[1], contexts.shape[0]
    score = F(0)
    for d in range(columns):
        score += words[i, d] * contexts[j, d]
        gradient[d] = F(0)
    loss, above, step = F(0), 0, F(lr * coefficient / negative)
    for _ in range(negative):
        other = below(state, n_contexts - 1)
        other += int(other >= j)
        rival = F(0)
        for d in range(columns):
            rival += words[i, d] * contexts[other, d]
        short = F(1) - score + rival
        if short > F(0):
            loss += short
            above += 1
            for d in range(columns):
                gradient[d] += contexts[other, d]
                contexts[other, d] -= step * words[i, d]
    if above:
        for d in range(columns):
            was = words[i, d]
            words[i, d] += step * (F(above) * contexts[j, d] - gradient[d])
            contexts[j, d] += step * F(above) * was
    return float(loss * coefficient / negative)


@njit(**FAST)
def train_tiles(
    keys: NDArray[np.uint64],
    coefficients: FloatArray,
    bounds: NDArray[np.int64],
    tiles: NDArray[np.int64],
    tiles_per_row: int,
    words: FloatArray,
    contexts: FloatArray,
    negative: int,
    lr: float,
    state: NDArray[np.uint64],
    result: NDArray[np.float64],
) -> None:
    """Train on the cells ``bounds[t]:bounds[t + 1]`` of each tile t in random order; result: (cost, updates).

    ``coefficients`` (cells, 2): r · ρ' of (i, j) and of (j, i).
    """
    cost, updates = 0.0, 0
    mask = np.uint64(TILE - 1)
    gradient = np.zeros(words.shape[1], F)
    for tile in tiles:
        start, size = bounds[tile], bounds[tile + 1] - bounds[tile]
        order = np.arange(size)
        for left in range(size, 0, -1):
            place = below(state, left)
            cell = start + order[place]
            order[place] = order[left - 1]
            i = (tile // tiles_per_row) * TILE + np.int64((keys[cell] >> np.uint64(TILE_BITS)) & mask)
            j = (tile % tiles_per_row) * TILE + np.int64(keys[cell] & mask)
            cost += _step(words, i, contexts, j, coefficients[cell, 0], negative, lr, gradient, state)
            updates += 1
            if i != j:
                cost += _step(words, j, contexts, i, coefficients[cell, 1], negative, lr, gradient, state)
                updates += 1
    result[0] = cost
    result[1] = updates


@njit(nogil=True, cache=True)
def hinge_ranks(scores: FloatArray, asked: NDArray[np.int64], ranks: NDArray[np.float64]) -> None:
    """ranks[k] = Σ_c' max(0, 1 - s_c + s_c') over all contexts c', including c = asked[k]; scores (contexts,).

    Contexts are sorted into the intervals between the thresholds s_c - 1 and summed up from the highest: one binary
    search for each context instead of a comparison with every asked one.
    """
    order = np.argsort(scores[asked])
    thresholds = scores[asked][order].astype(np.float64) - 1
    numbers, sums = np.zeros(len(asked) + 1), np.zeros(len(asked) + 1)
    for score in scores:
        place = np.searchsorted(thresholds, np.float64(score), side="left")  # above the first ``place`` thresholds
        numbers[place] += 1
        sums[place] += score
    number, total = 0.0, 0.0
    for k in range(len(asked), 0, -1):
        number += numbers[k]
        total += sums[k]
        ranks[order[k - 1]] = total - number * thresholds[k - 1]
