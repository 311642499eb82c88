"""A folder of ours, opened: its description and all its files as they were at one moment.

A folder is never changed in place: a new version takes the name of the old one, which is then removed. So whoever opens
the folder once and all its files through that handle has one version, even if the name leads to another by now. Where
files vanish in between, because the folder was replaced, all is opened again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from polyseme.disk.description import inner_models, sha256, sha256_of_ends
from polyseme.disk.plain import LONGEST_JSON, PlainFile
from polyseme.errors import FormatError

if TYPE_CHECKING:
    from polyseme.disk.manifest import Manifest

T = TypeVar("T")

DEEPEST = 8  # models within models
PATIENCE = 5.0  # seconds in which a folder that is replaced again and again must hold still for a moment
_BY_HANDLE = os.open in os.supports_dir_fd


def steady(path: str | Path, action: Callable[[], T]) -> T:
    """What ``action`` makes of the folder at ``path``; again, where it failed and the folder was replaced meanwhile."""
    end = time.monotonic() + PATIENCE
    while True:
        before = _identity(path)
        try:
            return action()
        except FormatError:
            if time.monotonic() > end or not _replaced_since(path, before):
                raise
            time.sleep(0.001)


def _identity(path: str | Path) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns  # a number may be given again, never at the same time


def _replaced_since(path: str | Path, before: tuple[int, ...] | None) -> bool:
    """Was the folder replaced since ``before``, or is it being replaced where the system cannot do it in one step?"""
    path = Path(path)
    now = _identity(path)
    if now != before or now is not None:
        return now != before
    between_names = os.path.lexists(path.with_name(f".{path.name}.part") / "old")
    return between_names or _identity(path) is not None  # the new version may have come just now


@contextmanager
def opened(manifest: Manifest, path: str | Path) -> Iterator[Opened]:
    """The folder at ``path`` in one version; its files are closed when the block ends, mapped arrays stay."""
    folder = steady(path, lambda: Opened(manifest, Path(path)))
    try:
        yield folder
    finally:
        folder.close()


class Opened:
    """``found`` is the description, ``inner`` are the models it is composed of."""

    def __init__(self, manifest: Manifest, path: Path, *, inside: int | None = None, depth: int = 0) -> None:
        self.manifest, self.path = manifest, path
        self.inner: dict[str, Opened] = {}
        self._files: dict[str, PlainFile] = {}
        handle = _folder_handle(path, inside)
        try:
            self._open(handle, depth)
        except BaseException:
            self.close()
            raise
        finally:
            if handle is not None:
                os.close(handle)

    def _open(self, handle: int | None, depth: int) -> None:
        marker = self.path / self.manifest.marker
        try:
            with PlainFile(marker, inside=handle) as file:
                self.description = file.read(LONGEST_JSON)
        except (FileNotFoundError, NotADirectoryError):
            hint = f"({self.manifest.command} makes one)"
            raise FormatError(f"{self.path} is not {self.manifest.kind}: it has no {marker.name} {hint}") from None
        except OSError as error:
            raise FormatError(f"{marker} cannot be read: {error.strerror}") from None
        self.found: dict[str, Any] = self.manifest.checked(self.description, self.path)
        for name in self.found["files"]:
            self._files[name] = self._file(name, handle)
        if depth > DEEPEST:
            raise FormatError(f"{self.path} was altered: nested models, deeper than {DEEPEST}")
        for name, seal in inner_models(self.found, marker).items():
            inner = self.inner[name] = Opened(self.manifest, self.path / name, inside=handle, depth=depth + 1)
            if seal and inner.found.get("checksum") != seal:
                raise FormatError(f"{self.path} was altered: {name} is not the model it was built from")

    def _file(self, name: str, handle: int | None) -> PlainFile:
        try:
            file = PlainFile(self.path / name, inside=handle)
        except FileNotFoundError:
            raise FormatError(f"{self.path} is incomplete: {name} is missing") from None
        except OSError as error:
            raise FormatError(f"{self.path / name} cannot be read: {error.strerror}") from None
        said = self.found["files"][name]["size"]
        if file.size != said:
            file.close()
            marker = self.manifest.marker
            raise FormatError(f"{file.path} was truncated or altered: {file.size:,} bytes, but {marker} says {said:,}")
        return file

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        for inner in self.inner.values():
            inner.close()

    def file(self, name: str) -> PlainFile:
        """One of the files that the description lists."""
        if name not in self._files:
            raise FormatError(f"{self.path / self.manifest.marker} was altered: {name[:80]!r} is not among its files")
        return self._files[name]

    def verify(self, *, everything: bool = False) -> None:
        """Compare each file with its seal in the description, those of the inner models too."""
        marker = self.manifest.marker
        for name, file in self._files.items():
            kept = self.found["files"][name]
            whole = everything or "ends" not in kept
            if whole and "sha256" not in kept:
                raise FormatError(
                    f"{file.path} cannot be verified: {marker} has no checksum of the whole file; "
                    f"{self.manifest.command} makes one"
                )
            if kept.get("sha256" if whole else "ends") != (sha256(file) if whole else sha256_of_ends(file)):
                raise FormatError(f"{file.path} was altered: it does not match its checksum in {marker}")
        for inner in self.inner.values():
            inner.verify(everything=everything)


def _folder_handle(path: Path, inside: int | None) -> int | None:
    if not _BY_HANDLE:
        return None
    flags = os.O_RDONLY | os.O_DIRECTORY
    try:
        return os.open(path, flags) if inside is None else os.open(path.name, flags, dir_fd=inside)
    except FileNotFoundError:
        raise FormatError(f"{path} does not exist") from None
    except NotADirectoryError:
        raise FormatError(f"{path} is a file, not a polyseme folder") from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
