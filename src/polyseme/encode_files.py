"""The vectors of a file's lines, written one by one: HDF5 in AllenNLP's layout, npy, Parquet, JSON lines. 文件编码

>>> encode_file(polyseme.load("my.elmo"), "novel.txt", "novel.h5", layers="top")

Lines are read, encoded and written as they come: only a few are in memory at a time, so a file may have any length.
Each written file appears atomically, together with those that belong to it.
"""

from __future__ import annotations

import io
import json
import logging
import re
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from polyseme.arrays import FloatArray
from polyseme.disk.atomic import Scratch, new_files
from polyseme.disk.disk_space import CheckedFile
from polyseme.errors import OptionError, advice, as_given
from polyseme.extras import needed_for
from polyseme.interfaces import (
    CHARACTERS_AT_ONCE,
    UNKNOWN,
    ContextEncoder,
    EncodedSentence,
    Layers,
    Progress,
    Sentence,
    SentenceEncoder,
    mark_unknown,
    pages,
    silent,
)
from polyseme.text.strings import well_formed

log = logging.getLogger(__name__)

Write = Callable[[str, list[str], FloatArray], None]
FORMATS = ("hdf5", "npy", "parquet", "jsonl", "features")
SUFFIXES = {
    ".h5": "hdf5", ".hdf5": "hdf5", ".npy": "npy", ".parquet": "parquet", ".jsonl": "jsonl", ".json": "jsonl",
}  # fmt: skip
STDOUT = "-"
_LINES_BETWEEN_REPORTS = 64
_LINES_READ_AHEAD = 4096  # after which those that are done are forgotten
_LONGEST_INDEX = 256 << 20  # bytes of sentence_to_index, which readers must load completely
_ROWS = 4096
_SMALL = 32 << 10  # bytes; smaller datasets are stored compactly
_OBEYED = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class EncodedFile:
    """What was written: how many lines, how many of them without any known word, and where."""

    lines: int
    unknown: int
    files: list[Path]


def format_of(out: str | Path, form: str | None = None) -> str:
    """The format to write ``out`` in: the given one, or that of its suffix; JSON lines to stdout."""
    chosen = form or SUFFIXES.get(Path(out).suffix.lower()) or ("jsonl" if str(out) == STDOUT else None)
    if chosen is None:
        how = advice(command="--format", python="format")
        raise OptionError(f"no known format for the suffix of {out}: choose one with {how} ({', '.join(FORMATS)})")
    return chosen


def encode_file(
    encoder: ContextEncoder | SentenceEncoder,
    file: str | Path,
    out: str | Path,
    *,
    format: str | None = None,
    layers: str = "all",
    pieces: bool = False,
    unknown: str = UNKNOWN[0],
    segment: str | None = None,
    encoding: str | None = None,
    errors: str = "strict",
    force: bool = False,
    progress: Progress = silent,
) -> EncodedFile:
    """Encode every line of ``file`` and write the vectors to ``out``; ``-`` is stdin and stdout.

    A context encoder gives one vector per word and layer, a sentence encoder one per line. ``format`` is by default
    that of the suffix of ``out``. ``layers`` are as for ``encode_tokens``, or several such as ``-1,-2``, which are
    concatenated. ``pieces`` asks a Transformer for its tokens instead of words, ``unknown`` says what a sentence
    encoder gives a line without any known word, ``segment`` how lines are segmented if not as the encoder does it.
    """
    form = format_of(out, format)
    by_line = isinstance(encoder, SentenceEncoder)
    if by_line and (form == "features" or pieces):
        pooled = advice(command=" or with --pool", python="")
        raise OptionError(
            f"features and pieces are vectors of words in context: not available for sentence models{pooled}"
        )
    if unknown != UNKNOWN[0] and not by_line:
        lifted = advice(command="add --pool", python="give a sentence encoder, such as lift(model, 'sentences')")
        raise OptionError(f"{as_given('unknown', unknown)} is about vectors of whole lines: {lifted}")
    planes = None if isinstance(encoder, SentenceEncoder) else _Planes(encoder, layers, together=form != "features")
    n_unknown = 0
    with _writing(form, str(out), planes.names if planes else [], force) as write:
        lines = InputLines(str(file), progress, encoding=encoding, errors=errors)
        if isinstance(encoder, SentenceEncoder):
            for vector in encoder.stream(_segmented(lines, segment)):
                line = lines.taken()
                n_unknown += mark_unknown(vector[None], [line], unknown, lines.done)
                write(line, [], vector)
        elif planes:
            for sentence in _encoded(encoder, _segmented(lines, segment), planes.asked, pieces):
                write(lines.taken(), sentence.tokens, planes.chosen(sentence.layers))
        lines.finish()
    path = Path(out)
    written = [] if str(out) == STDOUT else [path, *filter(Path.exists, files_beside(form, path))]
    return EncodedFile(lines.done, n_unknown, written)


