"""Compiled: the cells of the co-occurrence matrix: counted, and learned from by GloVe and WordRank.

Co-occurrences are counted in a hash table of fixed size. A pair of words (i, j) is encoded as one number whose high
bits are the number of its 512×512 tile of the matrix, so sorting pairs groups them by tile.

GloVe takes AdaGrad steps on the cells of some tiles. WordRank has two stages: gradient steps on such cells, and exact
ranks of contexts; in it a cell (i, j) of the matrix, i < j, stands for both (i, j) and (j, i), and a diagonal cell for
itself only.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints
from polyseme.words.kernels.rows import FAST, INLINE, LANES, F, below

TILE_BITS = 9
TILE = 1 << TILE_BITS
CELL_BITS = np.uint64(2 * TILE_BITS)
EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
CLIP = F(100)  # a component of a gradient of GloVe, as in the authors' program


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
    offsets: Ints,
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


@njit(**INLINE)
def clipped(gradient: np.float32) -> np.float32:
    """A component of a gradient, at most ±CLIP; NaN stays NaN, so that divergence is noticed."""
    return CLIP if gradient > CLIP else (-CLIP if gradient < -CLIP else gradient)


@njit(**INLINE)
def _update(
    a: FloatArray,
    i: int,
    b: FloatArray,
    j: int,
    a_squares: FloatArray,
    b_squares: FloatArray,
    width: int,
    log_x: float,
    weight: float,
    lr: np.float32,
) -> float:
    """One AdaGrad step that moves a_i·b_j towards log x; returns the cost f·diff²/2.

    As in the authors' program the squares that add up are those of the step lr·gradient, not of the gradient: with a
    small rate they hardly grow, so that later cells still move the weights. They begin at 1.

    A row is a vector padded to LANES·width floats, followed by LANES floats of which the first is the bias.
    """
    last = LANES * width
    dot = F(0)
    for d in range(last):
        dot += a[i, d] * b[j, d]
    diff = np.float64(dot) + a[i, last] + b[j, last] - log_x
    g = F(weight * diff)
    for d in range(last):
        step_a = lr * clipped(g * b[j, d])
        step_b = lr * clipped(g * a[i, d])
        a[i, d] -= step_a / math.sqrt(a_squares[i, d])
        b[j, d] -= step_b / math.sqrt(b_squares[j, d])
        a_squares[i, d] += step_a * step_a
        b_squares[j, d] += step_b * step_b
    step = lr * g
    a[i, last] -= step / math.sqrt(a_squares[i, last])
    b[j, last] -= step / math.sqrt(b_squares[j, last])
    a_squares[i, last] += step * step
    b_squares[j, last] += step * step
    return float(0.5 * weight * diff * diff)


@njit(**FAST)
def train_glove_tiles(
    keys: NDArray[np.uint64],
    sums: FloatArray,
    bounds: Ints,
    tiles: Ints,
    tiles_per_row: int,
    mirrored: bool,
    words: FloatArray,
    contexts: FloatArray,
    word_squares: FloatArray,
    context_squares: FloatArray,
    x_max: float,
    alpha: float,
    lr: float,
    state: NDArray[np.uint64],
    result: NDArray[np.float64],
) -> None:
    """Train on the cells ``bounds[t]:bounds[t + 1]`` of each tile t in random order; result: (cost, updates).

    If ``mirrored``, a cell (i, j) stands for (j, i) too.
    """
    width = words.shape[1] // LANES - 1
    cost, updates = 0.0, 0
    mask = np.uint64(TILE - 1)
    for tile in tiles:
        start, size = bounds[tile], bounds[tile + 1] - bounds[tile]
        order = np.arange(size)
        for left in range(size, 0, -1):
            place = below(state, left)
            cell = start + order[place]
            order[place] = order[left - 1]
            i = (tile // tiles_per_row) * TILE + np.int64((keys[cell] >> np.uint64(TILE_BITS)) & mask)
            j = (tile % tiles_per_row) * TILE + np.int64(keys[cell] & mask)
            x = np.float64(sums[cell])
            log_x = math.log(x)
            weight = 1.0 if x >= x_max else math.exp(alpha * math.log(x / x_max))
            cost += _update(words, i, contexts, j, word_squares, context_squares, width, log_x, weight, F(lr))
            updates += 1
            if mirrored and i != j:
                cost += _update(words, j, contexts, i, word_squares, context_squares, width, log_x, weight, F(lr))
                updates += 1
    result[0] = cost
    result[1] = updates


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
def train_wordrank_tiles(
    keys: NDArray[np.uint64],
    coefficients: FloatArray,
    bounds: Ints,
    tiles: Ints,
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
def hinge_ranks(scores: FloatArray, asked: Ints, ranks: NDArray[np.float64]) -> None:
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
