"""The files of a corpus on disk: the checks when it is opened, and the builder that writes them.

corpus.json   format, segmentation, counts, fingerprint, size and checksum of every other file
words.txt     every word, most frequent first;  counts.i64  how often each occurs
ids.i32       the words of the text as numbers, in order
sentences.i64   the first token of each sentence, and the number of tokens
paragraphs.i64, documents.i64   the first sentence of each, and the number of sentences
text.utf8     the text before normalisation;  text.i64  start and end of each sentence in it
tags.u16      a tag for every token, if the text had tags

Counted blocks are written in one pass over the text and two over the ids. While the text streams by, words are numbered
in order of first appearance. At the end they are sorted by decreasing count (ties stay in order of appearance), and the
ids on disk are renumbered chunk by chunk.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Ints, gathered
from polyseme.disk.files import PlainFile
from polyseme.disk.folders import Manifest
from polyseme.errors import FormatError, TextError
from polyseme.text.blocks import CountedBlock
from polyseme.text.segment import Segmentation

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


def offsets(file: PlainFile, end: int) -> Ints:
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


def spans(file: PlainFile, end: int) -> Ints:
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
    ids = file.mapped(dtype)
    for data in file.chunks(CHUNK):
        chunk = np.frombuffer(data, dtype=dtype)
        if chunk.min() < 0 or chunk.max() >= below:
            raise FormatError(f"{file.path} was altered: it contains ids of words or tags that do not exist")
    return ids


WORDS = 1 << 18  # words written to words.txt at once
MOST_TAGS = 4096
FINGERPRINTED = ("words.txt", "ids.i32", "sentences.i64", "paragraphs.i64", "documents.i64")  # the training content


class CorpusBuilder:
    """Takes counted blocks in order and writes the files of a corpus."""

    def __init__(self, folder: Path, segmentation: Segmentation) -> None:
        self.folder = folder
        self.segmentation = segmentation
        self.words = bytearray()  # in order of their numbers, as lines of words.txt
        self.n_words = 0
        self.tag_names: dict[str, int] = {}
        self.untagged = 0  # tokens before the first tag
        self.n_tokens = self.n_sentences = self.n_bytes = self.n_paragraphs = self.n_documents = 0
        self.breaks = True
        names = ("ids.i32", "text.utf8", "text.i64", "sentences.i64", "paragraphs.i64", "documents.i64")
        self.files: dict[str, IO[bytes]] = {name: (folder / name).open("wb") for name in names}
        self._write_places("sentences.i64", np.zeros(1, dtype=np.int64))

    def add(self, counted: CountedBlock) -> None:
        """Write the next block."""
        self.words += counted.words
        self.n_words += counted.words.count(b"\n")
        self.files["ids.i32"].write(counted.ids.data)
        self._add_tags(counted, len(counted.ids))
        self._add_structure(counted, counted.ends.astype(np.int64))

    def _add_tags(self, counted: CountedBlock, tokens: int) -> None:
        """Write tags as soon as a block has any; tokens without a tag, also in earlier blocks, get the empty tag."""
        if not counted.tag_names and not self.tag_names:
            self.untagged += tokens
            return
        names = self.tag_names
        if not names:
            self.files["tags.u16"] = (self.folder / "tags.u16").open("wb")
        table = [names.setdefault(name, len(names)) for name in counted.tag_names]
        if len(names) > MOST_TAGS:
            raise TextError(f"more than {MOST_TAGS:,} different tags: this is not word/TAG text; give its format")
        if self.untagged or not table:
            empty = names.setdefault("", len(names))
            self._write_tags(np.broadcast_to(np.uint16(empty), self.untagged if table else tokens))
            self.untagged = 0
        if table:
            self._write_tags(np.array(table, dtype=np.uint16)[counted.tags])

    def _write_tags(self, tags: NDArray[np.uint16]) -> None:
        for start in range(0, len(tags), CHUNK):
            self.files["tags.u16"].write(np.ascontiguousarray(tags[start : start + CHUNK]).data)

    def _add_structure(self, counted: CountedBlock, ends: Ints) -> None:
        documents = counted.documents.astype(np.int64)
        if self.breaks and len(ends) and (not len(documents) or documents[0]):
            documents = np.concatenate([np.zeros(1, np.int64), documents])
        self.breaks = counted.breaks_after or (self.breaks and not len(ends))
        paragraphs = counted.paragraphs.astype(np.int64)
        if not self.n_sentences and len(ends) and (not len(paragraphs) or paragraphs[0]):
            paragraphs = np.concatenate([np.zeros(1, np.int64), paragraphs])
        self._write_places("documents.i64", documents + self.n_sentences)
        self._write_places("paragraphs.i64", paragraphs + self.n_sentences)
        self._write_places("sentences.i64", self.n_tokens + ends)
        self._write_places("text.i64", counted.spans.astype(np.int64) + self.n_bytes)
        self.files["text.utf8"].write(counted.text)
        self.n_documents += len(documents)
        self.n_paragraphs += len(paragraphs)
        self.n_tokens += int(ends[-1]) if len(ends) else 0
        self.n_sentences += len(ends)
        self.n_bytes += len(counted.text)

    def _write_places(self, name: str, places: NDArray[Any]) -> None:
        self.files[name].write(np.ascontiguousarray(places, dtype=np.int64).data)

    def counted(self) -> Ints:
        """The count of each word, by its number."""
        counts = np.zeros(self.n_words, dtype=np.int64)
        self.files["ids.i32"].flush()
        with open(self.folder / "ids.i32", "rb") as file:
            while data := file.read(CHUNK):
                counts += np.bincount(np.frombuffer(data, dtype=np.int32), minlength=len(counts))
        return counts

    def close(self) -> None:
        """Close the files, whether the build succeeded or not."""
        for file in self.files.values():
            file.close()

    def finish(self, *, min_count: int, max_size: int | None, sources: list[str]) -> None:
        """Sort the words, renumber the ids and write the remaining files."""
        if not self.n_tokens:
            raise TextError(f"there are no words in {', '.join(sources[:3]) or 'no text at all'}")
        for name in ("paragraphs.i64", "documents.i64"):
            self._write_places(name, np.array([self.n_sentences]))
        counts = self.counted()
        self.close()
        order = np.argsort(-counts, kind="stable")
        counts = counts[order]
        self._write_words(order)
        counts.tofile(self.folder / "counts.i64")
        self._renumber(order)
        size = int(np.searchsorted(-counts, -min_count, side="right"))
        self._describe(size if max_size is None else min(size, max_size), sources)

    def _write_words(self, order: Ints) -> None:
        data = np.frombuffer(self.words, dtype=np.uint8)
        ends = np.flatnonzero(data == ord("\n")) + 1
        sizes = np.diff(ends, prepend=0)
        with open(self.folder / "words.txt", "wb") as file:
            for start in range(0, len(order), WORDS):
                numbers = order[start : start + WORDS]
                file.write(gathered(data, ends[numbers] - sizes[numbers], sizes[numbers]).data)

    def _renumber(self, order: Ints) -> None:
        """Renumber with plain reads and writes: a memory map's pages would count as memory of this process."""
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        with open(self.folder / "ids.i32", "r+b") as file:
            while data := file.read(CHUNK):
                file.seek(-len(data), 1)
                file.write(rank[np.frombuffer(data, dtype=np.int32)].data)

    def _describe(self, vocabulary: int, sources: list[str]) -> None:
        seals = CORPUS.seals(self.folder)
        content = [*FINGERPRINTED, "tags.u16"] if self.tag_names else FINGERPRINTED
        made = [sorted(self.segmentation.to_json().items()), vocabulary, *(seals[name]["sha256"] for name in content)]
        fingerprint = hashlib.sha256(repr(made).encode("utf-8", "replace")).hexdigest()
        facts: dict[str, Any] = {
            "tokens": self.n_tokens,
            "sentences": self.n_sentences,
            "paragraphs": self.n_paragraphs,
            "documents": self.n_documents,
            "words": self.n_words,
        }
        header = {
            "segmentation": self.segmentation.to_json(),
            "facts": facts,
            "vocabulary": vocabulary,
            "sources": sources,
            "tag_names": list(self.tag_names),
            "fingerprint": fingerprint,
        }
        CORPUS.write(self.folder, header, seals)
