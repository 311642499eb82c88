"""The files of a corpus on disk, and what opening one checks.

corpus.json   format, segmentation, number of everything, fingerprint, size and checksum of every other file
words.txt     every word, by falling count;  counts.i64  how often each was seen
ids.i32       the words of the text by number, in order
sentences.i64, paragraphs.i64, documents.i64   where each begins (in ids; in sentences), and the end
text.utf8     the text as it was before normalisation;  text.i64  where each sentence begins and ends in it
tags.u16      a tag for every word, where the text had tags
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.disk.manifest import Manifest
from polyseme.errors import FormatError

MARKER = "corpus.json"
CHUNK = 1 << 22  # bytes read at once; a whole number of entries of any kind
CORPUS = Manifest(
    "a corpus",
    MARKER,
    1,
    "polyseme corpus",
    {"segmentation": dict, "facts": dict, "fingerprint": str, "vocabulary": int},
    whole=4 << 20,  # opening a large corpus is to cost nothing
)


def read_header(folder: Path) -> dict[str, Any]:
    """corpus.json, checked, and every file it names compared with its size and checksum."""
    header = CORPUS.read(folder)
    CORPUS.verify(folder, header)
    return header


def mapped(file: Path, dtype: Any) -> NDArray[Any]:
    """An array file, memory-mapped; an empty file is an empty array."""
    if not file.is_file():
        raise FormatError(f"{file.parent} is incomplete: {file.name} is missing")
    size = file.stat().st_size
    if size % np.dtype(dtype).itemsize:
        raise FormatError(f"{file} was cut or altered: {size:,} bytes are no whole number of entries")
    return np.memmap(file, dtype=dtype, mode="r") if size else np.zeros(0, dtype)


def _chunks(file: Path, dtype: Any) -> Iterator[NDArray[Any]]:
    """An array file in plain reads: the pages of a memory map would count as memory of the process."""
    with open(file, "rb") as handle:
        while data := handle.read(CHUNK):
            yield np.frombuffer(data, dtype=dtype)


def offsets(file: Path, end: int) -> NDArray[np.int64]:
    """An offsets file: it begins with 0, never falls and ends with ``end``."""
    places = mapped(file, np.int64)
    before = 0
    rising = True
    for chunk in _chunks(file, np.int64):
        rising = rising and before <= chunk[0] and bool((chunk[1:] >= chunk[:-1]).all())
        before = chunk[-1]
    if not len(places) or places[0] != 0 or places[-1] != end or not rising:
        raise FormatError(f"{file} was altered: its offsets do not run from 0 to {end:,}")
    return places


def spans(file: Path, end: int) -> NDArray[np.int64]:
    """A file of starts and ends, ``(n, 2)``, none of which lies beyond ``end``."""
    places = mapped(file, np.int64)
    good = len(places) % 2 == 0
    for chunk in _chunks(file, np.int64) if good else ():
        good = good and chunk.min() >= 0 and chunk.max() <= end and bool((chunk[::2] <= chunk[1::2]).all())
    if not good:
        raise FormatError(f"{file} was altered: its places do not lie in the text")
    return places.reshape(-1, 2)


def check_numbers(file: Path, dtype: Any, below: int) -> None:
    """Every entry is at least 0 and less than ``below``: programs compiled without bounds checks rely on it."""
    for chunk in _chunks(file, dtype):
        if chunk.min() < 0 or chunk.max() >= below:
            raise FormatError(f"{file} was altered: it holds numbers of words or tags that do not exist")
