"""Search by meaning among texts: by vectors, by words, or by both. 语义检索

>>> index = TextIndex.build(model, "notes.txt")              # lines of a file; a corpus, a folder, documents
>>> index.search("怎样打电话", k=5)
>>> index.save("notes.texts"); TextIndex.open("notes.texts", model).append("more.txt")

| how | texts are ranked by |
|---|---|
| `vectors` | the cosine of their vectors with the query's |
| `words` | BM25 (see bm25.py) |
| `both` | Σ 1 / (60 + rank) over the two: Cormack, Clarke and Büttcher, Reciprocal Rank Fusion, 2009 |

A query without a known word has the zero vector, and finds nothing by it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray
from polyseme.disk.atomic import Scratch
from polyseme.disk.folders import OpenFolder, steady
from polyseme.disk.mapped import Watch, watching
from polyseme.errors import FormatError, OptionError
from polyseme.interfaces import Progress, SentenceEncoder, check_query, silent
from polyseme.search.texts import text_vectors as layout
from polyseme.search.texts.bm25 import words_of
from polyseme.search.texts.text_builder import TextIndexBuilder
from polyseme.search.texts.text_units import Given, Unit, read_units, units_of
from polyseme.search.texts.text_vectors import read_vectors
from polyseme.sentences.bag_of_words import unit_vectors
from polyseme.sentences.lift import lift
from polyseme.text.corpus_files import numbers, offsets
from polyseme.text.normalise import check
from polyseme.text.segment import Segmentation
from polyseme.text.spacing import token_spans

HOWS = ("vectors", "words", "both")
_FUSED = 60  # of reciprocal rank fusion
_DEPTH = 100  # hits of each kind that are joined, where fewer are requested
_ALIKE = 0.999  # cosine of a text's vector with the one it was indexed with


@dataclass(frozen=True, repr=False)
class TextHit:
    """A text that was found: where it comes from, the query's words in it, and its context."""

    number: int  # its place in the index
    score: float
    text: str
    source: str
    line: int
    marks: list[tuple[int, int]]  # starts and ends in the text of words that the query has too
    before: list[str]  # the texts before it in the same source, nearest last
    after: list[str]

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {**vars(self), "score": round(float(self.score), 6)}

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= 60 else f"{self.text[:60]}…"
        return f"TextHit({self.score:.3f} {self.source}:{self.line}: {text!r})"


