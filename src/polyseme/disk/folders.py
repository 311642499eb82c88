"""Our kinds of folders (corpus, model, index), each with a description that lists its files with their checksums.

The description (corpus.json, model.json, index.json) is written last. A folder that is truncated, altered or in another
format is refused with a one-line error. On opening, a file is hashed completely up to a size that its kind of folder
sets, and a larger one only at its ends; ``verify`` with ``everything`` hashes every byte.

A folder is never changed in place: a new version takes over the name of the old one, which is then removed. So a reader
that opens the folder once, and all its files through that handle, sees a single version even if the folder is replaced
meanwhile. If files vanish while they are being opened, because the folder was replaced, everything is opened again.

Folders in the formats of other libraries, with a list of their files by which we recognise them as ours.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from polyseme.disk import atomic
from polyseme.disk.atomic import sync_file
from polyseme.disk.description import check_seal, checksum, inner_models, parse, sha256, sha256_of_ends
from polyseme.disk.files import LONGEST_JSON, PlainFile
from polyseme.disk.ownership import check_new
from polyseme.errors import FormatError
from polyseme.version import VERSION


def _no_files(found: dict[str, Any]) -> Iterable[str]:
    return ()


@dataclass(frozen=True)
class Manifest:
    """One kind of folder: the file and format of its description, and the entries and files that it must have."""

    kind: str  # for messages: "a corpus"
    marker: str  # the description's file: "corpus.json"
    format: int
    command: str  # the command that makes such a folder: "polyseme corpus"
    entries: Mapping[str, type]
    needs: Callable[[dict[str, Any]], Iterable[str]] = _no_files  # description → required files
    whole: int = 64 << 20  # files up to this many bytes are hashed completely on opening

    def open(self, path: str | Path) -> AbstractContextManager[OpenFolder]:
        """Open the folder at ``path`` in one consistent version, even if it is replaced meanwhile."""
        return opened(self, path)

    def new_folder(self, path: str | Path, *, force: bool = False, **known: Any) -> AbstractContextManager[Path]:
        """A folder to write to that becomes ``path``; ``force`` replaces another polyseme result (see ownership.py)."""
        return atomic.new_folder(path, lambda there, new: check_new(there, new, self.marker, force=force, **known))

    def seals(self, folder: Path, *, aside: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
        """Size and checksums of every file except the description and those named ``aside``."""
        files = sorted(file for file in folder.iterdir() if file.is_file() and file.name not in {self.marker, *aside})
        return {file.name: self.seal(file) for file in files}

    def seal(self, path: Path) -> dict[str, Any]:
        """Size and checksums of one file."""
        with PlainFile(path) as file:
            record: dict[str, Any] = {"size": file.size, "sha256": sha256(file)}
            return {**record, "ends": sha256_of_ends(file)} if file.size > self.whole else record

    def write(self, folder: Path, entries: dict[str, Any], seals: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """Write and return the description of a folder that has not been moved to its final place yet."""
        manifest = {"format": self.format, "polyseme": VERSION, **entries, "files": seals}
        manifest["checksum"] = checksum(manifest)
        # Bytes of a file name that are not UTF-8 become escapes, from which JSON restores them.
        lines = json.dumps(manifest, ensure_ascii=False, indent=1) + "\n"
        (folder / self.marker).write_bytes(lines.encode("utf-8", "backslashreplace"))
        sync_file(folder / self.marker)
        return manifest

    def checked(self, data: bytes, folder: Path) -> dict[str, Any]:
        """Parse a description and check its format, entries and checksum, but not the files."""
        file = folder / self.marker
        manifest = parse(data, file)
        if manifest["format"] != self.format:
            advice = "upgrade polyseme" if manifest["format"] > self.format else f"make it again with {self.command}"
            both = f"format {manifest['format']}, but this polyseme {VERSION} reads {self.format}"
            raise FormatError(f"{folder} is {self.kind} of {both}: {advice}")
        for key, kind in {**self.entries, "files": dict}.items():
            if not isinstance(manifest.get(key), kind):
                raise FormatError(f"{file} was altered: its {key!r} is missing or of the wrong kind")
        check_seal(manifest, file)
        for name in self.needs(manifest):
            if name not in manifest["files"]:
                raise FormatError(f"{file} was altered or is incomplete: {name[:80]!r} is not among its files")
        return manifest


EXPORT = Manifest("an exported model", "polyseme.json", 1, "polyseme convert", {"form": str, "folders": dict})


@contextmanager
def new_export(path: str | Path, form: str, *, force: bool) -> Iterator[Path]:
    """A folder to write to that becomes ``path``; ``force`` replaces another polyseme result, never other files."""
    with EXPORT.new_folder(path, force=force) as folder:
        yield folder
        folders = {inner.name: EXPORT.seals(inner) for inner in folder.iterdir() if inner.is_dir()}
        EXPORT.write(folder, {"form": form, "folders": folders}, EXPORT.seals(folder))


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
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns  # an inode number may be reused, but not with the same time


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
