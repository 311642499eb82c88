"""The description of a folder of ours: what it holds, in which format, with size and checksum of every other file.

A corpus, a model and an index each keep one (corpus.json, model.json, index.json), written last. A folder that was cut,
altered or written in another format is refused in one line. Files up to ``WHOLE`` bytes are hashed at opening where
their SHA-256 was kept; of larger ones only the ends are, and ``verify`` with ``everything`` hashes every byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyseme.atomic import new_file
from polyseme.errors import FormatError
from polyseme.version import VERSION

MARKERS = ("corpus.json", "model.json", "index.json")
WHOLE = 64 << 20
ENDS = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """The description of one kind of folder: its file, its format, and the entries that any reader relies on."""

    kind: str  # as people say it: "a corpus"
    marker: str  # the file: "corpus.json"
    format: int
    command: str  # what makes such a folder: "polyseme corpus"
    entries: Mapping[str, type]

    def write(
        self, folder: Path, entries: dict[str, Any], *, hashed: str = "whole", aside: tuple[str, ...] = ()
    ) -> None:
        """Describe the folder as it is, except the files ``aside``; ``hashed`` is whole, or ends where time counts."""
        names = sorted(
            file.name for file in folder.iterdir() if file.is_file() and file.name not in {self.marker, *aside}
        )
        files = {name: seal(folder / name, hashed=hashed) for name in names}
        whole = {"format": self.format, "polyseme": VERSION, **entries, "files": files}
        with new_file(folder / self.marker) as part:
            # Bytes of a file's name that are no UTF-8 become escapes, from which JSON gives them back.
            lines = json.dumps(whole, ensure_ascii=False, indent=1) + "\n"
            part.write_bytes(lines.encode("utf-8", "backslashreplace"))

    def read(self, folder: str | Path) -> dict[str, Any]:
        """The description, checked as far as it speaks of itself."""
        file = Path(folder) / self.marker
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
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
            whole = "sha256" in kept and (everything or size <= WHOLE)
            if kept.get("sha256" if whole else "ends") != (sha256(file) if whole else _sha256_of_ends(file)):
                raise FormatError(f"{file} was altered: it does not have the checksum that {self.marker} keeps")


def is_ours(folder: str | Path) -> bool:
    """Is this folder a corpus, model or index? A stranger's index.json does not speak of polyseme at its beginning."""
    for file in (Path(folder) / marker for marker in MARKERS):
        if file.is_file():
            with open(file, "rb") as handle:
                if b'"polyseme"' in handle.read(200):
                    return True
    return False


def seal(file: Path, *, hashed: str = "whole") -> dict[str, Any]:
    """Size and checksums of a file, to be compared by ``verify``."""
    record: dict[str, Any] = {"size": file.stat().st_size}
    if hashed == "whole":
        record["sha256"] = sha256(file)
    if hashed == "ends" or record["size"] > WHOLE:
        record["ends"] = _sha256_of_ends(file)
    return record


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