class _Planes:
    """The requested layers: which to ask the encoder for, and how they are written."""

    def __init__(self, encoder: ContextEncoder, choice: str, *, together: bool) -> None:
        self.together, self.numbers = together, Layers.listed(choice, encoder.n_layers)
        self.asked = choice if self.numbers is None else "all"
        layers = Layers.read(self.asked, encoder.n_layers)
        self.single = layers.n_planes == 1
        self.names: list[int | str] = list(self.numbers or layers.numbers) if layers.name != "mean" else ["mean"]
        self.names = ["mix"] if layers.name == "mix" else self.names

    def chosen(self, layers: FloatArray) -> FloatArray:
        """``(L, T, D)``, or ``(T, D)`` for one layer or several concatenated."""
        if self.numbers is not None:
            layers = layers[self.numbers]
            return np.concatenate(list(layers), axis=1) if self.together else layers
        return layers[0] if self.together and self.single and self.asked != "all" else layers


def _encoded(
    encoder: ContextEncoder, lines: Iterator[Sentence], layers: str, pieces: bool
) -> Iterator[EncodedSentence]:
    if not pieces:
        return encoder.encode_tokens(lines, layers=layers)
    if not hasattr(encoder, "encode_pieces"):
        raise OptionError(f"{as_given('pieces')} needs a Transformer: other models read words")
    sentences: Iterator[EncodedSentence] = encoder.encode_pieces(lines, layers=layers)
    return sentences


class InputLines:
    """The lines of a file; those that were read ahead are kept until what was made of them is written."""

    def __init__(self, name: str, progress: Progress, *, encoding: str | None = None, errors: str = "strict") -> None:
        from polyseme.text.source import SourceReader, find_sources

        sources = find_sources([name])
        if len(sources) > 1:
            raise OptionError(f"{name} is a folder: encode reads a single file")
        self._reader, self._size = SourceReader(sources[0], encoding=encoding, errors=errors), sources[0].size
        self._progress = progress
        self._ahead: list[str] = []
        self._next = self.done = 0

    def __iter__(self) -> Iterator[str]:
        rest = ""
        for chunk in self._reader.chunks():
            *lines, rest = (rest + chunk).split("\n")
            for line in lines:
                yield self._kept(line.removesuffix("\r"))
        if rest:
            yield self._kept(rest.removesuffix("\r"))

    def _kept(self, line: str) -> str:
        self._ahead.append(line)
        return line

    def taken(self) -> str:
        """The line whose vectors were just returned."""
        line = self._ahead[self._next]
        self._next += 1
        self.done += 1
        if self._next == len(self._ahead) or self._next > _LINES_READ_AHEAD:
            del self._ahead[: self._next]
            self._next = 0
        if self.done % _LINES_BETWEEN_REPORTS == 1:
            read = self._reader.consumed if self._size is None else min(self._reader.consumed, self._size - 1)
            self._progress("encoding", read, self._size, lines=self.done)  # read to the end is not yet done
        return line

    def finish(self) -> None:
        """All lines are written."""
        self._progress("encoding", self._size or self.done, self._size or self.done, lines=self.done)


