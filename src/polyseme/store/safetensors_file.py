"""Safetensors files, read as memory maps. The format is the header's length, a JSON header and the arrays' bytes."""

from __future__ import annotations

import hashlib
import math
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save_file

from polyseme.disk.files import PlainFile, parse_json
from polyseme.errors import FormatError

_DTYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
    "I8": np.int8, "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip
_LONGEST_HEADER = 100 << 20
_MOST_DIMENSIONS = 32
_BLANK = "0" * 64


def write(path: str | Path, tensors: Mapping[str, NDArray[Any]], metadata: dict[str, str] | None = None) -> None:
    """Write the arrays to a safetensors file."""
    path = Path(path)
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file({name: np.asarray(array, order="C") for name, array in tensors.items()}, path, metadata=metadata)
    except SafetensorError as error:
        reason = re.search(r"\(os error (\d+)\)", str(error))  # a full disk is reported only in the message
        if reason is None:
            raise
        raise OSError(int(reason[1]), os.strerror(int(reason[1]))) from None
    path.chmod(stat.S_IMODE(mode))  # save_file makes the file private; restore what the umask allows


def write_sealed(path: str | Path, tensors: Mapping[str, NDArray[Any]], metadata: dict[str, str]) -> None:
    """Like ``write``, with a checksum in the header. It is computed from the file, as arrays may change meanwhile."""
    write(path, tensors, {**metadata, "sha256": _BLANK})
    with PlainFile(path) as file:
        place, digest = _seal(file)
    with open(path, "r+b") as target:
        target.seek(place)
        target.write(digest.encode())


def read(file: str | Path | PlainFile) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file, memory-mapped and read-only."""
    return read_with_metadata(file)[0]


def read_with_metadata(file: str | Path | PlainFile) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays, and the metadata strings of the header."""
    if isinstance(file, PlainFile):
        return _arrays(file)
    try:
        with PlainFile(file) as opened:
            return _arrays(opened)
    except OSError as error:
        raise FormatError(f"{file} cannot be read: {error.strerror}") from None


def read_sealed(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Read what ``write_sealed`` wrote; raises FormatError if any bit has changed."""
    with PlainFile(path) as file:
        arrays, metadata = _arrays(file)
        place, digest = _seal(file)
        if file.piece(place, len(digest)) != digest.encode():
            raise FormatError(f"{path} was damaged or altered since it was written")
    return arrays, metadata


def _seal(file: PlainFile) -> tuple[int, str]:
    """The position of the checksum in a file, and its expected value: SHA-256 with zeros in place of the checksum."""
    header = file.piece(0, 8 + int.from_bytes(file.piece(0, 8), "little"))
    match = re.search(rb'"sha256": ?"([0-9a-f]{64})"', header)
    if match is None:
        raise FormatError(f"{file.path} has no checksum of itself")
    digest = hashlib.sha256(header[: match.start(1)] + _BLANK.encode() + header[match.end(1) :])
    for block in file.chunks(begin=len(header)):
        digest.update(block)
    return match.start(1), digest.hexdigest()


def _arrays(file: PlainFile) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    length = int.from_bytes(file.piece(0, 8), "little")
    if file.size < 8 or length > min(file.size - 8, _LONGEST_HEADER):
        raise FormatError(f"{file.path} is truncated or is not a safetensors file")
    try:
        header = parse_json(file.piece(8, length))
        if not isinstance(header, dict):
            raise ValueError("not a table")
    except ValueError:
        raise FormatError(f"{file.path} is not a safetensors file: its header is not JSON") from None
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise FormatError(f"{file.path} was altered: its metadata is not text")
    data = file.mapped(np.uint8, 8 + length)
    entries = [_Entry.of(file.path, name, entry) for name, entry in header.items()]
    _check_places(file.path, entries, len(data))
    return {entry.name: entry.view(data) for entry in entries}, metadata


@dataclass(frozen=True)
class _Entry:
    """The header entry of one array."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int

    @classmethod
    def of(cls, path: Path, name: str, entry: Any) -> _Entry:
        try:
            dtype, shape, (begin, end) = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"]), entry["data_offsets"]
            fits = all(type(n) is int and n >= 0 for n in (*shape, begin, end)) and len(shape) <= _MOST_DIMENSIONS
            if fits and end - begin == math.prod(shape) * dtype.itemsize:
                return cls(name, dtype, shape, begin, end)
        except (KeyError, TypeError, ValueError):
            pass
        raise FormatError(f"{path} is truncated or altered: {name[:80]!r} does not match its shape")

    def view(self, data: NDArray[np.uint8]) -> NDArray[Any]:
        array: NDArray[Any] = np.asarray(data[self.begin : self.end]).view(self.dtype).reshape(self.shape)
        return array


def _check_places(path: Path, entries: list[_Entry], size: int) -> None:
    """Check that the arrays follow each other without gaps, from the first byte to the last."""
    place = 0
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != place:
            how = "overlaps another array" if entry.begin < place else "does not follow the array before it"
            raise FormatError(f"{path} is truncated or altered: {entry.name[:80]!r} {how}")
        place = entry.end
        if place > size:
            raise FormatError(f"{path} is truncated or altered: {entry.name[:80]!r} lies outside the file")
    if place != size:
        raise FormatError(f"{path} was altered: it has extra bytes after its arrays")
