"""Write the vectors of sentences one by one: HDF5 in AllenNLP's layout, npy, Parquet, JSON lines.

Only a few sentences are in memory at a time, so a file may have any length. Each file appears atomically, together with
those that belong to it.
"""

from __future__ import annotations

import io
import json
import logging
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from polyseme.arrays import FloatArray
from polyseme.disk.atomic import new_files
from polyseme.disk.disk_space import CheckedFile
from polyseme.errors import MissingExtra
from polyseme.text.strings import well_formed

log = logging.getLogger(__name__)

Write = Callable[[str, list[str], FloatArray], None]
_LONGEST_INDEX = 256 << 20  # bytes of sentence_to_index, which readers must load completely
_ROWS = 4096
_SMALL = 32 << 10  # bytes; smaller datasets are stored compactly
_OBEYED = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


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
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise MissingExtra("writing Parquet", "parquet") from None
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
