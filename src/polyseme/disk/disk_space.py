"""Disk space: reserve it before it is needed, and report a full disk in one line.

Write HDF5 files so that a full disk raises an error: the library itself crashes if a write fails.
"""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from polyseme.errors import DiskFull, PolysemeError

SCRATCH = re.compile(r"\.polyseme\.[a-z0-9_]{8}\.part")  # our temporary folders
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_IN_WORDS = re.compile(
    r"\d+ requested and \d+ written"  # NumPy
    rf"|os error ({errno.ENOSPC}|{errno.EDQUOT}|{errno.EFBIG})\b"  # Rust
    rf"|errno = ({errno.ENOSPC}|{errno.EDQUOT}|{errno.EFBIG})\b"  # HDF5
    r"|no space left|quota exceeded|file too large",
    re.IGNORECASE,
)
_ALL_BUT = 1 << 20  # bytes; with less free space a disk counts as full, as what did not fit was removed again


@contextmanager
def told_when_full(path: Path) -> Iterator[None]:
    """Raise DiskFull if the disk is full while ``path`` is written, whichever library reports it."""
    try:
        yield
    except PolysemeError:
        raise
    except Exception as error:
        if not is_full(error):
            if isinstance(error, OSError) and error.errno is not None and error.filename is None:
                error.filename = str(path)
            raise
        raise DiskFull(_fullest(path, error).absolute()) from None


def is_full(error: BaseException) -> bool:
    """Whether this error means that a disk is full; some libraries say so only in the message."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _FULL
    return bool(_FULL_IN_WORDS.search(str(error)))


def _fullest(path: Path, error: Exception) -> Path:
    """The folder whose disk is full: that of the output, of the failed file, or of temporary files."""
    temporary = Path(tempfile.gettempdir())
    places = [path.parent, temporary]
    if isinstance(error, OSError) and isinstance(error.filename, str):
        places.insert(0, Path(error.filename).parent)
    full = next((place for place in places if place.is_dir() and _free(place) < _ALL_BUT), path.parent)
    return temporary if any(SCRATCH.fullmatch(part) for part in full.parts) else full


def _free(place: Path) -> int:
    try:
        return shutil.disk_usage(place).free
    except OSError:
        return _ALL_BUT


def take_room(handle: int, size: int) -> None:
    """Extend a file to ``size`` bytes with disk space reserved for all of them; existing content is kept.

    Without this, writing to a memory map of a sparse file kills the process when the disk is full.
    """
    if hasattr(os, "posix_fallocate"):
        if size:
            os.posix_fallocate(handle, 0, size)
        return
    end = os.lseek(handle, 0, os.SEEK_END)
    zeros = bytes(1 << 20)
    while end < size:
        end += os.write(handle, zeros[: size - end])


class CheckedFile(io.FileIO):
    """A file for HDF5 to write to: failed writes seem to succeed, and ``checked`` raises the first failure later."""

    failed: OSError | None = None

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest and self.failed is None:
                rest = rest[super().write(rest) or 0 :]
        except OSError as error:
            self.failed = error
        return size

    def truncate(self, size: int | None = None) -> int:
        if self.failed is None:
            try:
                return super().truncate(size)
            except OSError as error:
                self.failed = error
        return size or 0

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Raise the first failure when the block ends.

        Also if the block itself fails, because HDF5 may fail when it reads back what could not be written.
        """
        try:
            yield
        finally:
            if self.failed is not None:
                raise self.failed


@contextmanager
def written_hdf5(path: Path) -> Iterator[Any]:
    """An ``h5py.File`` for writing, which is complete if the block succeeds."""
    import h5py

    with CheckedFile(path, "w+") as disk, disk.checked(), h5py.File(disk, "w") as file:
        yield file
