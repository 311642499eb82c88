"""Compiled inner loops of biLM training on the CPU: the LSTM's cell, and convolutions over letters with their maximum.

Import this where training begins: it loads numba. All arrays are float32 and contiguous; shapes are at the top of each
function. Sums may be contracted but not-a-number still spreads, so that a broken training is noticed.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

_FAST = {"contract", "nsz", "arcp"}
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
    """One step: ``gates (2, N, 4H)`` become their activations, ``cells``, ``tanh_c`` and ``m = o·tanh(c)`` are written.

    The step's rows are ``start`` …, in ``m`` ``m_start`` + start …; the cells before it lie at ``before`` …
    """
    hidden = tanh_c.shape[2]
    first = cells.shape[1] - tanh_c.shape[1]
    for d in range(2):
        for r in range(size):
            z = gates[d, start + r]
            c, c_old = cells[d, first + start + r], cells[d, before + r]
            t, to = tanh_c[d, start + r], m[d, m_start + start + r]
            opened, g, o = z[: 2 * hidden], z[2 * hidden : 3 * hidden], z[3 * hidden :]
            i, f = opened[:hidden], opened[hidden:]
            # Loops over few arrays, all from 0: only those are turned into vector instructions.
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
    """The same step back: ``dm`` (rows ``dm_start`` …) and ``dc (2, B, H)`` give ``dz (2, N, 4H)``; dc moves on."""
    hidden = tanh_c.shape[2]
    first = cells.shape[1] - tanh_c.shape[1]
    for d in range(2):
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
def window_maxima(
    products: Floats, letters: Ints, lengths: Ints, slots: int, best: Floats, where: NDArray[np.int32]
) -> None:
    """Maxima over a word's windows of the summed ``products (A, w, n)`` of its letters: ``best``, ``where (W, n)``.

    A word has ``slots`` places; behind its ``lengths`` letters all are padding, the last column of ``letters``, so of
    the windows that see only padding one is enough.
    """
    width, n = products.shape[1], products.shape[2]
    total = np.empty(n, np.float32)
    last = letters.shape[1] - 1
    for word in range(letters.shape[0]):
        windows = min(lengths[word] + 1, slots - width + 1)
        for s in range(windows):
            total[:] = products[letters[word, min(s, last)], 0]
            for j in range(1, width):
                row = products[letters[word, min(s + j, last)], j]
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
def window_gradients(d_best: Floats, letters: Ints, where: NDArray[np.int32], d_products: Floats) -> None:
    """Add the maxima's gradients ``d_best (W, n)`` to the letters they came from, ``d_products (A, w, n)``."""
    width, n = d_products.shape[1], d_products.shape[2]
    last = letters.shape[1] - 1
    for word in range(letters.shape[0]):
        for k in range(n):
            slope = d_best[word, k]
            if slope != 0:
                s = where[word, k]
                for j in range(width):
                    d_products[letters[word, min(s + j, last)], j, k] += slope
