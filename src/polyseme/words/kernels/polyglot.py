"""Compiled: Polyglot's gradient steps on the windows of a piece of text, one after another.

x is the window [C(w_-k); …; C(w_k)] and x' the same with another centre. x' - x is zero except at the centre, so the
second hidden layer costs a fifth of the first:

    h = tanh(W₁ x + b₁),   h' = tanh(W₁ x + b₁ + W₁ (x' - x)),   loss = max(0, 1 - W₂ h + W₂ h')

If g and g' are the gradients of both hidden layers before tanh, those of W₁ and of the windows are

    (g + g') xᵀ + g' (x' - x)ᵀ,   W₁ᵀ (g + g'), of which W₁ᵀ g' at the centre belongs to the centre of x' instead
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints
from polyseme.words.kernels.rows import FAST, INLINE, F, below

FARTHEST = F(7.9053111)  # beyond it tanh is ±1 in float32


@njit(**INLINE)
def tanh_all(values: FloatArray) -> None:
    """tanh in place, by a quotient of polynomials that is exact to the last bits and can be vectorised."""
    for i in range(values.size):
        x = min(max(values[i], -FARTHEST), FARTHEST)
        s = x * x
        p = F(-2.76076847742355e-16)
        p = p * s + F(2.00018790482477e-13)
        p = p * s + F(-8.60467152213735e-11)
        p = p * s + F(5.12229709037114e-08)
        p = p * s + F(1.48572235717979e-05)
        p = p * s + F(6.37261928875436e-04)
        p = p * s + F(4.89352455891786e-03)
        q = F(1.19825839466702e-06)
        q = q * s + F(1.18534705686654e-04)
        q = q * s + F(2.26843463243900e-03)
        q = q * s + F(4.89352518554385e-03)
        values[i] = x * p / q


@njit(**INLINE)
def find_window(stream: NDArray[np.int32], place: int, radius: int, boundary: int, window: Ints) -> None:
    """Fill ``window`` with the words up to ``radius`` before and after ``place``; boundaries outside the sentence."""
    window[radius] = stream[place]
    for side in (-1, 1):
        inside = True
        for step in range(1, radius + 1):
            at = place + side * step
            inside = inside and 0 <= at < stream.size and stream[at] != boundary
            window[radius + side * step] = stream[at] if inside else boundary


@njit(**FAST)
def rank_windows(
    stream: NDArray[np.int32],
    places: Ints,
    n_words: int,
    words: FloatArray,
    inner: FloatArray,
    bias: FloatArray,
    out: FloatArray,
    lr: float,
    state: NDArray[np.uint64],
    result: NDArray[np.float64],
) -> None:
    """Train on the windows around some words of a stream; result: (sum of losses, number of windows).

    ``words`` (V + 2, m), ``inner`` (h, (2r + 1) m): W₁, ``bias`` and ``out`` (h,): b₁ and W₂.
    """
    dim, hidden, width = words.shape[1], inner.shape[0], inner.shape[1]
    radius = (width // dim - 1) // 2
    middle, rate = radius * dim, F(lr)
    window = np.empty(2 * radius + 1, np.int64)
    x, moves = np.empty(width, F), np.empty(width, F)
    change, change_moves = np.empty(dim, F), np.empty(dim, F)
    true, replaced = np.empty(hidden, F), np.empty(hidden, F)
    losses = 0.0
    for place in places:
        find_window(stream, place, radius, n_words + 1, window)
        wrong = below(state, n_words)
        for s in range(window.size):
            for d in range(dim):
                x[s * dim + d] = words[window[s], d]
        for d in range(dim):
            change[d] = words[wrong, d] - x[middle + d]
        for j in range(hidden):
            total, other = F(0), F(0)
            for d in range(width):
                total += inner[j, d] * x[d]
            for d in range(dim):
                other += inner[j, middle + d] * change[d]
            true[j] = total + bias[j]
            replaced[j] = true[j] + other
        tanh_all(true)
        tanh_all(replaced)
        short = F(1)
        for j in range(hidden):
            short += out[j] * (replaced[j] - true[j])
        if not short > F(0):
            continue
        losses += float(short)
        for d in range(width):
            moves[d] = F(0)
        for d in range(dim):
            change_moves[d] = F(0)
        for j in range(hidden):
            g = rate * out[j] * (F(1) - replaced[j] * replaced[j])
            both = g - rate * out[j] * (F(1) - true[j] * true[j])
            out[j] -= rate * (replaced[j] - true[j])
            bias[j] -= both
            for d in range(dim):
                change_moves[d] += g * inner[j, middle + d]
            for d in range(width):
                w = inner[j, d]
                moves[d] += both * w
                inner[j, d] = w - both * x[d]
            for d in range(dim):
                inner[j, middle + d] -= g * change[d]
        for s in range(window.size):
            for d in range(dim):
                words[window[s], d] -= moves[s * dim + d]
        for d in range(dim):
            words[window[radius], d] += change_moves[d]
            words[wrong, d] -= change_moves[d]
    result[0] = losses
    result[1] = places.size
