"""CRC-32C (Castagnoli), the checksum of TensorFlow checkpoints, eight bytes at a time; zlib has another polynomial.

crc(byte, c) = table[(c ⊕ byte) & 255] ⊕ (c >> 8),   reflected polynomial 0x82F63B78
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8


def _tables() -> NDArray[np.uint32]:
    """Eight tables ``(8, 256)``: the effect of a byte on the checksum when 0 … 7 other bytes follow it."""
    tables = np.zeros((8, 256), dtype=np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        tables[0, byte] = value
    for later in range(1, 8):
        before = tables[later - 1]
        tables[later] = tables[0, before & 255] ^ (before >> 8)
    return tables


_TABLES = _tables()


def masked_crc32c(data: bytes | memoryview | NDArray[np.uint8]) -> int:
    """The checksum as TensorFlow and LevelDB store it: rotated, plus a constant."""
    array = data if isinstance(data, np.ndarray) else np.frombuffer(data, dtype=np.uint8)
    crc = int(_crc32c(array, _TABLES))
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


@numba.njit(cache=True, nogil=True)
def _crc32c(data: NDArray[np.uint8], tables: NDArray[np.uint32]) -> np.uint32:
    crc = np.uint32(0xFFFFFFFF)
    whole = len(data) // 8 * 8
    for at in range(0, whole, 8):
        low = crc ^ (
            np.uint32(data[at])
            | np.uint32(data[at + 1]) << np.uint32(8)
            | np.uint32(data[at + 2]) << np.uint32(16)
            | np.uint32(data[at + 3]) << np.uint32(24)
        )
        crc = np.uint32(
            tables[7, low & np.uint32(255)]
            ^ tables[6, (low >> np.uint32(8)) & np.uint32(255)]
            ^ tables[5, (low >> np.uint32(16)) & np.uint32(255)]
            ^ tables[4, low >> np.uint32(24)]
            ^ tables[3, data[at + 4]]
            ^ tables[2, data[at + 5]]
            ^ tables[1, data[at + 6]]
            ^ tables[0, data[at + 7]]
        )
    for at in range(whole, len(data)):
        crc = np.uint32(tables[0, (crc ^ data[at]) & np.uint32(255)] ^ (crc >> np.uint32(8)))
    return np.uint32(crc ^ np.uint32(0xFFFFFFFF))
