"""word2vec's text and binary formats, and their variants: GloVe (no header) and fastText's .vec.

    text     "V D\n"?  then V lines  "word x1 … xD\n"
    binary   "V D\n"   then V times  word " " D little-endian float32, optionally "\n"

As in other readers, the first row of a duplicated word is used. Unlike in other readers, nothing is allocated on the
strength of the header alone, and a file with fewer or more rows than its header says, or with NaN or infinity, is
rejected.

Parse lines of ``word number number …`` into words and a float32 matrix.

A line is read from its end: the last D fields are the numbers, and everything before them is the word, which may
contain spaces. Numbers are bit for bit what ``numpy.float32(float(text))`` gives: a compiled parser reads most of them
and leaves the few whose rounding is uncertain, and everything that is not a number, to Python.
"""

from __future__ import annotations

import codecs
import logging
import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import numpy as np

from polyseme.arrays import FloatArray, Ints
from polyseme.disk.atomic import new_file
from polyseme.disk.files import open_for_reading, open_for_writing
from polyseme.errors import FormatError
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


def _words(block: bytes, bounds: Ints) -> list[str]:
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


HEAD = 1 << 18
CHUNK = 4 << 20
LONGEST_VECTOR = 1 << 20
LONGEST_WORD = 1 << 16
_HEADER = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,18})[ \t]*\r?\n")
_BREAKS = re.compile(r"[ \t\n\v\f\r]")

Block = tuple[list[str], FloatArray]


@dataclass
class VectorFile:
    """The words and vectors of a file."""

    words: list[str]
    vectors: FloatArray  # (V, D)


@dataclass(frozen=True)
class Shape:
    """What the beginning of a file says about the rest."""

    layout: str  # text | binary
    rows: int | None  # None: there is no header
    dim: int
    start: int  # where the rows begin


def tells(path: Path, head: bytes) -> bool:
    """Whether this file, which begins with ``head``, holds word vectors."""
    return path.is_file() and recognise(head) is not None


def recognise(head: bytes) -> Shape | None:
    """The shape announced by the first ``HEAD`` bytes of a file; None if it is not a vector file."""
    mark = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0  # some editors write a byte order mark
    shape = _recognise(head[mark:])
    return shape and replace(shape, start=shape.start + mark)


def _recognise(head: bytes) -> Shape | None:
    header = _HEADER.match(head)
    if not header:
        return _headerless(head)
    rows, dim = int(header[1]), int(header[2])
    body = head[header.end() :]
    line = body.split(b"\n", 1)[0]
    numbers = trailing_numbers(line)
    if numbers and numbers >= min(dim, 2):
        return Shape("text", rows, dim, header.end())
    looks_binary = re.search(rb"[\x00-\x08\x0e-\x1f]", body) or not body or len(body) < 4 * dim
    return Shape("binary", rows, dim, header.end()) if looks_binary else None


def _headerless(head: bytes) -> Shape | None:
    lines = head.split(b"\n")
    whole = [line for line in lines[: -1 if len(head) >= HEAD else None][:9] if line.strip()] or lines[:1]
    lengths = [trailing_numbers(line) for line in whole]
    # The majority decides: a word may end in a number, and a damaged line is better reported later by its number.
    dim = max(sorted(set(lengths)), key=lengths.count)
    if all(is_number(line.split(None, 1)[0]) for line in whole if line.strip()) and len(whole) > 1:
        return None  # a table of numbers, without words
    # Sentences may end in a number or two; five numbers, or several lines with equally many, are vectors.
    rows = lengths[0] >= dim and (dim >= 5 or (dim >= 2 and lengths.count(dim) > 1))
    return Shape("text", None, dim, 0) if rows else None


def read(path: str | Path) -> VectorFile:
    """The vectors of a word2vec, GloVe or fastText .vec file, plain or compressed."""
    path = Path(path)
    with open_for_reading(path) as (file, size):
        shape = recognise(file.read(HEAD))
        if shape is None:
            raise FormatError(f"{path} is not a word-vector file: it starts with neither a header nor a row")
        _check_claim(path, shape, size)
        file.seek(shape.start)
        blocks = _text_blocks(path, file, shape) if shape.layout == "text" else _binary_blocks(path, file, shape, size)
        table = _gather(path, blocks, shape, size)
        return replace(table, words=in_own_encoding(table.words, str(path)))


