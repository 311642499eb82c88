"""Plain files, opened once and read through that one handle.

A pipe or a device in the place of a file would wait, or continue, for ever: neither is opened.
"""

from __future__ import annotations

import io
import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from polyseme.errors import FormatError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LONGEST_JSON = 64 << 20
CHUNK = 1 << 20
PIPE_PATIENCE = 10.0  # seconds until somebody must have opened the other end of a pipe
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a pipe without a writer waits


def open_plain(path: str | Path, *, inside: int | None = None) -> IO[bytes]:
    """Open a file for reading; ``inside`` is the handle of its folder, by which it is then found instead of by path.

    What is not a plain file is a FormatError; what the system refuses is its OSError.
    """
    try:
        handle = os.open(path, _FLAGS) if inside is None else os.open(Path(path).name, _FLAGS, dir_fd=inside)
    except ValueError:  # a NUL, or a lone surrogate
        raise FormatError(f"{str(path)!r} is not the name of a file") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FormatError(f"{path} is not a regular file (but a folder, pipe or device)")
    return open(handle, "rb")


def open_text(path: str | Path) -> IO[bytes]:
    """Open a file for reading, or a pipe, as shells make of ``<(command)``; one that nobody writes to is refused."""
    handle = os.open(path, _FLAGS)
    try:
        first = _begun(handle, path) if stat.S_ISFIFO(os.fstat(handle).st_mode) else b""
    except BaseException:
        os.close(handle)
        raise
    if hasattr(os, "set_blocking"):
        os.set_blocking(handle, True)
    if first:
        return io.BufferedReader(_Begun(handle, first))
    return open(handle, "rb")


def _begun(handle: int, path: str | Path) -> bytes:
    """What a pipe gives at first; b"" if its writer is there and has not written yet."""
    end = time.monotonic() + PIPE_PATIENCE
    while time.monotonic() < end:
        try:
            if first := os.read(handle, io.DEFAULT_BUFFER_SIZE):
                return first
        except BlockingIOError:
            return b""
        time.sleep(0.02)
    raise FormatError(f"{path} is a pipe without a writer")


class _Begun(io.RawIOBase):
    """A pipe whose first bytes have been read already."""

    def __init__(self, handle: int, first: bytes) -> None:
        self._handle, self._first = handle, first

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        room = memoryview(buffer).cast("B")
        data = self._first[: len(room)] or os.read(self._handle, len(room))
        self._first = self._first[len(room) :]
        room[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            os.close(self._handle)
        super().close()


def read_small(path: str | Path, most: int = LONGEST_JSON) -> bytes:
    """All of a plain file that is no longer than ``most`` bytes."""
    with PlainFile(path) as file:
        return file.read(most)


def parse_json(data: bytes) -> Any:
    """The JSON value; a ValueError for whatever it is not, nested too deep included."""
    try:
        return json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


class PlainFile:
    """A file that is open; ``path`` is what people call it."""

    def __init__(self, path: str | Path, *, inside: int | None = None) -> None:
        self.path = Path(path)
        self._file = open_plain(path, inside=inside)
        self.size = os.fstat(self._file.fileno()).st_size

    def __enter__(self) -> PlainFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Arrays that were mapped stay."""
        self._file.close()

    def read(self, most: int | None = None) -> bytes:
        """All of it; more than ``most`` bytes are refused before they are read."""
        if most is not None and self.size > most:
            raise FormatError(f"{self.path} is too large for this kind of file: {self.size:,} bytes")
        self._file.seek(0)
        return self._file.read()

    def piece(self, begin: int, size: int) -> bytes:
        """Some bytes, fewer at the end of the file."""
        self._file.seek(begin)
        return self._file.read(size)

    def chunks(self, size: int = CHUNK, *, begin: int = 0) -> Iterator[bytes]:
        """All from ``begin`` on in plain reads: the pages of a memory map would count as memory of the process."""
        self._file.seek(begin)
        while data := self._file.read(size):
            yield data

    def mapped(self, dtype: DTypeLike, begin: int = 0) -> NDArray[Any]:
        """Its numbers from byte ``begin`` on, memory-mapped and read-only; none for an empty file."""
        size = self.size - begin
        if size % np.dtype(dtype).itemsize:
            raise FormatError(
                f"{self.path} was truncated or altered: {self.size:,} bytes are not a whole number of entries"
            )
        return np.memmap(self._file, dtype=dtype, mode="r", offset=begin) if size > 0 else np.zeros(0, dtype)
