"""Compiled inner loops of training on the CPU: LSTM and GRU cells, attention, highway layers, max pooling.

Import this only where training begins, since it loads numba. All arrays are float32 and contiguous; the docstrings give
their shapes. Fast-math flags allow fused operations but keep NaN, so that diverged training is noticed.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polyseme.arrays import Ints

Floats = NDArray[np.float32]

_FAST = {"contract", "nsz", "arcp"}
_SUMS = _FAST | {"reassoc"}  # sums in any order: only so dot products are vectorised
# tanh(x) as x·p(x²) / q(x²), a minimax fit on ±7.9, where tanh is 1 in float32. Its error is below 4e-7.
_EDGE = np.float32(7.90531110763549805)
_P = [np.float32(p) for p in (4.89352455891786e-03, 6.37261928875436e-04, 1.48572235717979e-05, 5.12229709037114e-08,
                              -8.60467152213735e-11, 2.00018790482477e-13, -2.76076847742355e-16)]  # fmt: skip
_Q = [np.float32(q) for q in (4.89352518554385e-03, 2.26843463243900e-03, 1.18534705686654e-04, 1.19825839466702e-06)]
_P0, _P1, _P2, _P3, _P4, _P5, _P6 = _P
_Q0, _Q1, _Q2, _Q3 = _Q
_HALF, _ONE = np.float32(0.5), np.float32(1.0)


@njit(inline="always", error_model="numpy")
def _tanh(x: np.float32) -> np.float32:
    x = _EDGE if x > _EDGE else x
    x = -_EDGE if x < -_EDGE else x
    y = x * x
    p = ((((((_P6 * y + _P5) * y + _P4) * y + _P3) * y + _P2) * y + _P1) * y + _P0) * x
    return p / (((_Q3 * y + _Q2) * y + _Q1) * y + _Q0)


@njit(inline="always", error_model="numpy")
def _sigmoid(x: np.float32) -> np.float32:
    return _HALF * _tanh(_HALF * x) + _HALF


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def cell_forward(
    gates: Floats, cells: Floats, tanh_c: Floats, m: Floats, m_start: int, start: int, size: int, before: int,
    clip: np.float32,
) -> None:  # fmt: skip
    """One LSTM step: turn ``gates (D, N, 4H)`` into activations; write ``cells``, ``tanh_c`` and ``m = o·tanh(c)``.

    The ``size`` rows of the step begin at ``start``, in ``m`` at ``m_start + start``; the previous cells at ``before``.
    """
    hidden = tanh_c.shape[2]
    first = cells.shape[1] - tanh_c.shape[1]
    for d in range(len(gates)):
        for r in range(size):
            z = gates[d, start + r]
            c, c_old = cells[d, first + start + r], cells[d, before + r]
            t, to = tanh_c[d, start + r], m[d, m_start + start + r]
            opened, g, o = z[: 2 * hidden], z[2 * hidden : 3 * hidden], z[3 * hidden :]
            i, f = opened[:hidden], opened[hidden:]
            # Several short loops over few arrays, all from 0: only such loops are vectorised.
            for k in range(2 * hidden):
                opened[k] = _sigmoid(opened[k])
            for k in range(hidden):
                g[k] = _tanh(g[k])
            for k in range(hidden):
                o[k] = _sigmoid(o[k])
            for k in range(hidden):
                x = f[k] * c_old[k] + i[k] * g[k]
                x = clip if x > clip else x
                c[k] = -clip if x < -clip else x
            for k in range(hidden):
                t[k] = _tanh(c[k])
            for k in range(hidden):
                to[k] = o[k] * t[k]


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def cell_backward(
    gates: Floats, cells: Floats, tanh_c: Floats, dm: Floats, dm_start: int, dc: Floats, dz: Floats, start: int,
    size: int, before: int, clip: np.float32,
) -> None:  # fmt: skip
    """The backward pass: ``dm`` (from row ``dm_start``) and ``dc (D, B, H)`` give ``dz (D, N, 4H)``; updates ``dc``."""
    hidden = tanh_c.shape[2]
    first = cells.shape[1] - tanh_c.shape[1]
    for d in range(len(gates)):
        for r in range(size):
            z, to = gates[d, start + r], dz[d, start + r]
            c, c_old = cells[d, first + start + r], cells[d, before + r]
            t, slope, carried = tanh_c[d, start + r], dm[d, dm_start + r], dc[d, r]
            for k in range(hidden):
                i, f, g, o = z[k], z[hidden + k], z[2 * hidden + k], z[3 * hidden + k]
                s = slope[k]
                x = carried[k] + s * o * (_ONE - t[k] * t[k])
                x = np.float32(0) if abs(c[k]) >= clip else x
                to[k] = x * g * i * (_ONE - i)
                to[hidden + k] = x * c_old[k] * f * (_ONE - f)
                to[2 * hidden + k] = x * i * (_ONE - g * g)
                to[3 * hidden + k] = s * t[k] * o * (_ONE - o)
                carried[k] = x * f


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def gru_forward(
    gates: Floats, states: Floats, a_n: Floats, products: Floats, start: int, size: int, before: int
) -> None:
    """One GRU step: turn ``gates (D, N, 3H)`` into r, z, n; write ``a_n (D, N, H)`` and the new states.

    ``products (D, B, 3H)`` are h W_r + b_r of the previous states, which begin at ``before`` in ``states``.
    """
    hidden = a_n.shape[2]
    first = states.shape[1] - a_n.shape[1]
    for d in range(len(gates)):
        for row in range(size):
            opened, n = gates[d, start + row, : 2 * hidden], gates[d, start + row, 2 * hidden :]
            r, z = opened[:hidden], opened[hidden:]
            a, inner = products[d, row, : 2 * hidden], products[d, row, 2 * hidden :]
            kept, old, to = a_n[d, start + row], states[d, before + row], states[d, first + start + row]
            for k in range(2 * hidden):
                opened[k] = _sigmoid(opened[k] + a[k])
            for k in range(hidden):
                kept[k] = inner[k]
            for k in range(hidden):
                n[k] = _tanh(n[k] + r[k] * inner[k])
            for k in range(hidden):
                to[k] = n[k] + z[k] * (old[k] - n[k])


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def gru_backward(
    gates: Floats, states: Floats, a_n: Floats, dh: Floats, d_input: Floats, d_recurrent: Floats, start: int,
    size: int, before: int,
) -> None:  # fmt: skip
    """The backward pass: ``dh`` (shaped as ``states``) gives the gradients of both products, each ``(D, N, 3H)``.

    The part of the gradient that skips the matrix products is added to ``dh`` from ``before`` on.
    """
    hidden = a_n.shape[2]
    first = states.shape[1] - a_n.shape[1]
    for d in range(len(gates)):
        for row in range(size):
            gate, a, old = gates[d, start + row], a_n[d, start + row], states[d, before + row]
            slope, around = dh[d, first + start + row], dh[d, before + row]
            of_input, of_state = d_input[d, start + row], d_recurrent[d, start + row]
            for k in range(hidden):
                r, z, n = gate[k], gate[hidden + k], gate[2 * hidden + k]
                s = slope[k]
                d_n = s * (_ONE - z) * (_ONE - n * n)
                of_input[hidden + k] = s * (old[k] - n) * z * (_ONE - z)
                of_input[2 * hidden + k] = d_n
                of_state[2 * hidden + k] = d_n * r
                of_input[k] = d_n * a[k] * r * (_ONE - r)
            for k in range(2 * hidden):
                of_state[k] = of_input[k]
            for k in range(hidden):
                around[k] += slope[k] * gate[hidden + k]


@njit(cache=True, nogil=True, fastmath=_SUMS, error_model="numpy")
def attend_forward(
    states: Floats, keys: Floats, lengths: Ints, h: Floats, weights: Floats, joined: Floats, start: int, size: int
) -> None:
    """Attention of one step: ``weights (N, S)`` over the keys, and ``joined (N, 2H)``: the mean state and h.

    Row r of the step reads the first ``lengths[r]`` of ``states`` and ``keys (B, S, H)``; its query is ``h[r]``.
    """
    dim = h.shape[1]
    for r in range(size):
        query, w, found, own = h[r], weights[start + r], joined[start + r, :dim], joined[start + r, dim:]
        n, highest = lengths[r], -np.float32(np.inf)
        for s in range(n):
            key, score = keys[r, s], np.float32(0)
            for k in range(dim):
                score += key[k] * query[k]
            w[s] = score
            highest = max(highest, score)
        total = np.float32(0)
        for s in range(n):
            w[s] = np.exp(w[s] - highest)
            total += w[s]
        found[:] = np.float32(0)
        own[:] = query
        for s in range(n):
            w[s] /= total
            share, state = w[s], states[r, s]
            for k in range(dim):
                found[k] += share * state[k]


@njit(cache=True, nogil=True, fastmath=_SUMS, error_model="numpy")
def attend_backward(
    states: Floats, keys: Floats, lengths: Ints, weights: Floats, d_joined: Floats, d_scores: Floats, dh: Floats,
    start: int, size: int,
) -> None:  # fmt: skip
    """The backward pass of a step: ``d_joined (N, 2H)`` gives ``d_scores (N, S)`` and is added to ``dh``."""
    dim = dh.shape[1]
    for r in range(size):
        w, slopes, to = weights[start + r], d_scores[start + r], dh[r]
        d_found, d_own = d_joined[start + r, :dim], d_joined[start + r, dim:]
        mean = np.float32(0)
        for s in range(lengths[r]):
            state, slope = states[r, s], np.float32(0)
            for k in range(dim):
                slope += state[k] * d_found[k]
            slopes[s] = slope
            mean += w[s] * slope
        for k in range(dim):
            to[k] += d_own[k]
        for s in range(lengths[r]):
            slopes[s] = w[s] * (slopes[s] - mean)
            share, key = slopes[s], keys[r, s]
            for k in range(dim):
                to[k] += share * key[k]


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def add_outer(of_words: Floats, vectors: Floats, sizes: Ints, lengths: Ints, to: Floats) -> None:
    """Add ``of_words (N, S)`` ⊗ ``vectors (N, H)`` of every packed token to its row of ``to (B, S, H)``."""
    dim = to.shape[2]
    for r in range(to.shape[0]):
        place = r
        for size in sizes:
            if r >= size:
                break
            vector = vectors[place]
            for s in range(lengths[r]):
                share, row = of_words[place, s], to[r, s]
                for k in range(dim):
                    row[k] += share * vector[k]
            place += size


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def highway_forward(x: Floats, transformed: Floats, opened: Floats, y: Floats) -> None:
    """Turn ``transformed`` and ``opened (W, n)`` into their activations t and g; write ``y = g·t + (1 - g)·x``."""
    for word in range(x.shape[0]):
        old, t, g, to = x[word], transformed[word], opened[word], y[word]
        for k in range(x.shape[1]):
            g[k] = _sigmoid(g[k])
        for k in range(x.shape[1]):
            t[k] = np.float32(0) if t[k] < 0 else t[k]
        for k in range(x.shape[1]):
            to[k] = old[k] + g[k] * (t[k] - old[k])


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def highway_backward(
    dy: Floats, x: Floats, transformed: Floats, opened: Floats, d_transformed: Floats, d_opened: Floats, dx: Floats
) -> None:
    """The backward pass: the gradients before the activations, and ``dx`` of the direct path. All are ``(W, n)``."""
    for word in range(x.shape[0]):
        slope, old, t, g = dy[word], x[word], transformed[word], opened[word]
        dt, dg, to = d_transformed[word], d_opened[word], dx[word]
        for k in range(x.shape[1]):
            through = slope[k] * g[k]
            dt[k] = through if t[k] > 0 else np.float32(0)
            to[k] = slope[k] - through
        for k in range(x.shape[1]):
            dg[k] = slope[k] * (t[k] - old[k]) * g[k] * (_ONE - g[k])


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def window_maxima(
    products: Floats, first: Ints, letters: Ints, lengths: Ints, slots: int, best: Floats, where: NDArray[np.int32]
) -> None:
    """Max pooling over the windows of each word: the maxima ``best (W, n)``, and their windows ``where (W, n)``.

    The product of a character and offset j is row ``first[j]`` + character of ``products (Σ A_j, n)``. A word has
    ``slots`` positions; those after its ``lengths`` characters are padding (the last column of ``letters``), so one of
    the windows that contain nothing but padding is enough.
    """
    width, n = len(first), products.shape[1]
    total = np.empty(n, np.float32)
    last = letters.shape[1] - 1
    for word in range(letters.shape[0]):
        windows = min(lengths[word] + 1, slots - width + 1)
        for s in range(windows):
            total[:] = products[first[0] + letters[word, min(s, last)]]
            for j in range(1, width):
                row = products[first[j] + letters[word, min(s + j, last)]]
                for k in range(n):
                    total[k] += row[k]
            if s == 0:
                best[word] = total
                where[word] = 0
            else:
                top, place = best[word], where[word]
                for k in range(n):
                    greater = total[k] > top[k]
                    place[k] = s if greater else place[k]
                    top[k] = total[k] if greater else top[k]


@njit(cache=True, nogil=True)
def window_gradients(
    d_best: Floats, first: Ints, letters: Ints, lengths: Ints, slots: int, where: NDArray[np.int32], d_products: Floats
) -> None:
    """Add the gradients of the maxima ``d_best (W, n)`` to the products they came from, ``d_products (Σ A_j, n)``."""
    width, n = len(first), d_products.shape[1]
    chosen = np.empty(n, np.float32)
    last = letters.shape[1] - 1
    for word in range(letters.shape[0]):
        slope, place = d_best[word], where[word]
        for s in range(min(lengths[word] + 1, slots - width + 1)):
            for k in range(n):
                chosen[k] = slope[k] if place[k] == s else np.float32(0)
            for j in range(width):
                row = d_products[first[j] + letters[word, min(s + j, last)]]
                for k in range(n):
                    row[k] += chosen[k]


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def stretch_maxima(scores: Floats, first: Ints, last: Ints, best: Floats, where: NDArray[np.int32]) -> None:
    """Maxima over the rows ``first[b]`` … ``last[b]`` of ``scores (N, n)``, and their rows, both ``(B, n)``."""
    n = scores.shape[1]
    for b in range(len(first)):
        to, place = best[b], where[b]
        to[:] = scores[first[b]]
        place[:] = np.int32(first[b])
        for row in range(first[b] + 1, last[b] + 1):
            new, number = scores[row], np.int32(row)
            for k in range(n):
                greater = new[k] > to[k] or new[k] != new[k]
                to[k] = new[k] if greater else to[k]
                place[k] = number if greater else place[k]


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def stretch_gradients(
    grad: Floats, where: NDArray[np.int32], dim: int, flat: Floats, weight: Floats, d_flat: Floats, d_weight: Floats,
    inputs_too: bool,
) -> None:  # fmt: skip
    """Add the gradients ``(B, n)`` of max-pooled windows to the windows with the maxima, and to their filters.

    A window of filter k begins at ``where · dim`` in ``flat`` and is as long as a row of ``weight (n, h · dim)``.
    """
    width = weight.shape[1]
    for b in range(grad.shape[0]):
        for k in range(grad.shape[1]):
            g = grad[b, k]
            if g == 0:
                continue
            begin = np.int64(where[b, k]) * dim
            window, to = flat[begin : begin + width], d_weight[k]
            for i in range(width):
                to[i] += g * window[i]
            if inputs_too:
                d_window, own = d_flat[begin : begin + width], weight[k]
                for i in range(width):
                    d_window[i] += g * own[i]