def _segmented(lines: Iterable[str], segment: str | None) -> Iterator[Sentence]:
    """The lines, as lists of words if ``segment`` says how."""
    if segment is None:
        yield from lines
        return
    from polyseme.text.segment import Segmentation

    segmentation = Segmentation(segment, normalise="none") if segment == "space" else Segmentation(segment)
    for page in pages(lines, CHARACTERS_AT_ONCE, per_sequence=16):
        yield from segmentation.token_lists(page)


@contextmanager
def _writing(form: str, out: str, names: Sequence[int | str], force: bool) -> Iterator[Write]:
    """To the given file, or to stdout: JSON lines as they come, other formats when complete."""
    if out != STDOUT:
        with writer(form, Path(out), force=force, names=names) as write:
            yield write
    elif form in ("jsonl", "features"):
        with stream_lines(form, sys.stdout.fileno(), names=names) as write:
            yield write
    else:
        with Scratch() as folder:
            with writer(form, folder / "out", lasting=False) as write:
                yield write
            with open(folder / "out", "rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()


def files_beside(form: str, path: Path) -> list[Path]:
    """The additional files that a format may write next to ``path``."""
    return [path.with_name(path.name.removesuffix(".npy") + ".offsets.npy")] if form == "npy" else []


@contextmanager
def writer(
    form: str, path: Path, *, force: bool = False, lasting: bool = True, names: Sequence[int | str] = ()
) -> Iterator[Write]:
    """Yields a function to call with each sentence's text, tokens and vectors.

    Vectors are ``(layers, tokens, dim)``, ``(tokens, dim)`` or, for a whole sentence, ``(dim,)``, the same for all
    sentences. ``force`` replaces an existing file. ``lasting`` is False for a file that is only passed on, which gets
    no second file next to it. ``names`` are the names of the layers, for the format ``features``.
    """
    kinds: dict[str, type[_Writer]] = {"hdf5": _Hdf5, "npy": _Npy, "parquet": _Parquet, "jsonl": _JsonLines}
    beside = files_beside(form, path) if lasting else []
    with new_files(path, *beside, force=force) as (part, *rest):
        target = _Features(part, names) if form == "features" else kinds[form](part)
        try:
            yield target.write
            target.close()
        finally:
            target.release()
        if isinstance(target, _Npy) and rest and target.offsets is not None:
            np.save(rest[0], target.offsets)


@contextmanager
def stream_lines(form: str, descriptor: int, *, names: Sequence[int | str] = ()) -> Iterator[Write]:
    """Like ``writer`` for JSON lines to an open file, such as standard output; each line is flushed at once."""
    target = _Features(descriptor, names) if form == "features" else _JsonLines(descriptor)
    try:
        yield target.write
    finally:
        target.release()


class _Writer(ABC):
    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def write(self, text: str, tokens: list[str], vectors: FloatArray) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Finish the file."""

    @abstractmethod
    def release(self) -> None:
        """Close what is open, whether the file was finished or not."""


class _Hdf5(_Writer):
    """One dataset per sentence, named by its number, and ``sentence_to_index``, the JSON of {text: number}."""

    def __init__(self, path: Path) -> None:
        with needed_for("writing HDF5"):
            import h5py

        self._disk = CheckedFile(path, "w+")
        self._h5py: Any = h5py
        self._file: Any = h5py.File(self._disk, "w", meta_block_size=1 << 20)
        self._small, self._large = (h5py.h5p.create(h5py.h5p.DATASET_CREATE) for _ in range(2))
        self._small.set_layout(h5py.h5d.COMPACT)  # stored in the dataset's header
        for kind in (self._small, self._large):
            kind.set_obj_track_times(False)  # the same text gives the same bytes
        self._text = h5py.string_dtype()
        self._index: Any = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed by release
        self._count = self._size = 0

    def write(self, text: str, tokens: list[str], vectors: FloatArray) -> None:
        # Does what create_dataset does in a third of the time, which matters with one dataset per line.
        low = self._h5py
        space = low.h5s.create_simple(vectors.shape)
        kind = self._small if 0 < vectors.nbytes <= _SMALL else self._large
        with self._disk.checked():
            dataset = low.h5d.create(self._file.id, str(self._count).encode(), low.h5t.IEEE_F32LE, space, kind)
            if vectors.size:
                dataset.write(space, space, np.ascontiguousarray(vectors, dtype="<f4"))
        # Written to a temporary file. Of two equal sentences the later wins when the JSON is read, as in AllenNLP.
        self._size += self._index.write(f'{", " if self._count else ""}{json.dumps(text.strip())}: "{self._count}"')
        self._count += 1

    def close(self) -> None:
        with self._disk.checked():
            if self._size > _LONGEST_INDEX:
                log.warning("the texts are too long for one table: sentence_to_index is omitted, datasets are by line")
            else:
                self._index.seek(0)
                table = self._file.create_dataset("sentence_to_index", (1,), dtype=self._text)
                table[0] = "{" + self._index.read() + "}"
            self._file.close()

    def release(self) -> None:
        with self._index, self._disk, self._disk.checked():
            self._file.close()


class _Npy(_Writer):
    """The vectors of all tokens in one array; the header is written last, when their number is known."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb")  # noqa: SIM115 - closed by release
        self._lengths: list[int] = []
        self._rows = 0
        self._shape: tuple[int, ...] = (0,)
        self._begin(self._shape)
        self.offsets: Any = None

    def _begin(self, shape: tuple[int, ...]) -> None:
        buffer = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            buffer, {"descr": "<f4", "fortran_order": False, "shape": (10**15, *shape)}
        )
        self._room = len(buffer.getvalue())
        self._file.seek(0)
        self._file.write(b" " * self._room)

    def write(self, text: str, tokens: list[str], vectors: FloatArray) -> None:
        rows = vectors[None] if vectors.ndim == 1 else vectors if vectors.ndim == 2 else vectors.transpose(1, 0, 2)
        if not self._lengths:
            self._shape = rows.shape[1:]
            self._begin(self._shape)
        self._file.write(np.ascontiguousarray(rows, dtype="<f4").tobytes())
        self._rows += len(rows)
        self._lengths.append(len(rows))
        self._whole = vectors.ndim == 1

    def close(self) -> None:
        head = io.BytesIO()
        header = {"descr": "<f4", "fortran_order": False, "shape": (self._rows, *self._shape)}
        np.lib.format.write_array_header_1_0(head, header)
        # The header's length includes its padding: spaces before the final newline.
        text = head.getvalue()[10:].rstrip()
        room = self._room - 10
        self._file.seek(0)
        self._file.write(head.getvalue()[:8] + room.to_bytes(2, "little") + text.ljust(room - 1) + b"\n")
        if self._lengths and not self._whole:
            self.offsets = np.concatenate([[0], np.cumsum(self._lengths, dtype=np.int64)])

    def release(self) -> None:
        self._file.close()


