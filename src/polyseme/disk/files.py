"""Regular files, each opened once and read through that one handle.

Pipes and devices are refused, because reading from them may block or continue forever.

Plain and compressed files alike: gz, bz2 and xz are recognised by their first bytes, whatever the name.

Read JSON files of settings, checking that they are JSON objects.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import stat
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from polyseme.disk.mapped import map_file
from polyseme.errors import FormatError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LONGEST_JSON = 64 << 20
CHUNK = 1 << 20
PIPE_PATIENCE = 10.0  # seconds to wait until a writer opens the other end of a pipe
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # do not wait for a pipe's writer


def open_plain(path: str | Path, *, inside: int | None = None) -> IO[bytes]:
    """Open a regular file for reading; with ``inside``, the handle of its folder, it is looked up there, not by path.

    Raises FormatError if it is not a regular file, and OSError if the system cannot open it.
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
    """Open a file or pipe for reading, such as a shell's ``<(command)``; a pipe without a writer is refused."""
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
    """The first bytes of a pipe; b"" if it has a writer that has not written yet."""
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
    """A pipe whose first bytes have already been read."""

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
    """The content of a regular file of at most ``most`` bytes."""
    with PlainFile(path) as file:
        return file.read(most)


def parse_json(data: bytes) -> Any:
    """Parse JSON in UTF-8; raises ValueError if it is invalid or nested too deeply."""
    try:
        return json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


class PlainFile:
    """An open regular file; ``path`` is used in messages."""

    def __init__(self, path: str | Path, *, inside: int | None = None) -> None:
        self.path = Path(path)
        self._file = open_plain(path, inside=inside)
        self._seen = os.fstat(self._file.fileno())
        self.size = self._seen.st_size

    def __enter__(self) -> PlainFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; mapped arrays stay valid."""
        self._file.close()

    def read(self, most: int | None = None) -> bytes:
        """The whole content; a file of more than ``most`` bytes is refused before it is read."""
        if most is not None and self.size > most:
            raise FormatError(f"{self.path} is too large for this kind of file: {self.size:,} bytes")
        self._file.seek(0)
        return self._file.read()

    def piece(self, begin: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``begin`` on; fewer at the end of the file."""
        self._file.seek(begin)
        return self._file.read(size)

    def chunks(self, size: int = CHUNK, *, begin: int = 0) -> Iterator[bytes]:
        """Everything from ``begin`` on, in plain reads: a memory map's pages would count as memory of this process."""
        self._file.seek(begin)
        while data := self._file.read(size):
            yield data

    def mapped(self, dtype: DTypeLike, begin: int = 0) -> NDArray[Any]:
        """The numbers from byte ``begin`` on as a read-only memory map; an empty array for an empty file."""
        size = self.size - begin
        if size % np.dtype(dtype).itemsize:
            raise FormatError(
                f"{self.path} was truncated or altered: {self.size:,} bytes are not a whole number of entries"
            )
        return map_file(self.path, self._file, self._seen, dtype, begin) if size > 0 else np.zeros(0, dtype)


PACKED = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))  # first bytes, opener
_BY_SUFFIX = {".gz": lambda path, mode: gzip.GzipFile(path, mode, mtime=0), ".bz2": bz2.open, ".xz": lzma.open}


@contextmanager
def open_for_reading(path: Path) -> Iterator[tuple[IO[bytes], int | None]]:
    """The uncompressed content as a stream, and its size in bytes; None if the file is compressed."""
    try:
        with open_plain(path) as plain:
            start = plain.read(6)
            plain.seek(0)
            for magic, opener in PACKED:
                if start.startswith(magic):
                    with opener(plain, "rb") as inside:
                        yield inside, None  # type: ignore[misc]
                    return
            yield plain, os.fstat(plain.fileno()).st_size
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise FormatError(f"{path} is truncated or damaged: its compressed data cannot be read ({error})") from None
    except OSError as error:
        if error.errno is None:  # bz2 reports damage this way
            raise FormatError(f"{path} is damaged: its compressed data cannot be read ({error})") from None
        raise FormatError(f"{path} cannot be read: {error.strerror}") from None


@contextmanager
def open_for_writing(path: Path, named: Path) -> Iterator[IO[bytes]]:
    """Open ``path`` for writing, compressed if its final name (``named``) ends in .gz, .bz2 or .xz."""
    opener = _BY_SUFFIX.get(named.suffix.lower(), open)
    with opener(path, "wb") as file:  # type: ignore[operator]
        yield file


def first_bytes(path: Path, n: int) -> bytes:
    """The first ``n`` bytes of the uncompressed content; fewer if it is shorter."""
    with open_for_reading(path) as (file, _):
        return file.read(n)


LONGEST_SETTINGS = 8 << 20  # Gemma lists its 6,000 added tokens in tokenizer_config.json


def parsed_settings(content: bytes, *, where: object) -> dict[str, Any]:
    """Parse the JSON object in these bytes; ``where`` names the file in error messages."""
    try:
        record = parse_json(content)
    except ValueError:
        raise FormatError(f"{where} is not JSON") from None
    if not isinstance(record, dict):
        raise FormatError(f"{where} is not a table of settings")
    return record


def read_settings(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file."""
    try:
        return parsed_settings(read_small(path, LONGEST_SETTINGS), where=path)
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror}") from None