class TextIndex:
    """Texts with their vectors and words. ``build`` makes one, ``open`` opens one that was saved."""

    def __init__(self, folder: OpenFolder, model: Any = None) -> None:
        """``model`` encodes queries, and texts that are added; without one, texts are found by words only."""
        self.path, manifest = folder.path, folder.found
        self.watch = Watch()
        self.facts: dict[str, Any] = manifest["facts"]
        self.sources = [str(name) for name in manifest["sources"]]
        self.segmentation = Segmentation.from_json(manifest["segmentation"], where=self.path / layout.MARKER)
        whole = all(isinstance(self.facts.get(name), int) for name in ("n_texts", "dim", "probes"))
        if not whole or self.facts.get("search") not in layout.FORMS or self.facts["dim"] < 1:
            raise FormatError(f"{self.path / layout.MARKER} was altered: its facts are incomplete")
        n = self.facts["n_texts"]
        self._bytes: NDArray[np.uint8] = folder.file(layout.TEXTS).mapped(np.uint8)
        self._offsets = offsets(folder.file(layout.OFFSETS), len(self._bytes))
        self._source_numbers = numbers(folder.file(layout.SOURCES), np.int32, len(self.sources))
        self._lines = folder.file(layout.LINES).mapped(np.int64)
        if not n == len(self._offsets) - 1 == len(self._source_numbers) == len(self._lines):
            raise FormatError(f"{self.path} was altered: its texts and their places differ in number")
        self.words = layout.read_words(folder, n)
        self.vectors = read_vectors(folder, self.facts)
        self.encoder = None if model is None else self._checked(lift(model, "sentences"))
        self._kept_alive: Any = None

    @classmethod
    def build(
        cls,
        model: Any,
        texts: Given,
        out: str | Path | None = None,
        *,
        unit: str = "lines",
        encoding: str | None = None,
        errors: str = "strict",
        force: bool = False,
        progress: Progress = silent,
    ) -> TextIndex:
        """Index the ``lines`` or ``documents`` of a file, a folder or a corpus; without ``out`` in a temporary place.

        ``model`` is any model; one of words or of words in context is lifted by the mean (``lift`` has other ways).
        """
        segmentation = cutting(model)
        builder = TextIndexBuilder(lift(model, "sentences"), segmentation)
        units = read_units(texts, unit, segmentation, encoding=encoding, errors=errors)
        return cls._written(builder, units, out, force, progress)

    @classmethod
    def of(cls, model: Any, texts: Iterable[str], *, progress: Progress = silent) -> TextIndex:
        """The same of texts in memory."""
        builder = TextIndexBuilder(lift(model, "sentences"), cutting(model))
        return cls._written(builder, units_of(texts), None, False, progress)

    @classmethod
    def _written(
        cls, builder: TextIndexBuilder, units: Iterator[Unit], out: str | Path | None, force: bool, progress: Progress
    ) -> TextIndex:
        scratch = Scratch() if out is None else None
        path = scratch.path / "texts" if scratch else Path(str(out))
        with layout.INDEX.new_folder(path, force=force) as part:
            builder.write(part, units, progress)
        index = cls.open(path, builder.encoder)
        index._kept_alive = scratch
        return index

    @classmethod
    def open(cls, path: str | Path, model: Any = None) -> TextIndex:
        """A saved index, with the model that it was made with."""

        def once() -> TextIndex:
            with layout.INDEX.open(path) as folder, watching() as watch:
                folder.verify()
                index = cls(folder, model)
            index.watch = watch
            return index

        return steady(path, once)

    def asked_with(self, model: Any) -> TextIndex:
        """The same texts, with the model that they were indexed with."""
        index = copy(self)
        index.encoder = self._checked(lift(model, "sentences"))
        return index

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write a copy to ``path``, atomically."""
        with layout.INDEX.new_folder(path, force=force) as part:
            for file in self.path.iterdir():
                shutil.copyfile(file, part / file.name)

    def append(
        self,
        texts: Given,
        out: str | Path | None = None,
        *,
        unit: str = "lines",
        encoding: str | None = None,
        errors: str = "strict",
        force: bool = False,
        progress: Progress = silent,
    ) -> TextIndex:
        """A new index with further texts after these, at ``out`` or in the place of this one."""
        builder = TextIndexBuilder(self._encoder(), self.segmentation)
        builder.adopt(self)
        units = read_units(texts, unit, self.segmentation, encoding=encoding, errors=errors)
        index = self._written(builder, units, out or self.path, force or out is None, progress)
        index._kept_alive = self._kept_alive if out is None else None
        return index

    def __len__(self) -> int:
        return int(self.facts["n_texts"])

    def __repr__(self) -> str:
        return f"TextIndex({len(self):,} texts, dim {self.facts['dim']}, {self.facts['search']})"

    def text(self, number: int) -> str:
        """A text, by its place."""
        return self._bytes[self._offsets[number] : self._offsets[number + 1]].tobytes().decode("utf-8", "replace")

    def texts_bytes(self) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
        """All texts, where each begins, their sources and lines: what an index that continues from here keeps."""
        self.watch.check()
        return self._bytes, self._offsets, self._source_numbers, self._lines

    # ---- questions

    def search(self, query: str, k: int = 10, *, how: str = "vectors", context: int = 1) -> list[TextHit]:
        """The ``k`` best texts, best first, with ``context`` neighbours on either side."""
        check("how", how, HOWS)
        self.watch.check()
        if k < 1:
            raise OptionError(f"k must be at least 1, not {k}")
        if how == "both":
            depth = max(k, _DEPTH)
            ranking = fused([self._by_vectors(query, depth)[0], self._by_words(query, depth)[0]], k)
        else:
            ranking = self._by_vectors(query, k) if how == "vectors" else self._by_words(query, k)
        texts = [self.text(int(n)) for n in ranking[0]]
        words, *cut = self.segmentation.token_lists([query, *texts])  # together: a call costs as much as many texts
        asked = set(words_of(words))
        marks = [self._marks(text, tokens, asked) for text, tokens in zip(texts, cut, strict=True)]
        hits = zip(ranking[0].tolist(), ranking[1].tolist(), texts, marks, strict=True)
        return [self._hit(number, score, text, spans, context) for number, score, text, spans in hits]

    def nearest(self, vector: FloatArray, k: int) -> tuple[NDArray[np.int64], FloatArray]:
        """Places and cosines of the texts nearest to a vector of length one, ``(1, dim)``."""
        self.watch.check()
        return self.vectors.nearest(vector, k)

    def _by_vectors(self, query: str, k: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
        vector: Any = unit_vectors(self._encoder(), [query])
        check_query(vector, query)
        if not abs(vector).sum() > 0:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        return self.nearest(vector, k)

    def _by_words(self, query: str, k: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
        texts, scores = self.words.scores(words_of(self.segmentation.tokens(query)))
        best = np.lexsort((texts, -scores))[:k]
        return texts[best], scores[best]

    def _marks(self, text: str, tokens: list[str], asked: set[str]) -> list[tuple[int, int]]:
        """Where the query words occur in a text."""
        if not any(token.lower() in asked for token in tokens):
            return []
        places = zip(tokens, token_spans(text, tokens, self.segmentation), strict=True)
        return [span for token, span in places if token.lower() in asked and span[0] < span[1]]

    def _hit(self, number: int, score: float, text: str, marks: list[tuple[int, int]], context: int) -> TextHit:
        source = int(self._source_numbers[number])
        return TextHit(
            number,
            score,
            text,
            self.sources[source],
            int(self._lines[number]),
            marks,
            self._around(range(number - context, number), source),
            self._around(range(number + 1, number + 1 + context), source),
        )

    def _around(self, places: range, source: int) -> list[str]:
        return [self.text(i) for i in places if 0 <= i < len(self) and self._source_numbers[i] == source]

    def _encoder(self) -> SentenceEncoder:
        if self.encoder is None:
            raise OptionError("query vectors need the model of the index: give it, or search by words")
        return self.encoder

    def _checked(self, encoder: SentenceEncoder) -> SentenceEncoder:
        """Refuse a model that gives the first texts other vectors than they were indexed with."""
        other = FormatError(f"{self.path} was built with a different model or pooling than the one given")
        if encoder.dim != self.facts["dim"]:
            raise other
        for number in range(min(3, len(self))):
            vector = unit_vectors(encoder, [self.text(number)])
            dense = np.asarray(vector if isinstance(vector, np.ndarray) else vector.toarray())[0]
            kept = self.vectors.row(number)
            if abs(float(kept @ kept) - float(dense @ dense)) > 0.01 or (kept.any() and kept @ dense < _ALIKE):
                raise other
        return encoder


def fused(rankings: list[NDArray[np.int64]], k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Reciprocal rank fusion: the best of several rankings together, and Σ 1 / (60 + rank)."""
    places = np.concatenate(rankings)
    scores = np.concatenate([1 / (_FUSED + 1 + np.arange(len(ranking))) for ranking in rankings])
    numbers, owner = np.unique(places, return_inverse=True)
    total = np.bincount(owner, weights=scores, minlength=len(numbers)).astype(np.float64)
    best = np.lexsort((numbers, -total))[:k]
    return numbers[best], total[best]


def cutting(model: Any) -> Segmentation:
    """How texts are cut for a model; by script where it does not say, or by a function that cannot be kept."""
    segmentation = getattr(model, "segmentation", None)
    return segmentation if isinstance(segmentation, Segmentation) and segmentation.function is None else Segmentation()


def is_text_index(path: str | Path) -> bool:
    """Is there a text index at this path?"""
    return (Path(path) / layout.MARKER).is_file()
