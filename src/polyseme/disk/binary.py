"""Read numbers and arrays from a binary file, checking every count in it against the size of the file.

Read protocol-buffer messages field by field; a length that extends beyond the message is an error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from polyseme.errors import FormatError

CHUNK = 8 << 20
LONGEST_STRING = 1 << 16
UNPACKED = 100  # the highest plausible compression ratio of a large file: vectors hardly compress


class BinaryReader:
    """Reads a file from beginning to end. ``size`` is its uncompressed size in bytes; None if that is not known."""

    def __init__(self, path: Path, file: IO[bytes], size: int | None) -> None:
        self.path = path
        self._file = file
        self._ahead = b""  # read from the file, not yet returned
        self._left = size
        self._most = None if size is not None else UNPACKED * path.stat().st_size + 4 * CHUNK

    def fields(self, form: str) -> tuple[Any, ...]:
        """Read little-endian numbers; ``form`` is a format of the ``struct`` module."""
        return struct.unpack("<" + form, self._take(struct.calcsize("<" + form)))

    def array(self, dtype: DTypeLike, count: int, what: str) -> NDArray[Any]:
        """Read ``count`` little-endian numbers; ``what`` names them in error messages."""
        dtype = np.dtype(dtype).newbyteorder("<")
        if count < 0:
            raise FormatError(f"{self.path} is altered: it claims {count:,} numbers of {what}")
        self._check(count * dtype.itemsize, what)
        pieces, missing = [], count * dtype.itemsize
        if self._left is not None:
            whole = np.empty(count, dtype=dtype)
            self._fill(memoryview(whole.view(np.uint8).data), what)
            return whole
        while missing:
            pieces.append(self._take(min(missing, CHUNK), what))
            missing -= len(pieces[-1])
        return np.frombuffer(bytearray().join(pieces), dtype=dtype)

    def strings(self, count: int, tail: int, what: str) -> Iterator[tuple[bytes, bytes]]:
        """Read ``count`` strings that end in NUL, each with the ``tail`` bytes after it."""
        if count < 0:
            raise FormatError(f"{self.path} is altered: it claims {count:,} {what}")
        self._check(count * (1 + tail), what)
        place = 0
        for _ in range(count):
            end = self._ahead.find(b"\x00", place, place + LONGEST_STRING)
            if end < 0 or end + 1 + tail > len(self._ahead):
                self._ahead = self._ahead[place:] + self._file.read(CHUNK)
                place, end = 0, self._ahead.find(b"\x00", 0, LONGEST_STRING)
                if end < 0 or end + 1 + tail > len(self._ahead):
                    raise FormatError(f"{self.path} is truncated or altered among its {what}")
            yield self._ahead[place:end], self._ahead[end + 1 : end + 1 + tail]
            self._count(end + 1 + tail - place)
            place = end + 1 + tail
        self._ahead = self._ahead[place:]

    def finish(self) -> None:
        """Refuse a file that has extra bytes at its end."""
        if self._ahead or self._file.read(1):
            raise FormatError(f"{self.path} has extra bytes at its end: it was altered")

    def _take(self, n: int, what: str = "its header") -> bytes:
        self._check(n, what)
        data = self._ahead[:n]
        self._ahead = self._ahead[n:]
        while len(data) < n and (more := self._file.read(n - len(data))):
            data += more
        if len(data) < n:
            raise FormatError(f"{self.path} is truncated in {what}")
        self._count(n)
        return data

    def _fill(self, target: memoryview, what: str) -> None:
        at = min(len(self._ahead), len(target))
        target[:at] = self._ahead[:at]
        self._ahead = self._ahead[at:]
        while at < len(target):
            n = self._file.readinto(target[at : at + (1 << 28)])  # type: ignore[attr-defined]
            if not n:
                raise FormatError(f"{self.path} is truncated in {what}")
            at += n
        self._count(len(target))

    def _check(self, n: int, what: str) -> None:
        if self._left is not None and n > self._left:
            raise FormatError(
                f"{self.path} is truncated or altered: {what} should take {n:,} bytes, and {self._left:,} are left"
            )

    def _count(self, n: int) -> None:
        if self._left is not None:
            self._left -= n
        if self._most is not None:
            self._most -= n
            if self._most < 0:
                raise FormatError(f"{self.path} unpacks to more than {UNPACKED} times its size: it contains no vectors")


_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode the integer at offset ``at``; returns it and the offset after it."""
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("a number without end")


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message as (field number, integer or bytes); ValueError or IndexError if it is damaged."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = varint(message, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = varint(message, at)
        else:
            size = {_FIXED32: 4, _FIXED64: 8}.get(kind, len(message) + 1)
        if at + size > len(message):
            raise ValueError("a field extends beyond its message")
        raw = message[at : at + size]
        yield tag >> 3, raw if kind == _BYTES else int.from_bytes(raw, "little")
        at += size
