"""Open a folder of ours: its description and all its files, in one consistent version.

A folder is never changed in place: a new version takes over the name of the old one, which is then removed. So a reader
that opens the folder once, and all its files through that handle, sees a single version even if the folder is replaced
meanwhile. If files vanish while they are being opened, because the folder was replaced, everything is opened again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from polyseme.disk.description import inner_models, sha256, sha256_of_ends
from polyseme.disk.files import LONGEST_JSON, PlainFile
from polyseme.errors import FormatError

if TYPE_CHECKING:
    from polyseme.disk.folders import Manifest

T = TypeVar("T")

DEEPEST = 8  # levels of nested models
PATIENCE = 5.0  # seconds to retry if a folder is replaced again and again
_BY_HANDLE = os.open in os.supports_dir_fd


def steady(path: str | Path, action: Callable[[], T]) -> T:
    """The result of ``action``, which is repeated if it failed and the folder at ``path`` was replaced meanwhile."""
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
    return found.st_dev, found.st_ino, found.st_ctime_ns  # an inode number may be reused, but not with the same time


def _replaced_since(path: str | Path, before: tuple[int, ...] | None) -> bool:
    """Whether the folder was replaced since ``before``, or is just being replaced where that takes two steps."""
    path = Path(path)
    now = _identity(path)
    if now != before or now is not None:
        return now != before
    between_names = os.path.lexists(path.with_name(f".{path.name}.part") / "old")
    return between_names or _identity(path) is not None  # the new version may have appeared just now


@contextmanager
def opened(manifest: Manifest, path: str | Path) -> Iterator[OpenFolder]:
    """Open the folder at ``path`` in one version; its files are closed when the block ends; mapped arrays remain."""
    folder = steady(path, lambda: OpenFolder(manifest, Path(path)))
    try:
        yield folder
    finally:
        folder.close()


class OpenFolder:
    """An open folder: ``found`` is its description, ``inner`` the models that it is composed of."""

    def __init__(self, manifest: Manifest, path: Path, *, inside: int | None = None, depth: int = 0) -> None:
        self.manifest, self.path = manifest, path
        self.inner: dict[str, OpenFolder] = {}
        self._files: dict[str, PlainFile] = {}
        handle = _folder_handle(path, inside, manifest)
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
            inner = self.inner[name] = OpenFolder(self.manifest, self.path / name, inside=handle, depth=depth + 1)
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
        """Check each file against its checksum in the description, including those of inner models.

        Of large files only the ends are checked, unless ``everything``.
        """
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


def _folder_handle(path: Path, inside: int | None, manifest: Manifest) -> int | None:
    if not _BY_HANDLE:
        return None
    flags = os.O_RDONLY | os.O_DIRECTORY
    try:
        return os.open(path, flags) if inside is None else os.open(path.name, flags, dir_fd=inside)
    except FileNotFoundError:
        raise FormatError(f"{path} does not exist") from None
    except NotADirectoryError:
        raise FormatError(f"{path} is a file, not {manifest.kind} ({manifest.command} makes one)") from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
