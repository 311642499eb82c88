"""Compiled inner loops of encoding on the CPU: rows to int8 and back.

Import this only where a network runs, since it loads numba. All arrays are contiguous; docstrings give their shapes.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polyseme.contexts.transformer.inference_speed import TOP, ZERO

Floats = NDArray[np.float32]

_FAST = {"contract", "nsz", "arcp"}
_NONE, _TOP, _HALF_UP = np.float32(0), np.float32(TOP), np.float32(ZERO + 0.5)
_ABSOLUTE = np.int32(0x7FFFFFFF)  # every bit but the sign


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
