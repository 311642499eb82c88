"""Our kinds of folders (corpus, model, index), each with a description that lists its files with their checksums.

The description (corpus.json, model.json, index.json) is written last. A folder that is truncated, altered or in another
format is refused with a one-line error. On opening, a file is hashed completely up to a size that its kind of folder
sets, and a larger one only at its ends; ``verify`` with ``everything`` hashes every byte.

Folders in the formats of other libraries, with a list of their files by which we recognise them as ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyseme.disk import atomic
from polyseme.disk.description import check_seal, checksum, parse, sha256, sha256_of_ends
from polyseme.disk.exchange import sync_file
from polyseme.disk.files import PlainFile
from polyseme.disk.opened_folder import OpenFolder, opened
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
        found = {"format": self.format, "polyseme": VERSION, **entries, "files": seals}
        found["checksum"] = checksum(found)
        # Bytes of a file name that are not UTF-8 become escapes, from which JSON restores them.
        lines = json.dumps(found, ensure_ascii=False, indent=1) + "\n"
        (folder / self.marker).write_bytes(lines.encode("utf-8", "backslashreplace"))
        sync_file(folder / self.marker)
        return found

    def checked(self, data: bytes, folder: Path) -> dict[str, Any]:
        """Parse a description and check its format, entries and checksum, but not the files."""
        file = folder / self.marker
        found = parse(data, file)
        if found["format"] != self.format:
            advice = "upgrade polyseme" if found["format"] > self.format else f"make it again with {self.command}"
            both = f"format {found['format']}, but this polyseme {VERSION} reads {self.format}"
            raise FormatError(f"{folder} is {self.kind} of {both}: {advice}")
        for key, kind in {**self.entries, "files": dict}.items():
            if not isinstance(found.get(key), kind):
                raise FormatError(f"{file} was altered: its {key!r} is missing or of the wrong kind")
        check_seal(found, file)
        for name in self.needs(found):
            if name not in found["files"]:
                raise FormatError(f"{file} was altered or is incomplete: {name[:80]!r} is not among its files")
        return found


EXPORT = Manifest("an exported model", "polyseme.json", 1, "polyseme convert", {"form": str, "folders": dict})


@contextmanager
def new_export(path: str | Path, form: str, *, force: bool) -> Iterator[Path]:
    """A folder to write to that becomes ``path``; ``force`` replaces another polyseme result, never other files."""
    with EXPORT.new_folder(path, force=force) as folder:
        yield folder
        folders = {inner.name: EXPORT.seals(inner) for inner in folder.iterdir() if inner.is_dir()}
        EXPORT.write(folder, {"form": form, "folders": folders}, EXPORT.seals(folder))
