"""Files and folders that appear whole or not at all: written to a temporary sibling, then renamed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polyseme.errors import FormatError


@contextmanager
def new_file(path: str | Path) -> Iterator[Path]:
    """A temporary path to write to; it becomes ``path`` when the block ends well, and vanishes when it does not."""
    path = Path(path)
    _check_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    part = Path(name)
    try:
        yield part
        _allow_usual_readers(part, 0o666)
        _sync(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def new_folder(path: str | Path, *, marker: str) -> Iterator[Path]:
    """The same for a folder. An old one is replaced only if it holds ``marker``, so never a stranger's folder."""
    path = Path(path)
    check_replaceable(path, marker=marker)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    try:
        yield part
        for file in part.iterdir():
            _sync(file)
        _allow_usual_readers(part, 0o777)
        _swap(part, path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def publish_folder(part: str | Path, path: str | Path, *, marker: str) -> None:
    """Give a finished folder its name, in the place of an earlier result of the same kind."""
    part, path = Path(part), Path(path)
    check_replaceable(path, marker=marker)
    for file in part.iterdir():
        _sync(file)
    _swap(part, path)


def check_replaceable(path: str | Path, *, marker: str) -> None:
    """Refuse to write over anything that is not an earlier result of ours; call it before long work."""
    path = Path(path)
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


def _swap(part: Path, path: Path) -> None:
    if not path.exists():
        os.rename(part, path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".old", dir=path.parent))
    try:
        os.rename(path, old / path.name)
        os.rename(part, path)
    except OSError:
        if not path.exists():
            os.rename(old / path.name, path)
        raise
    finally:
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)


def _allow_usual_readers(path: Path, mode: int) -> None:
    # tempfile makes things private; a finished result gets the permissions any new file would have.
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(mode & ~umask)


def _sync(file: Path) -> None:
    if file.is_file():
        with open(file, "rb") as handle:
            os.fsync(handle.fileno())