class _JsonLines(_Writer):
    """One object per sentence; numbers have nine digits, which restore a float32 exactly."""

    def __init__(self, path: Path | int) -> None:
        ours = isinstance(path, Path)
        self._file = open(  # noqa: SIM115 - closed by release
            path, "w", -1 if ours else 1, encoding="utf-8", errors="surrogatepass", closefd=ours
        )

    def write(self, text: str, tokens: list[str], vectors: FloatArray) -> None:
        if vectors.ndim == 1:
            numbers = "null" if np.isnan(vectors).any() else _numbers(vectors)  # JSON has no NaN
            self._file.write(f'{{"text": {_json(text)}, "vector": {numbers}}}\n')
        else:
            name = "vectors" if vectors.ndim == 2 else "layers"
            self._file.write(f'{{"tokens": {_json(tokens)}, "{name}": {_numbers(vectors)}}}\n')

    def close(self) -> None:
        self._file.flush()

    def release(self) -> None:
        self._file.close()


def _json(value: Any) -> str:
    # JSON allows these characters unescaped, but terminals interpret some of them, and others end a line.
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


class _Features(_JsonLines):
    """One object per sentence, as in extract_features.py of google-research/bert: each token with its layers."""

    def __init__(self, path: Path | int, names: Sequence[int | str]) -> None:
        super().__init__(path)
        self._names, self._count = [json.dumps(name) for name in names], 0

    def write(self, text: str, tokens: list[str], vectors: FloatArray) -> None:
        features = []
        for place, token in enumerate(tokens):
            layers = [
                f'{{"index": {name}, "values": {_numbers(plane[place])}}}'
                for name, plane in zip(self._names, vectors, strict=True)
            ]
            features.append(f'{{"token": {_json(token)}, "layers": [{", ".join(layers)}]}}')
        self._file.write(f'{{"linex_index": {self._count}, "features": [{", ".join(features)}]}}\n')
        self._count += 1


