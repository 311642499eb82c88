"""Files that stay mapped: noticed when they change in place, and copied for those whom a change must not reach.

A folder of ours is replaced as a whole, and whoever has it open keeps the old version. Another program may still write
into a file in place (``cp``, ``rsync --inplace``, an editor). Then a memory map shows the new bytes as the old numbers,
and if the file became shorter, reading beyond its end kills the process. So what maps files remembers their size and
time of change and asks for them at each batch. A change between that question and the reading cannot be noticed; the
server, which many people depend on, maps private copies.
"""

from __future__ import annotations

import errno
import logging
import mmap
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from polyseme.errors import FileChanged

log = logging.getLogger(__name__)

COPIED_INTO_MEMORY = 64 << 20  # bytes; a private copy of a larger file is a temporary file
_FICLONE = 0x40049409  # Linux: share the blocks of another file until one of the two is written to
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Watch:
    """Files that were mapped, and whether they are still as they were when they were opened."""

    def __init__(self) -> None:
        self._files: list[_HeldFile] = []

    def add(self, path: Path, file: IO[bytes], seen: os.stat_result) -> None:
        """Watch an open file, which had the status ``seen`` before anything was read."""
        self._files.append(_HeldFile(path, file, seen))

    def also(self, other: Watch) -> None:
        """Watch the files of another watch too."""
        self._files += other._files

    def check(self) -> None:
        """Raise FileChanged if one of the files was changed in place."""
        for file in self._files:
            file.check()


class _HeldFile:
    """One file, held open: at its name there may be another one by now."""

    def __init__(self, path: Path, file: IO[bytes], seen: os.stat_result) -> None:
        self.path, self.size, self.time = path, seen.st_size, seen.st_mtime_ns
        self.handle = os.dup(file.fileno())

    def check(self) -> None:
        now = os.fstat(self.handle)
        if now.st_mtime_ns != self.time or now.st_size != self.size:
            raise FileChanged(self.path)

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            os.close(self.handle)


_watches: ContextVar[tuple[Watch, ...]] = ContextVar("watches", default=())
_private: ContextVar[bool] = ContextVar("private", default=False)


@contextmanager
def watching(*, private: bool = False) -> Iterator[Watch]:
    """A watch over all files that are mapped until the end of the block; ``private``: copies of them are mapped."""
    watch = Watch()
    kept = _watches.set((*_watches.get(), watch)), _private.set(private or _private.get())
    try:
        yield watch
    finally:
        _watches.reset(kept[0])
        _private.reset(kept[1])


def map_file(path: Path, file: IO[bytes], seen: os.stat_result, dtype: DTypeLike, begin: int) -> NDArray[Any]:
    """The numbers of a file from byte ``begin`` on, read-only; of a private copy where that is wanted."""
    for watch in _watches.get():
        watch.add(path, file, seen)
    if not _private.get():
        return _mapped(path, file, seen.st_size, dtype, begin)
    array = _copied(path, file, seen.st_size, dtype, begin)
    _HeldFile(path, file, seen).check()  # the copy is of one version
    return array


def _mapped(path: Path, file: IO[bytes], size: int, dtype: DTypeLike, begin: int) -> NDArray[Any]:
    """Not np.memmap: of an open file it has no name, and joblib, which asks for that, fails."""
    try:
        whole = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    except ValueError:  # the file is shorter by now
        raise FileChanged(path) from None
    return np.frombuffer(whole, dtype=dtype, offset=begin)


def _copied(path: Path, file: IO[bytes], size: int, dtype: DTypeLike, begin: int) -> NDArray[Any]:
    clone = _cloned(path, file)
    if clone is None and size <= COPIED_INTO_MEMORY:
        file.seek(0)
        whole = file.read(size)
        if len(whole) < size:
            raise FileChanged(path)
        return np.frombuffer(whole, dtype=dtype, offset=begin)
    with clone or tempfile.TemporaryFile() as copy:
        try:
            if clone is None:
                file.seek(0)
                shutil.copyfileobj(file, copy, 1 << 20)
                copy.flush()
            if os.fstat(copy.fileno()).st_size < size:
                raise FileChanged(path)
            return _mapped(path, copy, size, dtype, begin)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
    log.warning(
        "no room in %s for a private copy of %s (%s MB): do not change the file while the server runs, or name another "
        "folder for temporary files with TMPDIR",
        *(tempfile.gettempdir(), path, f"{size / 1e6:,.0f}"),
    )
    return _mapped(path, file, size, dtype, begin)


def _cloned(path: Path, file: IO[bytes]) -> IO[bytes] | None:
    """A nameless copy that shares its blocks with the file: no time, no room. None where the file system has none."""
    if sys.platform != "linux":
        return None
    import fcntl

    with suppress(OSError):
        clone = open(os.open(path.parent, os.O_TMPFILE | os.O_RDWR, 0o600), "w+b")  # noqa: SIM115 - given back
        try:
            fcntl.ioctl(clone.fileno(), _FICLONE, file.fileno())
            return clone
        except OSError:
            clone.close()
    return None
