"""An index on disk: a folder with index.json, arrays of one number or one code per occurrence, and small tables.

Occurrences are sorted by word, then by place in the corpus, so those of one word are contiguous:

| file | what |
|---|---|
| index.json | what was indexed, how, what was measured; size and checksum of the other files |
| tables.safetensors | ``words`` (V+1): where each word's occurrences begin; projections; centres of the cells |
| tokens.npy | (n,) place of each occurrence among the corpus's tokens |
| codes.<layer>.npy | (n, d) its code |
| cells.npy | (n,) occurrences sorted by cell, where the index has cells |

The model and the corpus that an index was made of: where they are, and whether they are still the same.
"""

from __future__ import annotations

import math
import mmap
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.disk.disk_space import take_room
from polyseme.disk.files import PlainFile
from polyseme.disk.folders import Manifest
from polyseme.errors import FormatError
from polyseme.interfaces import ContextEncoder
from polyseme.store.folder import MARKER, files_of, model_fingerprint
from polyseme.text.corpus import Corpus

INDEX_MANIFEST = "index.json"
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
    "an index",
    INDEX_MANIFEST,
    1,
    "polyseme index",
    {"model": dict, "corpus": dict, "options": dict, "facts": dict},
    _needs,
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


_TRIES = 10


def place(path: str | Path, index: str | Path) -> dict[str, str]:
    """The way to a source from the index; from the root too, where it does not be next to the index."""
    absolute = os.path.abspath(path)
    relative = os.path.relpath(absolute, os.path.abspath(index))
    beside = Path(relative).parts[:2] != ("..", "..")
    return {"relative": relative} if beside else {"path": absolute, "relative": relative}


def find(record: dict[str, Any], index: Path, what: str) -> Path:
    """Where a source is now; a FormatError with the option that corrects it where it is not found."""
    relative = record.get("relative")
    absolute = record.get("path", relative)
    if not isinstance(relative, str) or not isinstance(absolute, str):
        raise FormatError(f"{index} does not say where its {what} is: give it with --{what}")
    for path in (index / relative, index / absolute):
        if os.path.exists(path):
            return path.resolve()  # of a link to an index, .. is next to where the link leads
    raise FormatError(f"the {what} of {index} is no longer at {absolute}: give it with --{what}")


def open_corpus(record: dict[str, Any], index: Path, given: Corpus | str | Path | None) -> Corpus:
    """The index's corpus, the same as when it was indexed."""
    corpus = given if isinstance(given, Corpus) else Corpus.open(given or find(record, index, "corpus"))
    if corpus.fingerprint != record.get("fingerprint"):
        raise FormatError(
            f"{corpus.path} is not the corpus that {index} was built from, or was rebuilt: index it again"
        )
    return corpus


def encoder_path(record: dict[str, Any], index: Path, given: str | Path | None) -> Path:
    """Where the index's model is, the same as when it encoded the corpus."""
    path = Path(given) if given else find(record, index, "model")
    if not path.exists():
        raise FormatError(f"{path} does not exist")
    if model_fingerprint(path) != record.get("fingerprint"):
        raise _other_model(path, index)
    return path


def open_encoder(record: dict[str, Any], index: Path, given: str | Path | None) -> ContextEncoder:
    """The index's model, the same as when it encoded the corpus."""
    path = Path(given) if given else find(record, index, "model")
    if (path / MARKER).is_file():
        encoder_path(record, index, given)  # quickly told
    encoder, fingerprint = load_encoder(path)
    if fingerprint != record.get("fingerprint"):
        raise _other_model(path, index)
    return encoder


def check_encoder(encoder: ContextEncoder, record: dict[str, Any], index: Path) -> None:
    """Refuse a model that was loaded when its folder held another one than the index was made with."""
    fingerprint = _known_fingerprint(encoder)
    if fingerprint and fingerprint != record.get("fingerprint"):
        raise _other_model("the loaded model", index)


def _other_model(what: str | Path, index: Path) -> FormatError:
    return FormatError(f"{what} is not the model that {index} was built with, or was retrained: index again")


def load_encoder(path: str | Path) -> tuple[ContextEncoder, str]:
    """A model that gives a vector to every occurrence, and the fingerprint of the files it was read from."""
    from polyseme.api import load  # and with it all kinds of models, which a question does not always need

    for _ in range(_TRIES):
        before = _signature(Path(path))
        model = load(path)
        if not isinstance(model, ContextEncoder):
            raise FormatError(
                f"{path} gives a word the same vector everywhere: an index needs a contextual model such as elmo"
            )
        fingerprint = _known_fingerprint(model) or model_fingerprint(path)
        if _known_fingerprint(model) or _signature(Path(path)) == before:
            return model, fingerprint
    raise FormatError(f"{path} keeps being replaced: try again later")


def _known_fingerprint(model: Any) -> str:
    return str(getattr(getattr(model, "about", None), "fingerprint", ""))


def _signature(path: Path) -> list[tuple[int, ...]]:
    """Whether published files were replaced while they were read."""
    found = [os.stat(file) for file in files_of(path) if file.exists()]
    return [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns) for s in found]
