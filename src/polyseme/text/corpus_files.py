"""The files of a corpus on disk, and the checks when it is opened.

corpus.json   format, segmentation, counts, fingerprint, size and checksum of every other file
words.txt     every word, most frequent first;  counts.i64  how often each occurs
ids.i32       the words of the text as numbers, in order
sentences.i64   the first token of each sentence, and the number of tokens
paragraphs.i64, documents.i64   the first sentence of each, and the number of sentences
text.utf8     the text before normalisation;  text.i64  start and end of each sentence in it
tags.u16      a tag for every token, if the text had tags
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.disk.files import PlainFile
from polyseme.disk.folders import Manifest
from polyseme.errors import FormatError

MARKER = "corpus.json"
CHUNK = 1 << 22  # bytes read at once; a whole number of entries of any kind
FILES = (
    *("words.txt", "counts.i64", "ids.i32", "sentences.i64", "paragraphs.i64", "documents.i64"),
    *("text.utf8", "text.i64"),
)
TAGS = "tags.u16"


def _needs(found: dict[str, Any]) -> tuple[str, ...]:
    return (*FILES, TAGS) if found.get("tag_names") else FILES


CORPUS = Manifest(
    "a corpus",
    MARKER,
    1,
    "polyseme corpus",
    {"segmentation": dict, "facts": dict, "fingerprint": str, "vocabulary": int},
    _needs,
    whole=4 << 20,  # hash larger files only in part, so that a large corpus opens quickly
)


def offsets(file: PlainFile, end: int) -> NDArray[np.int64]:
    """Map an offsets file, checking that it begins with 0, never decreases and ends with ``end``."""
    places = file.mapped(np.int64)
    before = 0
    rising = True
    for data in file.chunks(CHUNK):
        chunk = np.frombuffer(data, dtype=np.int64)
        rising = rising and before <= chunk[0] and bool((chunk[1:] >= chunk[:-1]).all())
        before = chunk[-1]
    if not len(places) or places[0] != 0 or places[-1] != end or not rising:
        raise FormatError(f"{file.path} was altered: its offsets do not run from 0 to {end:,}")
    return places


def spans(file: PlainFile, end: int) -> NDArray[np.int64]:
    """Map a file of starts and ends, ``(n, 2)``, checking that none is beyond ``end``."""
    places = file.mapped(np.int64)
    good = len(places) % 2 == 0
    for data in file.chunks(CHUNK) if good else ():
        chunk = np.frombuffer(data, dtype=np.int64)
        good = good and chunk.min() >= 0 and chunk.max() <= end and bool((chunk[::2] <= chunk[1::2]).all())
    if not good:
        raise FormatError(f"{file.path} was altered: its positions lie outside the text")
    return places.reshape(-1, 2)


def numbers(file: PlainFile, dtype: Any, below: int) -> NDArray[Any]:
    """Map a file of ids, checking that 0 ≤ id < ``below``: compiled code without bounds checks relies on it."""
    found = file.mapped(dtype)
    for data in file.chunks(CHUNK):
        chunk = np.frombuffer(data, dtype=dtype)
        if chunk.min() < 0 or chunk.max() >= below:
            raise FormatError(f"{file.path} was altered: it contains ids of words or tags that do not exist")
    return found
