"""A text index on disk: a folder with texts.json, the texts, their vectors and an inverted file of their words.

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

from pathlib import Path
from typing import Any

import numpy as np

from polyseme.disk.folders import Manifest
from polyseme.disk.opened_folder import Opened
from polyseme.errors import FormatError
from polyseme.search.texts.bm25 import InvertedFile
from polyseme.text.corpus_files import numbers, offsets
from polyseme.text.vocabulary import words_from_bytes, words_to_bytes

MARKER = "texts.json"
TEXTS, OFFSETS, SOURCES, LINES = "texts.utf8", "texts.i64", "sources.i32", "lines.i64"
VECTORS, COLUMNS, STARTS, ROWS, CELLS = "vectors.f32", "columns.i32", "starts.i64", "rows.i64", "cells.safetensors"
WORDS, WORD_STARTS, POSTINGS, COUNTS, LENGTHS = "words.txt", "words.i64", "postings.i32", "counts.i32", "lengths.i32"
FORMS = {"exact": (), "cells": (ROWS, CELLS), "sparse": (COLUMNS, STARTS)}  # how vectors lie, and what that needs


def _needs(found: dict[str, Any]) -> list[str]:
    form = found["facts"].get("search")
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


def read_words(folder: Opened, n: int) -> InvertedFile:
    """What ``write_words`` wrote, checked against the number of texts."""
    words = words_from_bytes(folder.file(WORDS).read(), where=str(folder.path / WORDS))
    postings = numbers(folder.file(POSTINGS), np.int32, n)
    starts = offsets(folder.file(WORD_STARTS), len(postings))
    counts, lengths = folder.file(COUNTS).mapped(np.int32), folder.file(LENGTHS).mapped(np.int32)
    if len(starts) != len(words) + 1 or len(counts) != len(postings) or len(lengths) != n:
        raise FormatError(f"{folder.path} was altered: its words do not fit its texts")
    return InvertedFile({word: i for i, word in enumerate(words)}, starts, postings, counts, lengths)
