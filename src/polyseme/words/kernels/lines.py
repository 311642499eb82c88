"""Compiled: the parser of vector lines."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints

_TENS = np.array([float(f"1e{power}") for power in range(61)])
_NEWLINE = 10


@njit(cache=True, nogil=True)
def _blank(byte: np.uint8) -> bool:
    return bool(byte == 32 or 9 <= byte <= 13)


@njit(cache=True, nogil=True)
def parse_lines(data: NDArray[np.uint8], rows: FloatArray, bounds: Ints) -> int:
    """Fill ``rows`` and ``bounds`` (line start, word end, line end); return the first line with too few fields, or -1.

    A number that cannot be read exactly here becomes NaN.
    """
    start = 0
    for line in range(len(rows)):
        end = start
        while end < len(data) and data[end] != _NEWLINE:
            end += 1
        bounds[line, 0], bounds[line, 2] = start, end
        at = _numbers_start(data, start, end, rows.shape[1])
        if at < 0:
            return line
        word_end = at
        while word_end > start and _blank(data[word_end - 1]):
            word_end -= 1
        bounds[line, 1] = word_end
        for column in range(rows.shape[1]):
            while _blank(data[at]):
                at += 1
            stop = at
            while stop < end and not _blank(data[stop]):
                stop += 1
            rows[line, column] = _number(data, at, stop)
            at = stop
        start = end + 1
    return -1


@njit(cache=True, nogil=True)
def _numbers_start(data: NDArray[np.uint8], start: int, end: int, dim: int) -> int:
    """Where the last ``dim`` fields of the line begin; -1 if there are fewer after the first blank."""
    at = end
    for _ in range(dim):
        while at > start and _blank(data[at - 1]):
            at -= 1
        before = at
        while at > start and not _blank(data[at - 1]):
            at -= 1
        if at in (before, start):
            return -1
    return at


@njit(cache=True, nogil=True)
def _number(data: NDArray[np.uint8], at: int, stop: int) -> np.float32:
    """sign digits [. digits] [e sign digits] as float32; NaN for anything else and if the rounding is uncertain.

    The product below is within 3 units of the last place of a double. Rounding it to float32 gives the same as rounding
    the true value, unless it is that close to the midpoint of two float32 numbers.
    """
    doubt = np.float32(np.nan)
    negative = data[at] == 45
    if negative or data[at] == 43:
        at += 1
    mantissa, digits, scale, seen = np.uint64(0), 0, np.int64(0), False
    after_point = False
    while at < stop:
        byte = data[at]
        if 48 <= byte <= 57:
            seen = True
            if digits < 19:
                mantissa = mantissa * np.uint64(10) + np.uint64(byte - 48)
                digits += int(mantissa > 0)
                scale -= np.int64(after_point)
            else:
                scale += np.int64(not after_point)
        elif byte == 46 and not after_point:
            after_point = True
        else:
            break
        at += 1
    if not seen:
        return doubt
    if at < stop:
        if data[at] != 101 and data[at] != 69:
            return doubt
        at += 1
        down = at < stop and data[at] == 45
        if at < stop and (down or data[at] == 43):
            at += 1
        if at == stop or stop - at > 3:
            return doubt
        power = np.int64(0)
        while at < stop:
            if not 48 <= data[at] <= 57:
                return doubt
            power = power * 10 + (data[at] - 48)
            at += 1
        scale += -power if down else power
    if mantissa == 0:
        return np.float32(-0.0) if negative else np.float32(0.0)
    if scale < -60 or scale > 60:
        return doubt
    value = np.float64(mantissa) / _TENS[-scale] if scale < 0 else np.float64(mantissa) * _TENS[scale]
    if value < 1.2e-38 or value > 3.4e38:
        return doubt
    rounded = np.float32(value)
    # Is `value` too close to the midpoint of `rounded` and its neighbour on the side of `value`?
    other = np.nextafter(rounded, np.float32(np.inf) if value > rounded else np.float32(0))
    middle = (np.float64(rounded) + np.float64(other)) / 2
    if abs(value - middle) < value * 1e-15:
        return doubt
    return -rounded if negative else rounded
