"""Compiled: AdaGrad on the cells of some tiles of the co-occurrence matrix."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polyseme.arrays import FloatArray
from polyseme.words.kernels.count import TILE, TILE_BITS
from polyseme.words.kernels.rows import FAST, INLINE, LANES, F, below

CLIP = F(100)  # as in the authors' program


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
def train_tiles(
    keys: NDArray[np.uint64],
    sums: FloatArray,
    bounds: NDArray[np.int64],
    tiles: NDArray[np.int64],
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
