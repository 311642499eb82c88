"""Blocks of counted text to a corpus on disk, in one pass over the text and one over the ids.

Words get numbers in order of first appearance while the text streams by. At the end the words are sorted by falling
count (equal counts stay in order of appearance) and the ids on disk are renumbered, chunk by chunk.
"""

from __future__ import annotations

import hashlib
from array import array
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import TextError
from polyseme.text.block import Counted
from polyseme.text.layout import write_header
from polyseme.text.segment import Segmentation
from polyseme.text.vocabulary import words_to_bytes

CHUNK = 1 << 20  # ids renumbered at once


class Builder:
    """Takes counted blocks in order and writes the files of a corpus."""

    def __init__(self, folder: Path, segmentation: Segmentation) -> None:
        self.folder = folder
        self.segmentation = segmentation
        self.numbers: dict[str, int] = {}
        self.counts = np.zeros(1 << 16, dtype=np.int64)
        self.documents = array("q")
        self.paragraphs = array("q")
        self.n_tokens = self.n_sentences = self.n_bytes = 0
        self.breaks = True
        names = ("ids.i32", "text.utf8", "sentences.i64", "text.i64")
        self.files: dict[str, IO[bytes]] = {name: (folder / name).open("wb") for name in names}
        for name in ("sentences.i64", "text.i64"):
            self.files[name].write(np.zeros(1, dtype=np.int64).tobytes())

    def add(self, counted: Counted) -> None:
        """The next block."""
        numbers = self.numbers
        known = len(numbers)
        table = np.array([numbers.setdefault(word, len(numbers)) for word in counted.words], dtype=np.int32)
        if len(numbers) > len(self.counts):
            self.counts = np.concatenate([self.counts, np.zeros(max(known, len(numbers)), dtype=np.int64)])
        local = np.frombuffer(counted.ids, dtype=np.int32)
        if len(local):
            self.counts[table] += np.bincount(local, minlength=len(table))
            self.files["ids.i32"].write(table[local].tobytes())
        self._add_structure(counted)

    def _add_structure(self, counted: Counted) -> None:
        tokens = np.frombuffer(counted.tokens, dtype=np.int32)
        sizes = np.frombuffer(counted.sizes, dtype=np.int32)
        documents = list(counted.documents)
        if self.breaks and len(tokens) and documents[:1] != [0]:
            documents.insert(0, 0)
        self.breaks = counted.breaks_after or (self.breaks and not len(tokens))
        self.documents.extend(self.n_sentences + start for start in documents)
        self.paragraphs.extend(self.n_sentences + start for start in counted.paragraphs)
        self.files["sentences.i64"].write((self.n_tokens + np.cumsum(tokens, dtype=np.int64)).tobytes())
        self.files["text.i64"].write((self.n_bytes + np.cumsum(sizes, dtype=np.int64)).tobytes())
        self.files["text.utf8"].write(counted.text)
        self.n_tokens += int(tokens.sum())
        self.n_sentences += len(tokens)
        self.n_bytes += len(counted.text)

    def finish(self, *, min_count: int, max_size: int | None, sources: list[str]) -> None:
        """Sort the words, renumber the ids, write the rest."""
        for file in self.files.values():
            file.close()
        if not self.n_tokens:
            raise TextError(f"there are no words in {', '.join(sources[:3]) or 'no text'}")
        counts = self.counts[: len(self.numbers)]
        order = np.argsort(-counts, kind="stable")
        counts = counts[order]
        words = list(self.numbers)
        (self.folder / "words.txt").write_bytes(words_to_bytes(words[i] for i in order))
        counts.tofile(self.folder / "counts.i64")
        self._renumber(order)
        for name, starts in (("paragraphs.i64", self.paragraphs), ("documents.i64", self.documents)):
            starts.append(self.n_sentences)
            with open(self.folder / name, "wb") as handle:
                starts.tofile(handle)
        size = int(np.searchsorted(-counts, -min_count, side="right"))
        size = size if max_size is None else min(size, max_size)
        self._describe(size, sources)

    def _renumber(self, order: NDArray[np.int64]) -> None:
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        ids = np.memmap(self.folder / "ids.i32", dtype=np.int32, mode="r+")
        for start in range(0, len(ids), CHUNK):
            ids[start : start + CHUNK] = rank[ids[start : start + CHUNK]]
        ids.flush()

    def _describe(self, vocabulary: int, sources: list[str]) -> None:
        digest = hashlib.sha256(repr(sorted(self.segmentation.to_json().items())).encode("utf-8", "replace"))
        for name in ("words.txt", "ids.i32", "sentences.i64", "paragraphs.i64", "documents.i64"):
            with open(self.folder / name, "rb") as handle:
                while piece := handle.read(CHUNK):
                    digest.update(piece)
        facts: dict[str, Any] = {
            "tokens": self.n_tokens,
            "sentences": self.n_sentences,
            "paragraphs": len(self.paragraphs) - 1,
            "documents": len(self.documents) - 1,
            "words": len(self.numbers),
        }
        header = {
            "segmentation": self.segmentation.to_json(),
            "facts": facts,
            "vocabulary": vocabulary,
            "sources": sources,
            "tag_names": [],
            "fingerprint": digest.hexdigest(),
        }
        write_header(self.folder, header)
