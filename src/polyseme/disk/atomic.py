"""Write files and folders atomically: in a working folder next to the target, then renamed.

If the path is a symbolic link, the target is what the link points to. The working folder, ``.NAME.part``, is locked: of
two writers of the same path the second is refused (see locks.py). It contains ``new``, what is being written, and, if
the system cannot swap two names in one step, ``old``, which the next writer puts back if this one dies in between. Two
names are swapped with renameat2 on Linux and renamex_np on macOS, so that neither is ever missing.

No system renames two files at once. So where several files of one folder belong together, each name is for a moment a
link through ``current``, a link in the working folder that points to the old files and then, after one rename, to the
new ones:

    x.npy -> .x.npy.part/current/x.npy        current -> olds, then new

At the end the files themselves replace the links to them. If the writer is killed, the next one does this (``settle``).
Readers open one file after the other, and start again if the files were replaced in between (``of_one_version``).
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from polyseme.disk.disk_space import SCRATCH, told_when_full
from polyseme.disk.locks import hold, hold_new, remove_abandoned
from polyseme.errors import FormatError, as_given

LONGEST_NAME = 240  # bytes; the working folder's name is a few bytes longer

# Raises if what is at a path may not be replaced; called with the path and, once it is written, the new folder.
Check = Callable[[Path, Path | None], None]


@contextmanager
def writing(path: str | Path, *, follow: bool = True) -> Iterator[Path]:
    """Become the only writer of ``path``; yields the working folder, which is removed when the block ends.

    The lock is reentrant: ``train`` holds it while it writes checkpoints and saves the model at the end.
    A symbolic link is followed; with ``follow=False`` the link itself is replaced.
    """
    path = followed(path) if follow else Path(path)
    check_place(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    workshop = path.parent.resolve() / f".{path.name}.part"
    held = hold(workshop, then=lambda: _clear(workshop, path), who=str(path))
    try:
        with told_when_full(path):
            yield workshop
    finally:
        if held.mine:
            held.depth -= 1
            _clear(workshop, path)
            if not held.depth:
                held.release()


@contextmanager
def new_file(path: str | Path) -> Iterator[Path]:
    """A temporary path to write to; it is renamed to ``path`` if the block succeeds and removed if it fails."""
    name, path = Path(path).name, followed(path)
    check_file(path)
    with writing(path) as workshop:
        part = _new(workshop) / name
        part.touch()
        yield part
        sync_file(part)
        os.replace(part, path)
        sync_names(path.parent)


@contextmanager
def new_files(path: str | Path, *beside: Path, force: bool = False) -> Iterator[list[Path]]:
    """Like ``new_file`` for several files of one folder; files ``beside`` that are not written anew are removed.

    A new folder appears with all files in it; in an existing one they appear in one step. Existing files are
    replaced only with ``force``.
    """
    path = Path(path)
    paths = [path, *beside]
    if not path.parent.exists():
        with new_folder(path.parent, check_absent) as folder:
            yield [folder / each.name for each in paths]
        return
    if not beside:
        with writing(path):
            check_file(path, force=force)
            with new_file(path) as part:
                yield [part]
        return
    with writing(path, follow=False) as workshop:
        for each in paths:
            check_file(each, force=force)
        new = _new(workshop)
        yield [new / each.name for each in paths]
        replace_together(workshop, paths)


@contextmanager
def new_folder(path: str | Path, check: Check) -> Iterator[Path]:
    """Like ``new_file`` for a folder; ``check`` decides, before and after the work, whether it may replace ``path``."""
    path = followed(path)
    with writing(path) as workshop:
        check(path, None)
        new = _new(workshop)
        yield new
        check(path, new)
        _put(new, path, workshop)


def publish_folder(part: Path, path: Path, check: Check) -> None:
    """Rename a finished folder to ``path``, which the caller holds with ``writing``."""
    with writing(path) as workshop:
        check(path, part)
        _put(part, path, workshop)
        if os.path.lexists(part):  # the two were swapped
            os.rename(part, workshop / "new")


def rewrite(file: Path, data: bytes) -> None:
    """Replace a small file atomically, in a folder that nobody else writes to."""
    aside = file.with_name(f".{file.name}")
    if aside.is_symlink() or (aside.exists() and not aside.is_file()):  # a killed process leaves a regular file here
        raise FormatError(f"{aside} is not a regular file, and not polyseme's: move it away")
    aside.write_bytes(data)
    sync_file(aside)
    os.replace(aside, file)


class Scratch:
    """A temporary folder that is removed with this object or, after a crash, when the next one is created."""

    def __init__(self) -> None:
        place = Path(tempfile.gettempdir())
        with suppress(OSError):
            for entry in os.scandir(place):
                if SCRATCH.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                    remove_abandoned(Path(entry))
        held = hold_new(lambda: Path(tempfile.mkdtemp(prefix=".polyseme.", suffix=".part", dir=place)))
        self.path = held.folder / "new"
        self.close = weakref.finalize(self, held.release)
        self.path.mkdir()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()


def followed(path: str | Path) -> Path:
    """The target of a symbolic link, whether it exists or not; any other path is returned as it is."""
    if not os.path.islink(path) or is_settling(path):
        return Path(path)
    end = os.path.realpath(path)
    if os.path.islink(end):
        raise FormatError(f"{path} is a link to itself: choose another output path")
    return Path(end)


def check_absent(path: Path, new: Path | None) -> None:
    """A ``Check`` that allows no replacement."""
    if os.path.lexists(path):
        raise FormatError(f"{path} was created in the meantime: choose another output path")


def check_place(path: Path) -> None:
    """Refuse a path that cannot be written to, before long work begins."""
    if len(os.fsencode(path.name)) > LONGEST_NAME:
        raise FormatError(f"{str(path)[:80]}… is too long for a file name: choose another output path")
    folder = path.parent
    nearest = next((place for place in (folder, *folder.parents) if os.path.exists(place)), folder)
    if not nearest.is_dir():
        raise FormatError(f"{nearest} is a file, so nothing can be written inside it: choose another output path")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise FormatError(f"{nearest} cannot be written to: choose another output path")


def check_file(path: str | Path, *, force: bool = True) -> None:
    """Refuse to replace a folder, device or pipe by a file, or without ``force`` a file that is not empty."""
    path = followed(path)
    if os.path.isdir(path):
        raise FormatError(f"{path} is a folder, and the result is a file: choose another output path")
    if os.path.exists(path) and not os.path.isfile(path):
        raise FormatError(f"{path} is not a regular file, and the result would replace it: give a file")
    if not force and os.path.isfile(path) and (size := os.path.getsize(path)):
        raise FormatError(
            f"{path} is a file of {size:,} bytes: replace it with {as_given('force')}, or choose another output path"
        )


def _new(workshop: Path) -> Path:
    """Create the folder for new output, even for a single file: its writer may put a temporary file next to it."""
    new = workshop / "new"
    new.mkdir()
    return new


def _put(folder: Path, path: Path, workshop: Path) -> None:
    sync_tree(folder)
    if os.path.lexists(path) and not exchange(folder, path):
        os.rename(path, workshop / "old")
    if os.path.lexists(folder) and not os.path.lexists(path):
        os.rename(folder, path)  # if this fails, _clear puts the old one back
    sync_names(path.parent)


def _clear(workshop: Path, path: Path) -> None:
    """Empty a working folder. If an old result was moved there but not replaced, it is first put back."""
    settle(workshop, path.parent)
    put_back(workshop, path)
    if os.path.lexists(workshop / "old") and not os.path.lexists(path):
        os.rename(workshop / "old", path)
    for name in ("new", "old", "olds"):
        shutil.rmtree(workshop / name, ignore_errors=True)
    for name in ("next", "written"):
        (workshop / name).unlink(missing_ok=True)


T = TypeVar("T")

_OURS = re.compile(r"\.[^/\\]+\.part/current/[^/\\]+")
PATIENCE = 5.0  # seconds to retry if files are replaced again and again
_NO_LINKS = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EXDEV, errno.EMLINK)


def replace_together(workshop: Path, paths: Sequence[Path]) -> None:
    """Replace ``paths`` by the files in ``workshop/new``; a path without a new file is removed."""
    new, olds = workshop / "new", workshop / "olds"
    sync_tree(new)
    olds.mkdir()
    try:
        for path in paths:
            if path.is_symlink():  # the user's own link: its target is kept
                os.symlink(os.path.realpath(path), olds / path.name)
            elif path.exists():
                os.link(path, olds / path.name)
        os.symlink("olds", workshop / "current")
    except (OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_LINKS:
            raise
        _one_by_one(workshop, paths)
        return
    sync_names(olds)
    sync_names(workshop)
    for path in paths:
        if os.path.lexists(olds / path.name) or os.path.lexists(new / path.name):
            os.symlink(_through(workshop, path.name), workshop / "next")
            os.replace(workshop / "next", path)
    sync_names(paths[0].parent)
    os.symlink("new", workshop / "next")
    os.replace(workshop / "next", workshop / "current")  # now the names point to the new files
    sync_names(workshop)
    settle(workshop, paths[0].parent)


def settle(workshop: Path, folder: Path) -> None:
    """Replace the links through ``current`` by the files that they point to."""
    if not os.path.islink(workshop / "current"):
        return
    for name in {name for side in ("olds", "new") for name in os.listdir(workshop / side)}:
        place, file = folder / name, workshop / "current" / name
        if os.path.islink(place) and os.readlink(place) == _through(workshop, name):
            os.replace(file, place) if os.path.lexists(file) else place.unlink()
    sync_names(folder)
    (workshop / "current").unlink()


def of_one_version(paths: Sequence[str | Path], action: Callable[[], T]) -> T:
    """The result of ``action``, which reads these files; it is repeated if one of them was replaced meanwhile."""
    end = time.monotonic() + PATIENCE
    while True:
        before = [_identity(path) for path in paths]
        try:
            result = action()
        except FormatError:
            if [_identity(path) for path in paths] == before:
                raise
        else:
            if [_identity(path) for path in paths] == before:
                return result
        if time.monotonic() > end:
            raise FormatError(f"{paths[0]} kept being replaced while it was read: try again later")


def _identity(path: str | Path) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size  # links are followed


def is_settling(path: str | Path) -> bool:
    """Whether this is one of the links through ``current``."""
    return bool(_OURS.fullmatch(os.readlink(path)))


def _through(workshop: Path, name: str) -> str:
    return f"{workshop.name}/current/{name}"


def _one_by_one(workshop: Path, paths: Sequence[Path]) -> None:
    """Fallback without links: the first path is removed first and its new file comes last, so no versions ever mix."""
    new, olds = workshop / "new", workshop / "olds"
    for name in os.listdir(olds):
        (olds / name).unlink()
    (workshop / "written").write_bytes(b"\0".join(os.fsencode(name) for name in os.listdir(new)))
    for path in paths:
        if os.path.lexists(path):
            os.rename(path, olds / path.name)
    for path in reversed(paths):
        if (new / path.name).exists():
            os.rename(new / path.name, path)
    sync_names(paths[0].parent)


def put_back(workshop: Path, path: Path) -> None:
    """Undo an unfinished ``_one_by_one``, in which ``path`` is not in place yet: restore the old files."""
    new, olds = workshop / "new", workshop / "olds"
    if not (workshop / "written").exists() or not os.path.lexists(new / path.name):
        return
    for name in map(os.fsdecode, (workshop / "written").read_bytes().split(b"\0")):
        if not os.path.lexists(new / name):
            path.with_name(name).unlink(missing_ok=True)
    for name in sorted(os.listdir(olds), key=lambda name: name == path.name):
        os.replace(olds / name, path.with_name(name))


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
