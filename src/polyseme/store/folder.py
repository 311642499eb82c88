"""A model on disk: a folder with model.json, weights.safetensors, tables of words, training.jsonl and a model card.

A composed model stores its inner models in subfolders, each of which is a model folder too. Arrays are memory-mapped,
so opening is fast. For how the files are checked, see disk/folders.py.

A fingerprint of a model's files, which shows whether the model has changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray
from polyseme.disk.description import sha256
from polyseme.disk.files import LONGEST_JSON, PlainFile, parse_json
from polyseme.disk.folders import Manifest, OpenFolder
from polyseme.disk.ownership import CARD
from polyseme.errors import FormatError, altered_model
from polyseme.options import options_to_json
from polyseme.store import safetensors_file as tensor_file
from polyseme.text.vocabulary import words_from_bytes, words_to_bytes

M = TypeVar("M")

MARKER = "model.json"
WEIGHTS, CURVE = "weights.safetensors", "training.jsonl"


def _needs(found: dict[str, Any]) -> list[str]:
    parts = found.get("parts", [])
    if not isinstance(parts, list) or not all(isinstance(name, str) for name in (*parts, *found["tables"])):
        raise FormatError(f"{MARKER} was altered: its 'tables' and 'parts' are not lists of names")
    return [WEIGHTS, CURVE, *(f"{name}.txt" for name in found["tables"]), *parts]


MODEL = Manifest(
    "a model folder", MARKER, 1, "polyseme train", {"method": str, "options": dict, "tables": list}, _needs
)


@dataclass
class Parts:
    """What a model consists of: arrays, tables of words (``vocab`` → vocab.txt), files by name, and other models."""

    tensors: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    tables: Mapping[str, list[str]] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)  # stored unchanged, such as tokenizer.json
    models: Mapping[str, Any] = field(default_factory=dict)  # name → Model, in a subfolder of that name

    def tensor(
        self, name: str, shape: tuple[int | None, ...] | None = None, kind: type[np.generic] = np.generic
    ) -> NDArray[Any]:
        """The array ``name``, of this kind of numbers and, if given, of this shape; None in it matches any size."""
        array = self.tensors.get(name)
        if array is None:
            raise altered_model(f"its array {name!r} is missing")
        if shape is not None and not _fits(array.shape, shape):
            raise altered_model(f"its array {name!r} is of the wrong shape, {array.shape} instead of {shape}")
        if not np.issubdtype(array.dtype, kind):
            raise altered_model(f"its array {name!r} holds {array.dtype} instead of {kind.__name__}")
        return array

    def table(self, name: str) -> list[str]:
        """The table ``name``."""
        if name not in self.tables:
            raise altered_model(f"its table {name}.txt is missing")
        return self.tables[name]

    def file(self, name: str) -> bytes:
        """The content of the file ``name``."""
        if name not in self.files:
            raise altered_model(f"it has no {name}")
        return self.files[name]

    def model(self, name: str, kind: type[M]) -> M:
        """The inner model ``name``, of this class."""
        model = self.models.get(name)
        if not isinstance(model, kind):
            raise altered_model(f"it has no {kind.__name__} in {name}/")
        return model


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(want in (None, size) for size, want in zip(shape, wanted, strict=True))


@dataclass(frozen=True)
class Contents:
    """Everything that a model folder contains."""

    manifest: dict[str, Any]
    parts: Parts
    models: Mapping[str, Contents]
    curve: list[dict[str, Any]]
    card: str


def write_folder(path: str | Path, contents: Contents, *, force: bool = False) -> None:
    """Write a model folder atomically; ``force`` replaces another model, corpus or index."""
    with MODEL.new_folder(path, force=force) as part:
        _write(part, contents)


def _write(folder: Path, contents: Contents) -> dict[str, Any]:
    parts = contents.parts
    tensor_file.write(folder / WEIGHTS, parts.tensors)
    for name, words in parts.tables.items():
        (folder / f"{name}.txt").write_bytes(words_to_bytes(words))
    for name, content in parts.files.items():
        (folder / name).write_bytes(content)
    lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in contents.curve)
    (folder / CURVE).write_text(lines, encoding="utf-8")
    card = contents.card.encode("utf-8", "replace")
    (folder / CARD).write_bytes(card)
    listed: dict[str, Any] = {"tables": sorted(parts.tables), "card": hashlib.sha256(card).hexdigest()}
    if parts.files:
        listed["parts"] = sorted(parts.files)
    if contents.models:
        listed["models"] = {name: _write_inner(folder / name, model) for name, model in contents.models.items()}
    return MODEL.write(folder, {**contents.manifest, **listed}, MODEL.seals(folder, aside=(CARD,)))


def _write_inner(folder: Path, contents: Contents) -> str:
    folder.mkdir()
    return str(_write(folder, contents)["checksum"])


def read_parts(folder: OpenFolder) -> Parts:
    """Read the arrays (memory-mapped), tables and files of a folder that has been verified."""
    manifest = folder.found
    tables = {}
    for name in manifest["tables"]:
        file = folder.file(f"{name}.txt")
        tables[name] = words_from_bytes(file.read(), where=str(file.path))
    files = {name: folder.file(name).read() for name in manifest.get("parts", [])}
    return Parts(tensor_file.read(folder.file(WEIGHTS)), tables, files)


def read_curve(folder: OpenFolder) -> list[dict[str, Any]]:
    """The records of training.jsonl."""
    file = folder.file(CURVE)
    try:
        return [parse_json(line) for line in file.read(LONGEST_JSON).splitlines()]
    except ValueError as error:
        raise FormatError(f"{file.path} cannot be read: {error}") from None


def as_float32(array: NDArray[Any]) -> FloatArray:
    """The array itself if it is already float32 (a memory map stays one), otherwise a converted copy."""
    return array if array.dtype == np.float32 else array.astype(np.float32)


_ASIDE = {"README.md"}  # may change without the vectors changing


def model_fingerprint(path: str | Path) -> str:
    """A hash of all of a model's files; for our own folders, of each model.json, which contains their SHA-256."""
    path = Path(path)
    if (path / MARKER).is_file():
        with MODEL.open(path) as folder:
            return folder_fingerprint(folder)
    digest = hashlib.sha256()
    for file in files_of(path):
        name = str(file.relative_to(path)) if path.is_dir() else "file"
        with PlainFile(file) as opened:
            digest.update(f"{name}\0{sha256(opened)}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def content_fingerprint(model: Any) -> str:
    """A hash of what a model consists of, wherever it comes from: equal for equal models."""
    digest, parts = hashlib.sha256(), model.parts()
    segmentation = model.about.segmentation
    known = {
        "method": model.method,
        "options": options_to_json(model.options),
        "segmentation": segmentation.to_json() if segmentation else None,
        "precision": getattr(model, "precision", None),
    }
    digest.update(json.dumps(known, sort_keys=True).encode())
    for name, array in sorted(parts.tensors.items()):
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    contents = {**{name: words_to_bytes(words) for name, words in parts.tables.items()}, **parts.files}
    contents |= {name: content_fingerprint(inner).encode() for name, inner in parts.models.items()}
    for name, content in sorted(contents.items()):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def folder_fingerprint(folder: OpenFolder) -> str:
    """The fingerprint of an open model folder of ours."""
    digest = hashlib.sha256()
    for name, description in sorted(_descriptions(folder, PurePath())):
        digest.update(f"{name}\0{hashlib.sha256(description).hexdigest()}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _descriptions(folder: OpenFolder, place: PurePath) -> Iterator[tuple[PurePath, bytes]]:
    yield place / MARKER, folder.description
    for name, inner in folder.inner.items():
        yield from _descriptions(inner, place / name)


def files_of(path: Path) -> list[Path]:
    """The files of a published model that its vectors depend on."""
    files = sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path]
    return [file for file in files if file.name not in _ASIDE and not file.name.startswith(".")]
