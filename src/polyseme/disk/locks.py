"""One writer at a time: a working folder is locked by its ``lock`` file.

The system releases the lock when the process dies for any reason, so a folder without a lock is known to be abandoned.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from polyseme.errors import FormatError

try:
    import fcntl
except ImportError:  # not on this system: an existing folder is assumed to be in use
    fcntl = None  # type: ignore[assignment]

LOCK = "lock"
CONTENT = {LOCK, "old", "new", "olds", "current", "next", "written"}  # of a working folder (see atomic.py)
GRACE = 1.0  # seconds to wait for a writer that is about to finish


class Busy(Exception):
    """Another process or thread has locked the folder."""


@dataclass
class Hold:
    """A folder locked by one thread; the lock is reentrant, and ``depth`` counts how often it was acquired."""

    folder: Path
    handle: int | None  # None: this file system does not support locks
    depth: int = 1
    process: int = field(default_factory=os.getpid)
    thread: int = field(default_factory=threading.get_ident)

    @property
    def mine(self) -> bool:
        """Whether the current thread holds the lock."""
        return (self.process, self.thread) == (os.getpid(), threading.get_ident())

    def release(self) -> None:
        """Remove the folder and release the lock."""
        if self.process != os.getpid():  # a forked child must not release its parent's lock
            return
        _held.pop(self.folder, None)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.handle is not None:
            os.close(self.handle)


_held: dict[Path, Hold] = {}


def hold(folder: Path, *, then: Callable[[], None], who: str) -> Hold:
    """Lock a folder, creating it if it is missing; calls ``then`` unless this thread holds the lock already.

    ``who`` is the path to name in the error message if another command keeps the lock.
    """
    held = _held.get(folder)
    if held and held.mine:
        held.depth += 1
        return held
    end = time.monotonic() + GRACE
    while True:
        try:
            taken = Hold(folder, _acquire(folder))
            break
        except Busy:
            if time.monotonic() > end:
                raise FormatError(
                    f"{who} is being written by another command: wait for it to end, or choose another output path"
                ) from None
            time.sleep(0.02)
    _held[folder] = taken
    try:
        then()
    except BaseException:
        taken.release()
        raise
    return taken


def hold_new(make: Callable[[], Path]) -> Hold:
    """Lock a new folder; ``make`` creates one with a random name."""
    while True:
        folder = make()
        try:
            return _held.setdefault(folder, Hold(folder, _acquire(folder)))
        except Busy:
            continue  # another process took it for abandoned before it was locked: make another


def remove_abandoned(folder: Path) -> None:
    """Remove a working folder whose process is dead. Failures are ignored, as this is only a clean-up."""
    if folder in _held or fcntl is None:
        return
    with suppress(OSError):
        if {entry.name for entry in folder.iterdir()} <= CONTENT and (folder / LOCK).exists():
            handle = _lock(folder)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(handle)


def _acquire(folder: Path) -> int | None:
    """Create and lock a folder. Raises Busy if another holds it, and FormatError if it contains other files."""
    while True:
        made = False
        try:
            with suppress(FileExistsError):
                folder.mkdir()
                made = True
            if not made and (folder.is_symlink() or not {entry.name for entry in folder.iterdir()} <= CONTENT):
                raise FormatError(f"{folder} is in the way and contains other files: move it away")
            return _lock(folder)
        except BlockingIOError:
            raise Busy from None
        except FileNotFoundError:
            continue  # its holder has just removed it
        except NotADirectoryError:
            raise FormatError(f"{folder} is in the way: move it away") from None
        except _NoLocks:
            if made:
                return None
            raise FormatError(f"{folder} shows that another command is writing there; if none is, delete it") from None


class _NoLocks(Exception):
    """This system or file system does not support locks."""


def _lock(folder: Path) -> int:
    if fcntl is None:
        raise _NoLocks
    file = folder / LOCK
    handle = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(handle), os.stat(file)):
            raise FileNotFoundError(str(file))
    except (BlockingIOError, FileNotFoundError):
        os.close(handle)
        raise
    except OSError:
        os.close(handle)
        raise _NoLocks from None
    return handle


def _forget() -> None:
    """In a forked child: close the parent's locks, which must not outlive the parent."""
    for held in _held.values():
        if held.handle is not None:
            os.close(held.handle)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
