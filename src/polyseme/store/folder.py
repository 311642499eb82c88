"""A model on disk: a folder with model.json, weights.safetensors, tables of words, training.jsonl and a model card.

model.json records the size and SHA-256 of every other file, so a folder that was cut or altered is refused. Weights are
memory-mapped: opening costs nothing. Files up to ``WHOLE`` bytes are hashed at opening, of larger ones only the ends
are, and ``verify`` hashes everything.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.atomic import new_folder
from polyseme.errors import FormatError
from polyseme.store import tensors as tensor_file
from polyseme.text.vocabulary import words_from_bytes, words_to_bytes
from polyseme.version import VERSION

FORMAT = 1
MARKER = "model.json"
WHOLE = 64 << 20
ENDS = 1 << 20


@dataclass
class Parts:
    """What a model is made of on disk: arrays by name, and tables of words by name (``vocab`` → vocab.txt)."""

    tensors: Mapping[str, NDArray[Any]]
    tables: Mapping[str, list[str]] = field(default_factory=dict)


def write_folder(
    path: str | Path, manifest: dict[str, Any], parts: Parts, *, curve: list[dict[str, Any]], card: str
) -> None:
    """Write a model folder, whole or not at all."""
    with new_folder(path, marker=MARKER) as part:
        tensor_file.write(part / "weights.safetensors", parts.tensors)
        for name, words in parts.tables.items():
            (part / f"{name}.txt").write_bytes(words_to_bytes(words))
        lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in curve)
        (part / "training.jsonl").write_text(lines, encoding="utf-8")
        files = {file.name: seal(file) for file in sorted(part.iterdir())}
        whole = {"format": FORMAT, "polyseme": VERSION, **manifest, "tables": sorted(parts.tables), "files": files}
        (part / "README.md").write_text(card, encoding="utf-8")
        (part / MARKER).write_text(json.dumps(whole, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def read_manifest(path: str | Path) -> dict[str, Any]:
    """model.json, checked as far as it speaks of itself."""
    file = Path(path) / MARKER
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FormatError(f"{path} is not a model folder: it has no {MARKER}") from None
    except (ValueError, OSError, RecursionError) as error:
        raise FormatError(f"{file} cannot be read: {error}") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise FormatError(f"{file} is not a polyseme model description")
    if manifest["format"] > FORMAT:
        raise FormatError(
            f"{path} has model format {manifest['format']} and this polyseme {VERSION} reads up to {FORMAT}: "
            "upgrade polyseme"
        )
    kinds = {"method": str, "options": dict, "files": dict, "tables": list}
    for key, kind in kinds.items():
        if not isinstance(manifest.get(key), kind):
            raise FormatError(f"{file} was altered: its {key!r} is missing or of the wrong kind")
    return manifest


def read_parts(path: str | Path, manifest: dict[str, Any]) -> Parts:
    """Arrays (memory-mapped) and tables of a model folder whose files are what model.json says they are."""
    path = Path(path)
    verify(path, manifest, everything=False)
    tables = {}
    for name in manifest["tables"]:
        file = path / f"{name}.txt"
        if file.name not in manifest["files"]:
            raise FormatError(f"{path / MARKER} was altered: the table {name!r} is not among its files")
        tables[str(name)] = words_from_bytes(file.read_bytes(), where=str(file))
    return Parts(tensor_file.read(path / "weights.safetensors"), tables)


def read_curve(path: str | Path) -> list[dict[str, Any]]:
    """The records of training.jsonl."""
    file = Path(path) / "training.jsonl"
    try:
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise FormatError(f"{file} cannot be read: {error}") from None


def verify(path: Path, manifest: dict[str, Any], *, everything: bool = True, marker: str = MARKER) -> None:
    """Compare each file with its seal in ``marker``, the folder's description."""
    for name, kept in manifest["files"].items():
        file = path / Path(name).name
        if not file.is_file():
            raise FormatError(f"{path} is incomplete: {name} is missing")
        size = file.stat().st_size
        if not isinstance(kept, dict) or not isinstance(kept.get("size"), int):
            raise FormatError(f"{path / marker} was altered: no size is kept for {name}")
        if size != kept["size"]:
            raise FormatError(f"{file} was cut or altered: {size:,} bytes, and {marker} says {kept['size']:,}")
        key = "sha256" if everything or size <= WHOLE else "ends"
        if _digest(file, ends_only=key == "ends") != kept.get(key):
            raise FormatError(f"{file} was altered: it does not have the checksum that {marker} keeps")


def seal(file: Path) -> dict[str, Any]:
    """Size and checksums of a file, to be compared by ``verify``."""
    record: dict[str, Any] = {"size": file.stat().st_size, "sha256": _digest(file, ends_only=False)}
    if file.stat().st_size > WHOLE:
        record["ends"] = _digest(file, ends_only=True)
    return record


def _digest(file: Path, *, ends_only: bool) -> str:
    digest = hashlib.sha256()
    with open(file, "rb") as handle:
        if ends_only:
            digest.update(handle.read(ENDS))
            handle.seek(-ENDS, 2)
            digest.update(handle.read(ENDS))
        else:
            while block := handle.read(ENDS):
                digest.update(block)
    return digest.hexdigest()


def as_float32(array: NDArray[Any]) -> NDArray[np.float32]:
    """The array itself where it is float32 already (a memory map stays one), a copy where it is not."""
    return array if array.dtype == np.float32 else array.astype(np.float32)
