"""A model on disk: a folder with model.json, weights.safetensors, tables of words, training.jsonl and a model card.

Its files are memory-mapped: opening costs nothing. How they are checked, see manifest.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.atomic import new_folder
from polyseme.errors import FormatError
from polyseme.manifest import Manifest
from polyseme.store import tensors as tensor_file
from polyseme.text.vocabulary import words_from_bytes, words_to_bytes

MARKER = "model.json"
MODEL = Manifest("a model folder", MARKER, 1, "polyseme train", {"method": str, "options": dict, "tables": list})


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
        (part / "README.md").write_text(card, encoding="utf-8")
        seals = MODEL.seals(part, aside=("README.md",))
        MODEL.write(part, {**manifest, "tables": sorted(parts.tables)}, seals)


def read_parts(path: str | Path, manifest: dict[str, Any]) -> Parts:
    """Arrays (memory-mapped) and tables of a model folder whose files are what model.json says they are."""
    path = Path(path)
    MODEL.verify(path, manifest)
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
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{file} cannot be read: {error}") from None


def as_float32(array: NDArray[Any]) -> NDArray[np.float32]:
    """The array itself where it is float32 already (a memory map stays one), a copy where it is not."""
    return array if array.dtype == np.float32 else array.astype(np.float32)
