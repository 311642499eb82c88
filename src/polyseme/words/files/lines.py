"""Parse lines of ``word number number …`` into words and a float32 matrix.

A line is read from its end: the last D fields are the numbers, and everything before them is the word, which may
contain spaces. Numbers are bit for bit what ``numpy.float32(float(text))`` gives: a compiled parser reads most of them
and leaves the few whose rounding is uncertain, and everything that is not a number, to Python.
"""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import FormatError
from polyseme.interfaces import FloatArray
from polyseme.text.encoding import decoder, detect

log = logging.getLogger(__name__)

TOLD_BY = 20_000  # words from which the encoding is detected
COMPILED_FROM = 1 << 20  # bytes; below this size, Python is faster than loading the compiled parser


def decoded(word: bytes) -> str:
    """The word as text; bytes that are not UTF-8 become surrogates, so that they are written back unchanged."""
    return word.decode("utf-8", "surrogateescape")


def in_own_encoding(words: list[str], where: str) -> list[str]:
    """The words decoded as GB18030 or Big5 if most of the non-ASCII ones are not valid UTF-8.

    If only a few are invalid, these are truncated or damaged, and all words stay as they are.
    """
    wide = [word for word in words[:TOLD_BY] if not word.isascii()]
    odd = [word for word in wide if any("\udc80" <= character <= "\udcff" for character in word)]
    if 2 * len(odd) <= len(wide):
        return words
    encoding = detect("\n".join(odd).encode("utf-8", "surrogateescape"), whole=True)
    if encoding not in ("gb18030", "big5"):
        return words
    log.warning("%s: its words are in %s", where, encoding)
    return [_again(word, encoding) for word in words]


def _again(word: str, encoding: str) -> str:
    try:
        return decoder(encoding).decode(word.encode("utf-8", "surrogateescape"), final=True)
    except UnicodeDecodeError:
        return word


def trailing_numbers(line: bytes) -> int:
    """How many fields at the end of the line are numbers, not counting the first field."""
    fields = line.split()
    n = 0
    for field in reversed(fields[1:]):
        if not is_number(field):
            break
        n += 1
    return n


def read_lines(block: bytes, dim: int, first_line: int, where: str) -> tuple[list[str], FloatArray]:
    """Words and vectors of a block of whole lines; ``first_line`` is its first line number, for error messages."""
    if len(block) < COMPILED_FROM:
        lines = block.split(b"\n")[: block.count(b"\n") + (not block.endswith(b"\n"))]
        pairs = [_read_line(line, dim, f"{where} line {first_line + i}") for i, line in enumerate(lines)]
        rows = np.array([row for _, row in pairs], dtype=np.float64).reshape(len(pairs), dim)
        with np.errstate(over="ignore"):
            return [word for word, _ in pairs], rows.astype(np.float32)
    return _read_compiled(block, dim, first_line, where)


def _read_compiled(block: bytes, dim: int, first_line: int, where: str) -> tuple[list[str], FloatArray]:
    from polyseme.words.kernels.lines import parse_lines

    data = np.frombuffer(block, dtype=np.uint8)
    n_lines = block.count(b"\n") + (not block.endswith(b"\n"))
    rows = np.empty((n_lines, dim), dtype=np.float32)
    bounds = np.empty((n_lines, 3), dtype=np.int64)  # where the line starts, its word ends, the line ends
    bad = parse_lines(data, rows, bounds)
    if bad >= 0:
        _read_line(block[bounds[bad, 0] : bounds[bad, 2]], dim, f"{where} line {first_line + bad}")
    for i in np.flatnonzero(np.isnan(rows).any(axis=1)):
        line = block[bounds[i, 0] : bounds[i, 2]]
        with np.errstate(over="ignore"):
            rows[i] = np.array(_read_line(line, dim, f"{where} line {first_line + i}")[1]).astype(np.float32)
    return _words(block, bounds), rows


def _words(block: bytes, bounds: NDArray[np.int64]) -> list[str]:
    return [decoded(block[start:end]) for start, end in bounds[:, :2].tolist()]


def _read_line(line: bytes, dim: int, where: str) -> tuple[str, list[float]]:
    fields = line.rsplit(None, dim)
    if len(fields) == dim and line[:1].isspace():
        fields = [b"", *fields]  # the word consisted of blanks only
    numbers = [float(field) for field in fields[1:] if is_number(field)]
    if len(fields) != dim + 1 or len(numbers) != dim:
        raise FormatError(f"{where} does not end in {dim} numbers: the file is truncated, altered or no vector file")
    return decoded(fields[0]), numbers


def is_number(field: bytes) -> bool:
    """Whether Python reads the field as a float; unlike in Python, underscores are not allowed."""
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field
