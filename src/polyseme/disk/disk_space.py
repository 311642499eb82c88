"""Disk space: reserve it before it is needed, and report a full disk in one line."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
