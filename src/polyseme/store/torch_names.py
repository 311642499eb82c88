"""Recognise published torch files by the names of their tensors, and find the word vectors next to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from polyseme.errors import FormatError
from polyseme.interfaces import WordVectorsInterface

TORCH_SUFFIXES = (".pth", ".pt", ".th", ".pkl", ".pickle")


def vectors_beside(file: Path, load: Callable[[str | Path], Any], usual: str) -> Any:
    """Load the word vectors from the only other file in the folder that has any; ``usual`` is its published name."""
    vectors = []
    for other in sorted(file.parent.iterdir()):
        if other == file or other.suffix in TORCH_SUFFIXES or other.name.startswith("."):
            continue
        try:
            model = load(other)
        except FormatError:
            continue
        if isinstance(model, WordVectorsInterface):
            vectors.append((other.name, model))
    if len(vectors) != 1:
        names = ", ".join(name for name, _ in vectors) or "none"
        raise FormatError(
            f"{file} needs word vectors, which it does not contain: put their file ({usual} for "
            f"the published weights) into the same folder, with no other; found there: {names}"
        )
    return vectors[0][1]


def has_keys(path: Path, *keys: bytes) -> bool:
    """Whether the beginning of a torch file, which contains its tensors' names, has all of these keys."""
    if not path.is_file() or path.suffix not in TORCH_SUFFIXES:
        return False
    try:
        with open(path, "rb") as file:
            head = file.read(1 << 16)
    except OSError:
        return False
    return all(key in head for key in keys)


def files_with_keys(folder: Path, *keys: bytes) -> list[Path]:
    """The torch files in a folder that have all of these keys."""
    return [file for file in sorted(folder.iterdir()) if has_keys(file, *keys)]