def _check_claim(path: Path, shape: Shape, size: int | None) -> None:
    if not 1 <= shape.dim <= LONGEST_VECTOR:
        raise FormatError(f"{path} claims vectors of {shape.dim:,} numbers: its header is wrong")
    if shape.rows == 0:
        raise FormatError(f"{path} holds no words: its header says 0")
    if shape.rows is None or size is None:
        return
    least = 2 * shape.dim if shape.layout == "text" else 4 * shape.dim + 1
    if shape.rows * least > size - shape.start + 1:
        raise FormatError(
            f"{path} is truncated or its header is wrong: {shape.rows:,} words of {shape.dim:,} "
            f"numbers take {shape.rows * least:,} bytes at least, and {size - shape.start:,} "
            "follow"
        )


def _gather(path: Path, blocks: Iterator[Block], shape: Shape, size: int | None) -> VectorFile:
    """All blocks in one matrix, with only the first row of each word."""
    # For a plain file the header was checked against the file size; for a compressed file it cannot be trusted.
    whole = np.empty((shape.rows, shape.dim), dtype=np.float32) if shape.rows and size is not None else None
    pieces: list[FloatArray] = []
    kept: list[str] = []
    known: set[str] = set()
    seen = 0
    for words, rows in blocks:
        _check_finite(path, words, rows)
        seen += len(words)
        if shape.rows is not None and seen > shape.rows:
            raise FormatError(f"{path} holds more rows than the {shape.rows:,} of its header")
        new = set(words)
        if len(new) < len(words) or not known.isdisjoint(new):
            first = _first_places(words, known)
            words, rows = [words[i] for i in first], rows[first]
            if seen - len(known) - len(words) > 1000 + seen // 2:
                raise FormatError(f"{path} repeats its words over and over: {len(known):,} words in {seen:,} rows")
        known |= new
        if whole is not None:
            whole[len(kept) : len(kept) + len(rows)] = rows
        else:
            pieces.append(rows)
        kept += words
    if shape.rows is not None and seen < shape.rows:
        raise FormatError(f"{path} is truncated: {seen:,} rows, and its header says {shape.rows:,}")
    if seen > len(kept):
        log.warning("%s: %d words are duplicated; the first row of each is used", path, seen - len(kept))
    vectors = whole[: len(kept)] if whole is not None else np.concatenate(pieces)
    return VectorFile(kept, vectors)


def _first_places(words: list[str], known: set[str]) -> list[int]:
    places: dict[str, int] = {}
    for place, word in enumerate(words):
        if word not in known:
            places.setdefault(word, place)
    return list(places.values())


def _check_finite(path: Path, words: list[str], rows: FloatArray) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(rows.sum()):
            return
    for word, row in zip(words, rows, strict=True):
        if not np.isfinite(row).all():
            raise FormatError(f"{path} holds NaN or infinity in the vector of {word!r}: the file is damaged")


def _text_blocks(path: Path, file: IO[bytes], shape: Shape) -> Iterator[Block]:
    longest = LONGEST_WORD + 64 * shape.dim
    line, rest = 1 + (shape.rows is not None), b""
    while chunk := file.read(CHUNK):
        data = rest + chunk
        # Keep the last line and the blanks after it for the next chunk: it may be incomplete.
        end = data.rfind(b"\n", 0, len(data.rstrip())) + 1
        block, rest = data[:end], data[end:]
        if len(rest) > longest:
            raise FormatError(f"{path} line {line + block.count(10)} is too long for {shape.dim:,} numbers")
        if block:
            words, rows = read_lines(block, shape.dim, line, str(path))
            line += len(words)
            yield words, rows
    if rest := rest.rstrip():
        yield read_lines(rest, shape.dim, line, str(path))


