"""A model on disk: a folder with model.json, weights.safetensors, tables of words, training.jsonl and a model card.

A composed model keeps the models it is made of in folders below it, each a model folder of its own. The files are
memory-mapped: opening costs nothing. How they are checked, see disk/manifest.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.disk.atomic import new_folder
from polyseme.disk.manifest import Manifest
from polyseme.errors import FormatError
from polyseme.store import tensors as tensor_file
from polyseme.text.vocabulary import words_from_bytes, words_to_bytes

MARKER = "model.json"
MODEL = Manifest("a model folder", MARKER, 1, "polyseme train", {"method": str, "options": dict, "tables": list})


@dataclass
class Parts:
    """What a model is made of: arrays, tables of words (``vocab`` → vocab.txt), files by name, and other models."""

    tensors: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    tables: Mapping[str, list[str]] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)  # as they are: tokenizer.json
    models: Mapping[str, Any] = field(default_factory=dict)  # name → Model, in a folder of that name


@dataclass(frozen=True)
class Contents:
    """All that a model folder holds."""

    manifest: dict[str, Any]
    parts: Parts
    models: Mapping[str, Contents]
    curve: list[dict[str, Any]]
    card: str


def write_folder(path: str | Path, contents: Contents) -> None:
    """Write a model folder, whole or not at all."""
    with new_folder(path, marker=MARKER) as part:
        _write(part, contents)


def _write(folder: Path, contents: Contents) -> None:
    parts = contents.parts
    tensor_file.write(folder / "weights.safetensors", parts.tensors)
    for name, words in parts.tables.items():
        (folder / f"{name}.txt").write_bytes(words_to_bytes(words))
    for name, content in parts.files.items():
        (folder / name).write_bytes(content)
    lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in contents.curve)
    (folder / "training.jsonl").write_text(lines, encoding="utf-8")
    (folder / "README.md").write_text(contents.card, encoding="utf-8")
    for name, model in contents.models.items():
        (folder / name).mkdir()
        _write(folder / name, model)
    listed = {"tables": sorted(parts.tables)}
    if parts.files:
        listed["parts"] = sorted(parts.files)
    if contents.models:
        listed["models"] = sorted(contents.models)
    MODEL.write(folder, {**contents.manifest, **listed}, MODEL.seals(folder, aside=("README.md",)))


def read_parts(path: str | Path, manifest: dict[str, Any]) -> Parts:
    """Arrays (memory-mapped), tables and files of a folder whose files are what model.json says they are."""
    path = Path(path)
    MODEL.verify(path, manifest)
    tables = {}
    for name in manifest["tables"]:
        file = _listed(path, manifest, f"{name}.txt")
        tables[str(name)] = words_from_bytes(file.read_bytes(), where=str(file))
    files = {str(name): _listed(path, manifest, name).read_bytes() for name in _names(path, manifest, "parts")}
    return Parts(tensor_file.read(path / "weights.safetensors"), tables, files)


def model_names(path: str | Path, manifest: dict[str, Any]) -> list[str]:
    """The folders below that hold the models this one is composed of."""
    return _names(Path(path), manifest, "models")


def _listed(path: Path, manifest: dict[str, Any], name: str) -> Path:
    if name not in manifest["files"]:
        raise FormatError(f"{path / MARKER} was altered: {name!r} is not among its files")
    return path / name


def _names(path: Path, manifest: dict[str, Any], key: str) -> list[str]:
    names = manifest.get(key, [])
    if not isinstance(names, list) or not all(
        isinstance(n, str) and n == Path(n).name and n not in ("", "..") for n in names
    ):
        raise FormatError(f"{path / MARKER} was altered: its {key!r} are no plain names")
    return names


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
