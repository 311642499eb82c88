"""Replace several files of one folder that belong together, in one step.

No system renames two files at once. So for a moment each name is a link through ``current``, a link in the working
folder (see atomic.py) that points to the old files and then, after one rename, to the new ones:

    x.npy -> .x.npy.part/current/x.npy        current -> olds, then new

At the end the files themselves replace the links to them. If the writer is killed, the next one does this (``settle``).
Readers open one file after the other, and start again if the files were replaced in between (``of_one_version``).
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from polyseme.disk.exchange import sync_names, sync_tree
from polyseme.errors import FormatError

T = TypeVar("T")

CONTENT = ("new", "olds", "current", "next", "written")  # what the working folder may contain
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
            found = action()
        except FormatError:
            if [_identity(path) for path in paths] == before:
                raise
        else:
            if [_identity(path) for path in paths] == before:
                return found
        if time.monotonic() > end:
            raise FormatError(f"{paths[0]} kept being replaced while it was read: try again later")


def _identity(path: str | Path) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size  # links are followed


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
