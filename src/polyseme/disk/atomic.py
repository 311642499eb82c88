"""Files and folders that appear whole or not at all: written in a temporary folder beside their place, then renamed.

Where the path is a symbolic link, its place is where the link leads.

The temporary folder, ``.NAME.xxxxxxxx.part``, holds what is ``new`` and, for the moment of the change, what is ``old``.
Its writer holds a lock on it, which the system lifts when the process dies, however it dies. So the next writer of the
same path can tell what a dead one left, and clears it away.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from polyseme.errors import FormatError

try:
    import fcntl
except ImportError:  # not on this system: nobody's folders are ever taken for abandoned
    fcntl = None  # type: ignore[assignment]


@contextmanager
def new_file(path: str | Path) -> Iterator[Path]:
    """A temporary path to write to; it becomes ``path`` when the block ends well, and vanishes when it does not."""
    name, path = Path(path).name, followed(path)
    _check_file(path)
    _check_writable(path.parent)
    with _workshop(path) as workshop:
        new = workshop / "new"  # a folder here too, for writers that put a temporary file beside theirs
        new.mkdir()
        part = new / name
        part.touch()
        yield part
        _sync(part)
        os.replace(part, path)


@contextmanager
def new_folder(path: str | Path, *, marker: str) -> Iterator[Path]:
    """The same for a folder. An old one is replaced only if it holds ``marker``, so never a stranger's folder."""
    path = followed(path)
    check_replaceable(path, marker=marker)
    with _workshop(path) as workshop:
        new = workshop / "new"
        new.mkdir()
        yield new
        _put(new, path, workshop)


class Scratch:
    """A folder among the system's temporary ones that is gone with this object; after a crash, with the next one."""

    def __init__(self) -> None:
        held = ExitStack()
        self.path = held.enter_context(_workshop(Path(tempfile.gettempdir()) / "polyseme")) / "new"
        self.close = weakref.finalize(self, held.close)
        self.path.mkdir()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()


def publish_folder(part: str | Path, path: str | Path, *, marker: str) -> None:
    """Give a finished folder its name, in the place of an earlier result of the same kind."""
    path = followed(path)
    check_replaceable(path, marker=marker)
    with _workshop(path) as workshop:
        _put(Path(part), path, workshop)


def followed(path: str | Path) -> Path:
    """The place a symbolic link leads to, whether anything is there yet or not; any other path as it is."""
    if not os.path.islink(path):
        return Path(path)
    end = os.path.realpath(path)
    if os.path.islink(end):
        raise FormatError(f"{path} is a link that leads back to itself: choose another output path")
    return Path(end)


def check_replaceable(path: str | Path, *, marker: str) -> None:
    """Refuse to write over anything that is not an earlier result of ours; call it before long work."""
    path = followed(path)
    with _alone(path.parent):
        _check_replaceable(path, marker)


def _check_replaceable(path: Path, marker: str) -> None:
    if path.is_dir():
        if path.resolve() == Path.cwd():
            raise FormatError(f"{path} is the folder you are in, which cannot be replaced: choose another output path")
        if not (path / marker).exists() and any(path.iterdir()):
            raise FormatError(f"{path} is a folder with other things in it (no {marker}): choose another output path")
    elif path.exists():
        raise FormatError(f"{path} is a file, and the result is a folder: choose another output path")
    _check_writable(path.parent)


def _check_writable(folder: Path) -> None:
    there = next((place for place in (folder, *folder.parents) if place.exists()), folder)
    if not there.is_dir():
        raise FormatError(f"{there} is a file, so nothing can be written inside it: choose another output path")
    if not os.access(there, os.W_OK | os.X_OK):
        raise FormatError(f"{there} cannot be written to: choose another output path")


def _check_file(path: Path) -> None:
    # A rename would put a plain file in the place of a device or pipe.
    if path.is_dir():
        raise FormatError(f"{path} is a folder, and the result is a file: choose another output path")
    if path.exists() and not path.is_file():
        raise FormatError(f"{path} is no plain file, and the result takes the place of what is there: name a file")


def _put(folder: Path, path: Path, workshop: Path) -> None:
    for file in folder.iterdir():
        _sync(file)
    with _alone(path.parent):
        if path.exists():
            os.rename(path, workshop / "old")
        os.rename(folder, path)  # where this fails, _clear puts the old one back


@contextmanager
def _workshop(path: Path) -> Iterator[Path]:
    """A locked folder beside ``path``, cleared away in the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _clear_abandoned(path)
    workshop, handle = _locked_folder(path)
    try:
        yield workshop
    except OSError as error:
        if error.filename is None:  # a write to a full disk does not say where it was
            error.filename = str(path)
        raise
    finally:
        _clear(workshop, path)
        if handle is not None:
            os.close(handle)


def _locked_folder(path: Path) -> tuple[Path, int | None]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
        try:
            handle = _lock(folder)
        except (BlockingIOError, FileNotFoundError):
            continue  # taken for abandoned before it was locked, and cleared away: make another
        except OSError:
            return folder, None  # this file system has no locks, so nobody will take it for abandoned either
        if folder.exists():
            return folder, handle
        os.close(handle)


def _lock(folder: Path) -> int:
    """Lock a folder until the handle is closed or the process ends; an OSError where it is locked or cannot be."""
    if fcntl is None:
        raise OSError("this system has no locks")
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Of all the writers into this folder, one at a time: while one changes names, another sees none or half.

    A courtesy of a moment: a stranger who holds a lock on the folder for longer does not stop us.
    """
    handle = None
    for _ in range(100):
        try:
            handle = _lock(folder)
        except BlockingIOError:  # noqa: PERF203 - a wait, not work
            time.sleep(0.02)
        except OSError:
            break  # it does not exist yet, or has no locks
        else:
            break
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _clear_abandoned(path: Path) -> None:
    """Clear away what dead writers of ``path`` left. A courtesy: where it fails, the work goes on."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}\.part")
    with suppress(OSError):
        for folder in [entry for entry in path.parent.iterdir() if ours.fullmatch(entry.name) and entry.is_dir()]:
            try:
                handle = _lock(folder)
            except OSError:
                continue  # its writer lives, or another process was quicker
            try:
                if {entry.name for entry in folder.iterdir()} <= {"new", "old"}:
                    _clear(folder, path)
            finally:
                os.close(handle)


def _clear(workshop: Path, path: Path) -> None:
    """Remove a workshop. An old result that was to be replaced and was not goes back to its place first."""
    if os.path.lexists(workshop / "old"):
        with _alone(path.parent):
            if not os.path.lexists(path):
                os.rename(workshop / "old", path)
    shutil.rmtree(workshop, ignore_errors=True)


def _sync(file: Path) -> None:
    if file.is_file():
        with open(file, "r+b") as handle:  # Windows syncs only what may be written
            os.fsync(handle.fileno())
