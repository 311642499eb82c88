"""The files of a corpus on disk, and what opening one checks.

corpus.json   format, segmentation, number of everything, fingerprint, size and checksum of every other file
words.txt     every word, by falling count;  counts.i64  how often each was seen
ids.i32       the words of the text by number, in order
sentences.i64, paragraphs.i64, documents.i64   where each begins (in ids; in sentences), and the end
text.utf8     the text as it was before normalisation;  text.i64  where each sentence begins and ends in it
tags.u16      a tag for every word, where the text had tags
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.disk.manifest import Manifest
from polyseme.disk.plain import PlainFile
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
    whole=4 << 20,  # opening a large corpus is to cost nothing
)


def offsets(file: PlainFile, end: int) -> NDArray[np.int64]:
    """An offsets file: it begins with 0, never falls and ends with ``end``."""
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
    """A file of starts and ends, ``(n, 2)``, none of which lies beyond ``end``."""
    places = file.mapped(np.int64)
    good = len(places) % 2 == 0
    for data in file.chunks(CHUNK) if good else ():
        chunk = np.frombuffer(data, dtype=np.int64)
        good = good and chunk.min() >= 0 and chunk.max() <= end and bool((chunk[::2] <= chunk[1::2]).all())
    if not good:
        raise FormatError(f"{file.path} was altered: its positions lie outside the text")
    return places.reshape(-1, 2)


def numbers(file: PlainFile, dtype: Any, below: int) -> NDArray[Any]:
    """Entries that are at least 0 and less than ``below``: programs compiled without bounds checks rely on it."""
    found = file.mapped(dtype)
    for data in file.chunks(CHUNK):
        chunk = np.frombuffer(data, dtype=dtype)
        if chunk.min() < 0 or chunk.max() >= below:
            raise FormatError(f"{file.path} was altered: it contains ids of words or tags that do not exist")
    return found
