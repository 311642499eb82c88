"""Arrays in a safetensors file, opened as memory maps. The format is a length, a JSON header and the bytes."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save_file

from polyseme.errors import FormatError

_DTYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
    "I8": np.int8, "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip
_LONGEST_HEADER = 100 << 20


def write(path: str | Path, tensors: Mapping[str, NDArray[Any]], metadata: dict[str, str] | None = None) -> None:
    """Write the arrays to a safetensors file."""
    path = Path(path)
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file({name: np.asarray(array, order="C") for name, array in tensors.items()}, path, metadata=metadata)
    except SafetensorError as error:
        reason = re.search(r"\(os error (\d+)\)", str(error))  # a full disk comes as text
        if reason is None:
            raise
        raise OSError(int(reason[1]), os.strerror(int(reason[1]))) from None
    path.chmod(stat.S_IMODE(mode))  # save_file puts a private file there; who may read a model is for the umask to say


def read(path: str | Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file, memory-mapped and read-only."""
    return _open(Path(path))[0]


def read_with_metadata(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays and the free text that stands beside them."""
    return _open(Path(path))


def _open(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _LONGEST_HEADER):
                raise FormatError(f"{path} is cut short or is not a safetensors file")
            header = json.loads(file.read(length))
            if not isinstance(header, dict):
                raise ValueError("not a table")
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise FormatError(f"{path} is not a safetensors file: its header is not JSON") from None
    metadata = header.pop("__metadata__", {})
    start = 8 + length
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=start) if size > start else np.empty(0, np.uint8)
    return {name: _view(path, name, entry, data) for name, entry in header.items()}, metadata


def _view(path: Path, name: str, entry: Any, data: NDArray[np.uint8]) -> NDArray[Any]:
    try:
        dtype, shape, (begin, end) = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"]), entry["data_offsets"]
        fits = all(isinstance(n, int) and n >= 0 for n in (*shape, begin, end))
        fits = fits and end - begin == math.prod(shape) * dtype.itemsize and end <= len(data)
        if fits:
            return np.asarray(data[begin:end]).view(dtype).reshape(shape)
    except (KeyError, TypeError, ValueError):
        pass
    raise FormatError(f"{path} is cut short or altered: {name!r} does not lie inside the file")