def _binary_blocks(path: Path, file: IO[bytes], shape: Shape, size: int | None) -> Iterator[Block]:
    """Rows from a memory map of a plain file, or read in chunks from a compressed one."""
    assert shape.rows is not None
    step = max(1, CHUNK // (4 * shape.dim))
    buffer: bytes | mmap.mmap = b""
    place, left, more = 0, shape.rows, True
    if size is not None:
        buffer, place, more = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), shape.start, False
    while left:
        words, starts, place = _scan(path, buffer, place, 4 * shape.dim, min(step, left))
        left -= len(words)
        if words:
            rows = _rows(buffer, starts, shape.dim)
            _check_order(path, rows)
            yield _decoded(path, words), rows
        elif more and (chunk := file.read(CHUNK + 4 * shape.dim)):
            buffer, place = buffer[place:] + chunk, 0
        else:
            return
    rest = buffer[place : place + CHUNK] + (file.read(CHUNK) if more else b"")
    if rest.strip():
        raise FormatError(f"{path} has more data than the {shape.rows:,} rows of its header: the header is wrong")


def _scan(
    path: Path, buffer: bytes | mmap.mmap, place: int, width: int, at_most: int
) -> tuple[list[bytes], list[int], int]:
    """The words of the complete rows from ``place`` on, where their vectors start, and where the next row begins."""
    words: list[bytes] = []
    starts: list[int] = []
    find, last = buffer.find, len(buffer) - width - 1
    while len(words) < at_most:
        blank = find(b" ", place, place + LONGEST_WORD)
        if blank < 0 or blank > last:
            if blank < 0 and len(buffer) - place >= LONGEST_WORD:
                raise FormatError(f"{path} has no word at byte {place:,}: it is altered or no word2vec binary file")
            break
        words.append(buffer[place:blank])
        starts.append(blank + 1)
        place = blank + 1 + width
    return words, starts, place


def _rows(buffer: bytes | mmap.mmap, starts: list[int], dim: int) -> FloatArray:
    # A view with a row starting at every byte of the buffer; indexing it copies each chosen row in one go.
    width = 4 * dim
    windows = np.ndarray(len(buffer) - width + 1, dtype=f"V{width}", buffer=buffer, strides=(1,))
    picked: FloatArray = windows[np.array(starts)].view("<f4").reshape(len(starts), dim)
    return picked


def _check_order(path: Path, rows: FloatArray) -> None:
    """Refuse numbers that would make vectors only if their bytes came in the other order."""
    if rows.size >= 16 and _likely(rows) < 0.5 and _likely(rows.byteswap()) > 0.9:
        raise FormatError(f"{path} has big-endian numbers, and word2vec's binary format has little-endian ones")


def _likely(rows: FloatArray) -> float:
    """The fraction of numbers whose size is one that numbers of vectors have."""
    sizes = np.abs(rows)
    return float(((sizes == 0) | ((sizes > 1e-6) & (sizes < 1e6))).mean())


def _decoded(path: Path, words: list[bytes]) -> list[str]:
    # Files written by word2vec.c end each row with a newline, which then leads the next word.
    text = re.sub("\x00\n+", "\x00", decoded(b"\x00".join(words).lstrip(b"\n")))
    found = text.split("\x00")
    if len(found) != len(words) or "\n" in text:
        raise FormatError(
            f"{path} is altered, or a word in it has a space: what should be words holds NULs or newlines"
        )
    return found


def write_text(path: str | Path, words: list[str], vectors: FloatArray, *, header: bool = True) -> None:
    """Write word2vec's text format, or GloVe's (no header). The numbers read back to the same bits."""
    with new_file(path) as part, open_for_writing(part, Path(path)) as file:
        if header:
            file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, row in zip(_writable(words), vectors, strict=True):
            file.write(f"{word} {' '.join(map(str, row))}\n".encode("utf-8", "surrogateescape"))


def write_binary(path: str | Path, words: list[str], vectors: FloatArray) -> None:
    """Write word2vec's binary format, with a newline after each row like word2vec.c."""
    with new_file(path) as part, open_for_writing(part, Path(path)) as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, row in zip(_writable(words), vectors, strict=True):
            file.write(word.encode("utf-8", "surrogateescape") + b" " + row.astype("<f4").tobytes() + b"\n")


def _writable(words: list[str]) -> list[str]:
    """The words with ``_`` in place of blanks, which these formats cannot represent."""
    changed = [_BREAKS.sub("_", word) for word in words]
    n = sum(a != b for a, b in zip(words, changed, strict=True))
    if n:
        log.warning("%d words contain spaces, which vector files do not allow: written with _ instead", n)
    return changed
