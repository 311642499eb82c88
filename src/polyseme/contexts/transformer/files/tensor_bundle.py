"""TensorFlow's checkpoint format (TensorBundle), read without TensorFlow.

``PREFIX.index`` is a LevelDB table: blocks of sorted keys, each stored as the length of the prefix shared with the
previous key and the rest, then a block that lists the blocks, then a footer. A value is a protocol-buffer message:
number format, shape, and the position in ``PREFIX.data-00000-of-00001``. Every block and every tensor has a checksum,
and all are checked.

    footer (48 bytes)   metaindex handle, index handle (varints), padding, magic
    block               entries, restart offsets (uint32 each), their number; then 1 byte compression, 4 bytes checksum
    entry               shared, unshared, length of value (varints), rest of the key, value

CRC-32C (Castagnoli), the checksum of TensorFlow checkpoints, eight bytes at a time; zlib has another polynomial.

crc(byte, c) = table[(c ⊕ byte) & 255] ⊕ (c >> 8),   reflected polynomial 0x82F63B78
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from polyseme.disk.binary import fields, varint
from polyseme.errors import FormatError

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


_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_LARGEST_INDEX = 64 << 20
_DTYPES: dict[int, Any] = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 19: "<f2"}
_BFLOAT16 = 14


@dataclass
class BundleEntry:
    """The type, shape and position of a tensor."""

    dtype: int = 0
    shape: list[int] = field(default_factory=list)
    shard: int = 0
    offset: int = 0
    size: int = 0
    checksum: int = 0
    sliced: bool = False


class TensorBundle:
    """The tensors of a checkpoint, by name."""

    def __init__(self, index: Path) -> None:
        self.index = index
        self.prefix = index.with_suffix("")
        try:
            if index.stat().st_size > _LARGEST_INDEX:
                raise FormatError(f"{index} is too large to be the index of a checkpoint")
            content = index.read_bytes()
        except OSError as error:
            raise FormatError(f"{index} cannot be read: {error.strerror}") from None
        self.n_shards = 1
        self.entries: dict[str, BundleEntry] = {}
        try:
            for key, value in _entries(content, index):
                self._take(key, value)
        except (IndexError, ValueError, OverflowError) as error:
            raise FormatError(f"{index} is truncated or altered: it is not a table of tensors ({error})") from None

    def _take(self, key: bytes, value: bytes) -> None:
        if key:
            self.entries[key.decode("utf-8")] = _entry(value)
            return
        for number, content in fields(value):  # the header: number of files and byte order
            if number == 1 and isinstance(content, int):
                self.n_shards = content
            elif number == 2 and content:
                raise FormatError(f"{self.index} was written on a big-endian machine, which is not supported")

    def read(self, name: str) -> NDArray[Any]:
        """The tensor ``name``; verifies its checksum."""
        entry = self.entries[name]
        file = self.prefix.with_name(f"{self.prefix.name}.data-{entry.shard:05d}-of-{self.n_shards:05d}")
        dtype = np.dtype(np.uint16 if entry.dtype == _BFLOAT16 else _DTYPES.get(entry.dtype, "V"))
        if entry.sliced or not dtype.itemsize:
            raise FormatError(f"{self.index}: {name!r} is split or has an unsupported number type")
        if math.prod(entry.shape) * dtype.itemsize != entry.size:
            raise FormatError(f"{self.index} is altered: {name!r} of {entry.size:,} bytes has the shape {entry.shape}")
        try:
            if entry.offset + entry.size > file.stat().st_size:
                raise FormatError(f"{file} is truncated: {name!r} extends beyond its end")
            raw = np.fromfile(file, dtype=np.uint8, count=entry.size, offset=entry.offset)
        except OSError as error:
            raise FormatError(f"{file} cannot be read: {error.strerror}") from None
        if masked_crc32c(raw) != entry.checksum:
            raise FormatError(f"{file} is altered: {name!r} does not match its checksum")
        array = raw.view(dtype).reshape(entry.shape)
        if entry.dtype == _BFLOAT16:  # the upper half of a float32
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array


def _entries(content: bytes, where: Path) -> Iterator[tuple[bytes, bytes]]:
    """All keys and values of a LevelDB table."""
    if len(content) < _FOOTER or int.from_bytes(content[-8:], "little") != _MAGIC:
        raise FormatError(f"{where} is truncated or is not the index of a TensorFlow checkpoint")
    footer = content[-_FOOTER:]
    _, at = _handle(footer, 0)
    (offset, size), _ = _handle(footer, at)
    for _, handle in _block(content, offset, size, where):
        yield from _block(content, *_handle(handle, 0)[0], where)


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    offset, at = varint(data, at)
    size, at = varint(data, at)
    return (offset, size), at


def _block(content: bytes, offset: int, size: int, where: Path) -> Iterator[tuple[bytes, bytes]]:
    end = offset + size
    if end + 5 > len(content) - _FOOTER:
        raise FormatError(f"{where} is truncated or altered: a block lies beyond its end")
    if masked_crc32c(content[offset : end + 1]) != int.from_bytes(content[end + 1 : end + 5], "little"):
        raise FormatError(f"{where} is altered: a block does not match its checksum")
    if content[end] != 0:
        raise FormatError(f"{where} is compressed, which TensorFlow does not do with checkpoints")
    n_restarts = int.from_bytes(content[end - 4 : end], "little")
    stop = end - 4 - 4 * n_restarts
    at, key = offset, b""
    while at < stop:
        shared, at = varint(content, at)
        unshared, at = varint(content, at)
        length, at = varint(content, at)
        if at + unshared + length > stop or shared > len(key):
            raise ValueError("an entry lies beyond its block")
        key = key[:shared] + content[at : at + unshared]
        yield key, content[at + unshared : at + unshared + length]
        at += unshared + length


def _entry(message: bytes) -> BundleEntry:
    entry = BundleEntry()
    for number, value in fields(message):
        if number == 2 and isinstance(value, bytes):
            entry.shape = _shape(value)
        elif number == 7:
            entry.sliced = True
        elif isinstance(value, int) and number in (1, 3, 4, 5, 6):
            setattr(entry, ("", "dtype", "", "shard", "offset", "size", "checksum")[number], value)
    return entry


def _shape(message: bytes) -> list[int]:
    sizes = []
    for number, dimension in fields(message):
        if number == 2 and isinstance(dimension, bytes):
            sizes.append(next((int(n) for field, n in fields(dimension) if field == 1 and isinstance(n, int)), 0))
    return sizes
