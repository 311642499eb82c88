"""An index on disk: a folder with index.json, arrays of one number or one code per occurrence, and small tables.

Occurrences are sorted by word, then by place in the corpus, so those of one word are contiguous:

| file | what |
|---|---|
| index.json | what was indexed, how, what was measured; size and checksum of the other files |
| tables.safetensors | ``words`` (V+1): where each word's occurrences begin; projections; centres of the cells |
| tokens.npy | (n,) place of each occurrence among the corpus's tokens |
| codes.<layer>.npy | (n, d) its code |
| cells.npy | (n,) occurrences sorted by cell, where the index has cells |
"""

from __future__ import annotations

import math
import mmap
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.disk.disk_space import take_room
from polyseme.disk.files import PlainFile
from polyseme.disk.folders import Manifest
from polyseme.errors import FormatError

MARKER = "index.json"
TABLES = "tables.safetensors"
TOKENS = "tokens.npy"
CELLS = "cells.npy"


def codes_name(layer: int) -> str:
    """The file of a layer's codes."""
    return f"codes.{layer}.npy"


def _needs(found: dict[str, Any]) -> list[str]:
    facts = found["facts"]
    layers = facts.get("layers") if isinstance(facts.get("layers"), list) else []
    cells = [CELLS] if facts.get("search") == "cells" else []
    return [TABLES, TOKENS, *(codes_name(layer) for layer in layers), *cells]


INDEX = Manifest(
    "an index", MARKER, 1, "polyseme index", {"model": dict, "corpus": dict, "options": dict, "facts": dict}, _needs
)

# An array file of NumPy, as its version 1.0 is written. Its own reader takes the header for Python and parses it.
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '([<|=]\w{1,8})', 'fortran_order': False, 'shape': \((\d{1,18}),(?: (\d{1,18}))?\), \} *\n"
)
_LONGEST_HEADER = 1 << 10


def create(file: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A new array on disk, to be filled in any order; room for all of it is taken at once."""
    with open(file, "w+b") as target:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(target, header)
        target.flush()
        begin = target.tell()
        take_room(target.fileno(), begin + math.prod(shape) * dtype.itemsize)
        return np.memmap(target, dtype=dtype, mode="r+", offset=begin, shape=shape)


def array(file: PlainFile, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array on disk as a memory map, if it is of the shape and type expected."""
    begin = _begin(file, shape, dtype)
    return file.mapped(dtype, begin).reshape(shape)


def release(array: NDArray[Any]) -> None:
    """Let go of the memory that holds an array of the disk: what was written stays, and is read again where needed."""
    mapped = getattr(array, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)  # of a shared map it takes away nothing but the room


def reopen(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The same of an array that is to be filled further."""
    try:
        with PlainFile(path) as file, open(path, "r+b") as target:
            begin = _begin(file, shape, dtype)
            take_room(target.fileno(), file.size)
            return np.memmap(target, dtype=dtype, mode="r+", offset=begin, shape=shape)
    except FileNotFoundError:
        raise FormatError(f"{path.parent} is incomplete: {path.name} is missing") from None


def _begin(file: PlainFile, shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Where the numbers begin."""
    start = file.piece(0, len(_MAGIC) + 2)
    length = int.from_bytes(start[len(_MAGIC) :], "little")
    header = file.piece(len(start), length) if length <= _LONGEST_HEADER else b""
    found = _HEADER.fullmatch(header) if start.startswith(_MAGIC) else None
    if found is None:
        raise FormatError(f"{file.path} is truncated or is not an array")
    its_type, its_shape = found[1].decode(), tuple(int(n) for n in found.groups()[1:] if n)
    if its_shape != shape or its_type != np.lib.format.dtype_to_descr(dtype):
        raise FormatError(f"{file.path} was altered: it holds {its_type} {its_shape}, not {dtype} {shape}")
    begin = len(start) + length
    if file.size - begin != math.prod(shape) * dtype.itemsize:
        raise FormatError(f"{file.path} is truncated or has extra bytes at its end")
    return begin
