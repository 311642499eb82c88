"""The description of a folder of ours: what it holds, in which format, with size and checksum of every other file.

A corpus, a model and an index each keep one (corpus.json, model.json, index.json), written last. A folder that was cut,
altered or written in another format is refused in one line. The description has a checksum of its own. A file is hashed
at opening up to the size that its kind of folder sets; of a larger one only the ends are, and ``verify`` with
``everything`` hashes every byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyseme.disk.atomic import new_file
from polyseme.errors import FormatError
from polyseme.version import VERSION

MARKERS = ("corpus.json", "model.json", "index.json")
ENDS = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """The description of one kind of folder: its file, its format, and the entries that any reader relies on."""

    kind: str  # as people say it: "a corpus"
    marker: str  # the file: "corpus.json"
    format: int
    command: str  # what makes such a folder: "polyseme corpus"
    entries: Mapping[str, type]
    whole: int = 64 << 20  # files up to so many bytes are hashed whole at opening

    def seals(self, folder: Path, *, aside: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
        """Size and checksums of every file but the description and those ``aside``, to be compared by ``verify``."""
        files = sorted(file for file in folder.iterdir() if file.is_file() and file.name not in {self.marker, *aside})
        return {file.name: self.seal(file) for file in files}

    def seal(self, file: Path) -> dict[str, Any]:
        """Size and checksums of one file."""
        record: dict[str, Any] = {"size": file.stat().st_size, "sha256": sha256(file)}
        return {**record, "ends": _sha256_of_ends(file)} if record["size"] > self.whole else record

    def write(self, folder: Path, entries: dict[str, Any], seals: dict[str, dict[str, Any]]) -> None:
        """Describe the folder."""
        found = {"format": self.format, "polyseme": VERSION, **entries, "files": seals}
        found["checksum"] = checksum(found)
        with new_file(folder / self.marker) as part:
            # Bytes of a file's name that are no UTF-8 become escapes, from which JSON gives them back.
            lines = json.dumps(found, ensure_ascii=False, indent=1) + "\n"
            part.write_bytes(lines.encode("utf-8", "backslashreplace"))

    def read(self, folder: str | Path) -> dict[str, Any]:
        """The description, checked as far as it speaks of itself."""
        file = Path(folder) / self.marker
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            own = checksum(found) if isinstance(found, dict) else None
        except (FileNotFoundError, NotADirectoryError):
            hint = f"({self.command} makes one)"
            raise FormatError(f"{folder} is not {self.kind}: it has no {self.marker} {hint}") from None
        except OSError as error:
            raise FormatError(f"{file} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{file} cannot be read: {error}") from None
        if not isinstance(found, dict) or not isinstance(found.get("format"), int):
            raise FormatError(f"{file} is not the description of {self.kind}")
        if found["format"] != self.format:
            advice = "upgrade polyseme" if found["format"] > self.format else f"make it again with {self.command}"
            both = f"format {found['format']}, and this polyseme {VERSION} reads {self.format}"
            raise FormatError(f"{folder} is {self.kind} of {both}: {advice}")
        for key, kind in {**self.entries, "files": dict}.items():
            if not isinstance(found.get(key), kind):
                raise FormatError(f"{file} was altered: its {key!r} is missing or of the wrong kind")
        # What was written before descriptions had a checksum ends with the files.
        if list(found)[-1] != "files" and found.get("checksum") != own:
            raise FormatError(f"{file} was altered: it does not have the checksum that it keeps of itself")
        return found

    def verify(self, folder: str | Path, found: dict[str, Any], *, everything: bool = False) -> None:
        """Compare each file with its seal in the description."""
        for name, kept in found["files"].items():
            file = Path(folder) / Path(name).name
            if not file.is_file():
                raise FormatError(f"{folder} is incomplete: {file.name} is missing")
            size = file.stat().st_size
            if not isinstance(kept, dict) or not isinstance(kept.get("size"), int):
                raise FormatError(f"{file.with_name(self.marker)} was altered: no size is kept for {file.name}")
            if size != kept["size"]:
                raise FormatError(f"{file} was cut or altered: {size:,} bytes, and {self.marker} says {kept['size']:,}")
            whole = everything or "ends" not in kept
            if whole and "sha256" not in kept:
                raise FormatError(
                    f"{file} cannot be verified: {self.marker} keeps no checksum of all of it; {self.command} makes one"
                )
            if kept["sha256" if whole else "ends"] != (sha256(file) if whole else _sha256_of_ends(file)):
                raise FormatError(f"{file} was altered: it does not have the checksum that {self.marker} keeps")


def is_ours(folder: str | Path) -> bool:
    """Is this folder a corpus, model or index? A stranger's index.json does not speak of polyseme at its beginning."""
    for file in (Path(folder) / marker for marker in MARKERS):
        if file.is_file():
            with open(file, "rb") as handle:
                if b'"polyseme"' in handle.read(200):
                    return True
    return False


def checksum(description: Mapping[str, Any]) -> str:
    """Of a description's content, whatever the order and the spaces, its checksum left out."""
    content = json.loads(json.dumps({key: value for key, value in description.items() if key != "checksum"}))
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def sha256(file: Path) -> str:
    """Of every byte of a file."""
    digest = hashlib.sha256()
    with open(file, "rb") as handle:
        while block := handle.read(ENDS):
            digest.update(block)
    return digest.hexdigest()


def _sha256_of_ends(file: Path) -> str:
    with open(file, "rb") as handle:
        digest = hashlib.sha256(handle.read(ENDS))
        handle.seek(max(ENDS, file.stat().st_size - ENDS))
        digest.update(handle.read(ENDS))
    return digest.hexdigest()
