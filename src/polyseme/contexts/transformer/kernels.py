"""Compiled inner loops of encoding on the CPU: rows to int8 and back, and GELU.

Import this only where a network runs, since it loads numba. All arrays are contiguous; docstrings give their shapes.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]

ZERO = 128  # the uint8 that stands for 0.0
TOP = 127  # the largest level on both sides of it

_FAST = {"contract", "nsz", "arcp"}
_NONE, _HALF, _TOP, _HALF_UP = np.float32(0), np.float32(0.5), np.float32(TOP), np.float32(ZERO + 0.5)
_ABSOLUTE = np.int32(0x7FFFFFFF)  # every bit but the sign
# Φ(x) − ½ as x·p(x²) / q(x²), a minimax fit on ±5.3, beyond which x·Φ(x) is x or nearly 0. Its error is below 5e-7.
_END = np.float32(5.3)
_P = [np.float32(p) for p in (3.989415020762691e-01, 7.532763842898882e-02, 7.112292875113112e-03,
                              5.748475100961815e-04, 7.425387985760979e-06, -2.111072416827497e-08)]  # fmt: skip
_Q = [np.float32(q) for q in (3.554683347066659e-01, 5.210499639370888e-02, 4.187569065704133e-03,
                              1.9495401556063964e-04)]  # fmt: skip
_P0, _P1, _P2, _P3, _P4, _P5 = _P
_Q1, _Q2, _Q3, _Q4 = _Q
_ONE = np.float32(1)


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def quantise_rows(x: Floats, levels: NDArray[np.uint8], scales: Floats) -> None:
    """``x (N, K)`` to levels ``(N, K)`` from 1 to 255 and the scale ``(N,)`` of each row."""
    bits, tops = x.view(np.int32), scales.view(np.int32)
    for row in range(x.shape[0]):
        top = np.int32(0)  # as integers, absolute values have the same order, and their maximum is vectorised
        for k in range(x.shape[1]):
            top = max(top, bits[row, k] & _ABSOLUTE)
        tops[row] = top
        largest = scales[row]
        inverse = _TOP / largest if largest > _NONE else _NONE
        for k in range(x.shape[1]):
            levels[row, k] = np.int32(x[row, k] * inverse + _HALF_UP)
        scales[row] = largest / _TOP


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def scale_rows(sums: Floats, of_rows: Floats, of_columns: Floats, zeros: Floats, bias: Floats) -> None:
    """Sums of levels ``(N, M)`` to results in place: of_rows ``(N,)`` · of_columns · (sums − zeros) + bias ``(M,)``."""
    for row in range(sums.shape[0]):
        scale = of_rows[row]
        for column in range(sums.shape[1]):
            level = sums[row, column] - zeros[column]
            sums[row, column] = level * (scale * of_columns[column]) + bias[column]


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def compute_gelu(x: Floats, y: Floats) -> None:
    """x·Φ(x) of ``x (N,)`` into ``y (N,)``."""
    for place in range(x.shape[0]):
        above = max(x[place], -_END)
        near = min(above, _END)
        z = near * near
        p = ((((_P5 * z + _P4) * z + _P3) * z + _P2) * z + _P1) * z + _P0
        q = (((_Q4 * z + _Q3) * z + _Q2) * z + _Q1) * z + _ONE
        y[place] = above * (_HALF + near * p / q)
