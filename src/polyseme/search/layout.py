"""An index on disk: a folder with index.json, arrays of one number or one code per occurrence, and small tables.

Occurrences are sorted by word, then by place in the corpus, so those of one word lie side by side:

| file | what |
|---|---|
| index.json | what was indexed, how, what was measured; size and checksum of the other files |
| tables.safetensors | ``words`` (V+1): where each word's occurrences begin; projections; centres of the cells |
| tokens.npy | (n,) place of each occurrence among the corpus's tokens |
| codes.<layer>.npy | (n, d) its code |
| cells.npy | (n,) occurrences sorted by cell, where the index has cells |
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.disk.manifest import Manifest
from polyseme.errors import FormatError

MARKER = "index.json"
INDEX = Manifest(
    "an index", MARKER, 1, "polyseme index", {"model": dict, "corpus": dict, "options": dict, "facts": dict}
)
TABLES = "tables.safetensors"
TOKENS = "tokens.npy"
CELLS = "cells.npy"


def codes_name(layer: int) -> str:
    """The file of a layer's codes."""
    return f"codes.{layer}.npy"


def read_manifest(path: Path) -> dict[str, Any]:
    """index.json, checked, and the files it speaks of compared with it."""
    manifest = INDEX.read(path)
    INDEX.verify(path, manifest)
    return manifest


def create(file: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A new array on disk, to be filled in any order."""
    return np.lib.format.open_memmap(file, mode="w+", dtype=dtype, shape=shape)


def reopen(file: Path, shape: tuple[int, ...], dtype: np.dtype[Any], *, writable: bool = False) -> NDArray[Any]:
    """An array on disk as a memory map, if it is of the shape and type expected."""
    try:
        array: NDArray[Any] = np.load(file, mmap_mode="r+" if writable else "r", allow_pickle=False)
    except FileNotFoundError:
        raise FormatError(f"{file.parent} is incomplete: {file.name} is missing") from None
    except (ValueError, OSError, EOFError, SyntaxError, TypeError):
        raise FormatError(f"{file} is cut short or is not an array") from None
    if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
        raise FormatError(f"{file} was altered: it holds {array.dtype} {array.shape}, not {dtype} {shape}")
    return array
