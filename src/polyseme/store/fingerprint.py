"""A fingerprint of a model's files, which shows whether the model has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from polyseme.disk.description import sha256
from polyseme.disk.files import PlainFile
from polyseme.disk.opened_folder import Opened
from polyseme.options import options_to_json
from polyseme.store.folder import MARKER, MODEL
from polyseme.text.vocabulary import words_to_bytes

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


def folder_fingerprint(folder: Opened) -> str:
    """The fingerprint of an open model folder of ours."""
    digest = hashlib.sha256()
    for name, description in sorted(_descriptions(folder, PurePath())):
        digest.update(f"{name}\0{hashlib.sha256(description).hexdigest()}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _descriptions(folder: Opened, place: PurePath) -> Iterator[tuple[PurePath, bytes]]:
    yield place / MARKER, folder.description
    for name, inner in folder.inner.items():
        yield from _descriptions(inner, place / name)


def files_of(path: Path) -> list[Path]:
    """The files of a published model that its vectors depend on."""
    found = sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path]
    return [file for file in found if file.name not in _ASIDE and not file.name.startswith(".")]