def _numbers(array: FloatArray) -> str:
    if array.ndim > 1:
        return "[" + ", ".join(_numbers(row) for row in array) + "]"
    return _row_format(len(array)) % tuple(array.tolist())


@lru_cache(maxsize=8)
def _row_format(n: int) -> str:
    return "[" + ", ".join(["%.9g"] * n) + "]"


class _Parquet(_Writer):
    """One row per token (or sentence), with a column of vectors for each layer."""

    def __init__(self, path: Path) -> None:
        with needed_for("writing Parquet"):
            import pyarrow
            import pyarrow.parquet
        self._arrow, self._path = pyarrow, path
        self._writer: Any = None
        self._held: list[tuple[int, str, list[str], FloatArray]] = []
        self._count = self._rows = 0

    def write(self, text: str, tokens: list[str], vectors: FloatArray) -> None:
        self._held.append((self._count, text, tokens, vectors))
        self._count += 1
        self._rows += max(len(tokens), 1)
        if self._rows >= _ROWS:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        arrow = self._arrow
        first = self._held[0][3]
        columns: dict[str, Any]
        if first.ndim == 1:
            columns = {
                "line": arrow.array([number for number, *_ in self._held], arrow.int64()),
                "text": arrow.array([well_formed(text) for _, text, _, _ in self._held], arrow.string()),
                "vector": self._vectors(np.stack([vectors for *_, vectors in self._held])),
            }
        else:
            lengths = [len(tokens) for _, _, tokens, _ in self._held]
            numbers = np.repeat([number for number, *_ in self._held], lengths)
            positions = np.concatenate([np.arange(n) for n in lengths]) if lengths else np.zeros(0)
            words = [well_formed(token) for _, _, tokens, _ in self._held for token in tokens]
            columns = {
                "line": arrow.array(numbers, arrow.int64()),
                "position": arrow.array(positions, arrow.int32()),
                "token": arrow.array(words, arrow.string()),
            }
            whole = np.concatenate([vectors for *_, vectors in self._held], axis=-2)
            planes = {"vector": whole} if whole.ndim == 2 else {f"layer_{n}": plane for n, plane in enumerate(whole)}
            columns |= {name: self._vectors(plane) for name, plane in planes.items()}
        table = arrow.table(columns)
        if self._writer is None:
            self._writer = arrow.parquet.ParquetWriter(self._path, table.schema)
        self._writer.write_table(table)
        self._held, self._rows = [], 0

    def _vectors(self, plane: FloatArray) -> Any:
        flat = self._arrow.array(np.ascontiguousarray(plane).reshape(-1), self._arrow.float32())
        return self._arrow.FixedSizeListArray.from_arrays(flat, plane.shape[-1])

    def close(self) -> None:
        self._flush()
        if self._writer is None:  # there were no sentences: write a table without rows
            self._arrow.parquet.write_table(self._arrow.table({"line": self._arrow.array([], "int64")}), self._path)

    def release(self) -> None:
        if self._writer is not None:
            self._writer.close()
