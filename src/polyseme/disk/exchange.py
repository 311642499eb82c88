"""Swap two names in one step, so that neither is ever missing (renameat2 on Linux, renamex_np on macOS); and fsync."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

_HERE = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE, and RENAME_SWAP on macOS
_CANNOT = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV)


def exchange(one: Path, other: Path) -> bool:
    """Swap two files or folders; False if the system or this file system cannot do it."""
    import ctypes

    first, second = os.fsencode(one), os.fsencode(other)
    try:
        system = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            failed = system.renamex_np(first, second, ctypes.c_uint(_EXCHANGE))
        else:
            failed = system.renameat2(_HERE, first, _HERE, second, ctypes.c_uint(_EXCHANGE))
    except (AttributeError, OSError, TypeError):  # this system has no such function or library
        return False
    if not failed:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(other))


def sync_file(file: Path) -> None:
    """Flush a file's content to disk."""
    with open(file, "r+b") as handle:  # Windows syncs only files that are open for writing
        os.fsync(handle.fileno())


def sync_names(folder: Path) -> None:
    """Flush a folder's entries (file names) to disk, if the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _CANNOT:  # some network file systems have nothing to sync here
            raise
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Flush a folder and everything in it to disk."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            sync_tree(Path(entry))
        elif entry.is_file(follow_symlinks=False):
            sync_file(Path(entry))
    sync_names(folder)
