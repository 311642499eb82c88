"""The vectors of a text index, and the nearest of them: all compared, or those in the nearest cells. 向量检索

Up to 200,000 texts every vector is compared. Above, k-means learns √n / 2 centres, and the vectors are on disk in the
order of their cells, so that the few cells nearest to a query are read in one piece each; how many must be read
for a recall of 0.95 is measured when the index is made (see cells.py). Sparse vectors are all compared.

A text index on disk: a folder with texts.json, the texts, their vectors and an inverted file of their words.

| file | what |
|---|---|
| texts.json | sources, segmentation, number of everything; size and checksum of the other files |
| texts.utf8, texts.i64 | the texts, and where each begins (n + 1) |
| sources.i32, lines.i64 | of each text its file, by number, and its line there |
| vectors.f32 | (n, d) vectors of length one; in the order of ``rows.i64`` where there are cells |
| columns.i32, starts.i64 | of sparse vectors: the column of each number, and where each row begins (n + 1) |
| rows.i64, cells.safetensors | of many texts: the text of each vector, the cells' centres and where each begins |
| words.txt, words.i64, postings.i32, counts.i32, lengths.i32 | the inverted file (see bm25.py) |
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, best_places
from polyseme.disk.folders import Manifest, OpenFolder
from polyseme.errors import FormatError
from polyseme.interfaces import Progress
from polyseme.search.occurrences.cells import build_cells
from polyseme.search.texts import text_vectors as layout
from polyseme.search.texts.bm25 import InvertedFile
from polyseme.store import safetensors_file as tensor_file
from polyseme.text.corpus_files import numbers, offsets
from polyseme.text.vocabulary import words_from_bytes, words_to_bytes

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MARKER = "texts.json"
TEXTS, OFFSETS, SOURCES, LINES = "texts.utf8", "texts.i64", "sources.i32", "lines.i64"
VECTORS, COLUMNS, STARTS, ROWS, CELLS = "vectors.f32", "columns.i32", "starts.i64", "rows.i64", "cells.safetensors"
WORDS, WORD_STARTS, POSTINGS, COUNTS, LENGTHS = "words.txt", "words.i64", "postings.i32", "counts.i32", "lengths.i32"
FORMS = {"exact": (), "cells": (ROWS, CELLS), "sparse": (COLUMNS, STARTS)}  # how vectors lie, and what that needs


def _needs(manifest: dict[str, Any]) -> list[str]:
    form = manifest["facts"].get("search")
    whole = [TEXTS, OFFSETS, SOURCES, LINES, VECTORS, WORDS, WORD_STARTS, POSTINGS, COUNTS, LENGTHS]
    return [*whole, *(FORMS.get(form, ()) if isinstance(form, str) else ())]


INDEX = Manifest(
    "a text index", MARKER, 1, "polyseme search", {"segmentation": dict, "facts": dict, "sources": list}, _needs
)


def write_words(folder: Path, file: InvertedFile) -> None:
    """The inverted file."""
    (folder / WORDS).write_bytes(words_to_bytes(file.words))
    for name, values in ((WORD_STARTS, file.starts), (POSTINGS, file.texts), (COUNTS, file.counts)):
        values.tofile(folder / name)
    file.lengths.tofile(folder / LENGTHS)


def read_words(folder: OpenFolder, n: int) -> InvertedFile:
    """What ``write_words`` wrote, checked against the number of texts."""
    words = words_from_bytes(folder.file(WORDS).read(), where=str(folder.path / WORDS))
    postings = numbers(folder.file(POSTINGS), np.int32, n)
    starts = offsets(folder.file(WORD_STARTS), len(postings))
    counts, lengths = folder.file(COUNTS).mapped(np.int32), folder.file(LENGTHS).mapped(np.int32)
    if len(starts) != len(words) + 1 or len(counts) != len(postings) or len(lengths) != n:
        raise FormatError(f"{folder.path} was altered: its words do not fit its texts")
    return InvertedFile({word: i for i, word in enumerate(words)}, starts, postings, counts, lengths)


EXACT = 200_000  # texts that are all compared
_BLOCK = 1 << 15  # rows compared, or put in order, at a time

Found = tuple[NDArray[np.int64], FloatArray]  # texts and their cosines, nearest first


@dataclass(frozen=True)
class TextCells:
    """Centres ``(k, d)``, where each cell begins ``(k + 1,)``, the text of each vector ``(n,)``, cells to be read."""

    centres: FloatArray
    starts: NDArray[np.int64]
    texts: NDArray[np.int64]
    probes: int


@dataclass(frozen=True)
class TextVectors:
    """``rows`` are dense ``(n, d)`` or compressed; in the order of the cells where there are any."""

    rows: Any
    cells: TextCells | None = None

    def nearest(self, vector: Any, k: int) -> Found:
        """The ``k`` texts nearest to a vector of length one, ``(1, d)``; of equal ones the first."""
        if not isinstance(self.rows, np.ndarray):
            return _best(np.asarray((self.rows @ vector.T).toarray())[:, 0].astype(np.float32), k)
        query = np.ascontiguousarray(vector[0])
        if self.cells is None:
            scores = np.empty(len(self.rows), dtype=np.float32)
            for start in range(0, len(self.rows), _BLOCK):
                scores[start : start + _BLOCK] = self.rows[start : start + _BLOCK] @ query
            return _best(scores, k)
        cells = self.cells
        near = np.argsort(-(cells.centres @ query), kind="stable")[: cells.probes]
        ranges = [slice(int(cells.starts[c]), int(cells.starts[c + 1])) for c in near]
        scores = np.concatenate([self.rows[own] @ query for own in ranges])
        texts = np.concatenate([cells.texts[own] for own in ranges])
        order = np.argsort(texts)  # of equally near texts the first
        texts, scores = texts[order], scores[order]
        best = best_places(scores, k)
        return texts[best], scores[best]

    def in_order(self) -> Any:
        """The rows in the order of the texts; with cells, a copy."""
        if self.cells is None:
            return self.rows
        rows = np.empty(self.rows.shape, dtype=np.float32)
        rows[self.cells.texts] = self.rows
        return rows

    def row(self, text: int) -> FloatArray:
        """The vector of a text, ``(d,)``."""
        place = text if self.cells is None else int(np.flatnonzero(self.cells.texts == text)[0])
        found = self.rows[[place]]
        return np.asarray(found if isinstance(found, np.ndarray) else found.toarray(), dtype=np.float32).reshape(-1)


def _best(scores: FloatArray, k: int) -> Found:
    places = best_places(scores, k)
    return places, scores[places]


# ---- on disk


def write_sparse(folder: Path, rows: csr_array) -> None:
    """Compressed rows."""
    rows.data.astype(np.float32).tofile(folder / layout.VECTORS)
    rows.indices.astype(np.int32).tofile(folder / layout.COLUMNS)
    rows.indptr.astype(np.int64).tofile(folder / layout.STARTS)


def write_cells(folder: Path, n: int, dim: int, progress: Progress) -> dict[str, Any]:
    """Put the vectors of a folder in the order of cells; what was measured."""
    rows = np.memmap(folder / layout.VECTORS, dtype=np.float32, mode="r", shape=(n, dim))
    lists = folder / ".cells.npy"
    cells, recall = build_cells(rows, np.ones(dim, dtype=np.float32), lists, seed=1, progress=progress)
    order = np.asarray(cells.rows, dtype=np.int64)
    order.tofile(folder / layout.ROWS)
    with open(folder / ".vectors", "wb") as file:
        for start in range(0, n, _BLOCK):
            np.ascontiguousarray(rows[order[start : start + _BLOCK]]).tofile(file)
    del rows, cells.rows
    lists.unlink()
    (folder / ".vectors").replace(folder / layout.VECTORS)
    tensor_file.write(folder / layout.CELLS, {"centres": cells.centres, "starts": cells.offsets})
    return {"search": "cells", "probes": cells.probes, "recall": round(recall, 4)}


def read_vectors(folder: OpenFolder, facts: dict[str, Any]) -> TextVectors:
    """The vectors of an index, checked against its facts."""
    n, dim, form = facts["n_texts"], facts["dim"], facts["search"]
    values = folder.file(layout.VECTORS).mapped(np.float32)
    if form == "sparse":
        from scipy.sparse import csr_array

        columns = numbers(folder.file(layout.COLUMNS), np.int32, dim)
        starts = offsets(folder.file(layout.STARTS), len(columns))
        if len(values) != len(columns) or len(starts) != n + 1:
            raise FormatError(f"{folder.path} was altered: its vectors do not fit its texts")
        return TextVectors(csr_array((values, columns, starts), shape=(n, dim)))
    if len(values) != n * dim:
        raise FormatError(f"{folder.path} was altered: its vectors do not fit its texts")
    rows = values.reshape(n, dim)
    return TextVectors(rows) if form == "exact" else TextVectors(rows, _read_cells(folder, n, dim, facts["probes"]))


def _read_cells(folder: OpenFolder, n: int, dim: int, probes: int) -> TextCells:
    arrays = tensor_file.read(folder.file(layout.CELLS))
    centres, starts = arrays.get("centres"), arrays.get("starts")
    texts = numbers(folder.file(layout.ROWS), np.int64, n)
    good = centres is not None and starts is not None and centres.ndim == 2 and centres.shape[1] == dim
    if centres is None or starts is None or not good or len(starts) != len(centres) + 1 or len(texts) != n:
        raise FormatError(f"{folder.path} was altered: its cells do not fit its vectors")
    if starts[0] != 0 or starts[-1] != n or (np.diff(starts) < 0).any() or probes < 1:
        raise FormatError(f"{folder.path} was altered: its cells do not hold its vectors")
    return TextCells(centres, starts, texts, probes)
