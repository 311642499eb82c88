"""Polyglot's published files: a pickle of (words, matrix), read without running any code from it.

A pickle can name any function and have it called. Here none is called: the arguments with which a NumPy array is
pickled are recorded as plain values (shape, type, bytes) and turned into an array afterwards; every other name is
rejected.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np

from polyseme.arrays import FloatArray
from polyseme.disk.files import open_for_reading
from polyseme.errors import FormatError
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import VectorsOptions, WordVectors

_NUMBERS = ("f2", "f4", "f8")
_STRUCTURE = {"PROTO", "FRAME", "MARK", "EMPTY_TUPLE", "EMPTY_LIST", "BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"}
_STRINGS = {
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "BINSTRING", "SHORT_BINSTRING", "STRING"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
}
# Exceptions that a truncated or altered pickle makes the unpickler raise.
_DAMAGES = (
    *(pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError, AttributeError, OverflowError),
    *(MemoryError, RecursionError, UnicodeDecodeError, AssertionError),
)


def tells(path: Path, head: bytes) -> bool:
    """Whether the file begins like a pickled tuple or list whose first item is a tuple or list of strings."""
    try:
        for opcode, _, _ in pickletools.genops(head):
            if opcode.name not in _STRUCTURE:
                return opcode.name in _STRINGS
    except (ValueError, UnicodeDecodeError):
        pass
    return False


def open_polyglot(path: str | Path) -> WordVectors:
    """The word vectors in a Polyglot file. It has no word counts, so all counts are 0."""
    path = Path(path)
    with open_for_reading(path) as (file, _):
        data = file.read()
    try:
        content = _DataOnly(io.BytesIO(data), encoding="bytes").load()
        words, matrix = _words_and_matrix(content)
    except FormatError as error:
        raise FormatError(f"{path} is not a pickle of words and a matrix: {error}") from None
    except _DAMAGES as error:
        raise FormatError(f"{path} is truncated or damaged: {' '.join(str(error).split())[:100]}") from None
    first = {word: row for row, word in reversed(list(enumerate(words)))}
    rows = sorted(first.values())
    kept = matrix if len(rows) == len(words) else matrix[rows]
    vocabulary = Vocabulary([words[row] for row in rows], np.zeros(len(rows), dtype=np.int64))
    return WordVectors(vocabulary, kept, options=VectorsOptions(source=path.name))


class _Type:
    """Stand-in for ``numpy.dtype(name)``."""

    def __init__(self, name: Any, *_: Any) -> None:
        self.name = _text(name)
        self.order = "<"

    def __setstate__(self, state: Any) -> None:
        self.order = _text(state[1])


class _Array:
    """Stand-in for ``numpy.ndarray``: records the state in the pickle."""

    def __init__(self, *_: Any) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: Any) -> None:
        self.state = tuple(state)

    def numbers(self) -> FloatArray:
        """The array as float32; a shape that does not match the number of bytes is rejected before allocation."""
        _, shape, kind, by_column, data = self.state[:5]
        if not isinstance(kind, _Type) or kind.name not in _NUMBERS or kind.order not in ("<", ">", "=", "|"):
            raise FormatError("its matrix is not of floating-point numbers")
        if isinstance(data, str):
            data = data.encode("latin-1")
        sizes = [int(size) for size in shape]
        width = int(kind.name[1:])
        if not isinstance(data, bytes) or min(sizes, default=0) < 0 or math.prod(sizes) * width != len(data):
            raise FormatError(f"its matrix of shape {tuple(sizes)} does not fit the bytes behind it")
        values = np.frombuffer(data, dtype=f"{kind.order if kind.order != '|' else '<'}{kind.name}")
        return np.ascontiguousarray(values.reshape(sizes, order="F" if by_column else "C"), dtype=np.float32)


def _from_buffer(data: Any, kind: Any, shape: Any, order: Any) -> _Array:
    """Stand-in for ``numpy.core.numeric._frombuffer``, which creates arrays in pickle protocol 5."""
    array = _Array()
    array.__setstate__((1, shape, kind, order == "F", bytes(data) if isinstance(data, bytearray) else data))
    return array


def _latin1(text: Any, encoding: Any = "latin1") -> bytes:
    """Stand-in for ``codecs.encode``, with which Python 3 pickles bytes in protocols 0 to 2."""
    return _text(text).encode("latin-1")


def _text(value: Any) -> str:
    """The value as a string: a string, or an ASCII byte string from Python 2; anything else is an error."""
    if isinstance(value, bytes):
        return value.decode("ascii")
    if not isinstance(value, str):
        raise FormatError(f"it has {type(value).__name__} where a string should be")
    return value


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _Type,
    ("numpy", "ndarray"): None,
    ("_codecs", "encode"): _latin1,
    **{(f"numpy.{room}.multiarray", "_reconstruct"): _Array for room in ("core", "_core")},
    **{(f"numpy.{room}.numeric", "_frombuffer"): _from_buffer for room in ("core", "_core")},
}


class _DataOnly(pickle.Unpickler):
    """An unpickler that accepts only strings, numbers, tuples, lists and arrays."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise FormatError(f"it names {module}.{name}, which could run code")
        return _ADMITTED[module, name]


def _words_and_matrix(found: Any) -> tuple[list[str], FloatArray]:
    if not isinstance(found, (tuple, list)) or len(found) != 2 or not isinstance(found[0], (tuple, list)):
        raise FormatError("it holds something else")
    if not isinstance(found[1], _Array) or not found[1].state:
        raise FormatError("its second part is no array")
    words = [word.decode("utf-8", "surrogateescape") if isinstance(word, bytes) else word for word in found[0]]
    matrix = found[1].numbers()
    if not all(isinstance(word, str) for word in words):
        raise FormatError("a word in it is no string")
    if matrix.ndim != 2 or len(matrix) != len(words) or not matrix.size:
        raise FormatError(f"{len(words):,} words do not fit a matrix of shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise FormatError("its matrix holds NaN or infinity")
    return words, matrix
