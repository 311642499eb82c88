"""The units 单位 that the language model reads and predicts: words, characters, or subwords (byte-pair encoding).

Id 0 is the sentence boundary, id 1 the unknown unit; the units follow, the most frequent first. With characters, words
that are written with a space between them have a space unit too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import altered_model
from polyseme.text.byte_pairs import BytePairs
from polyseme.text.corpus import Corpus
from polyseme.text.spacing import join_words

BOUNDARY, UNKNOWN, SPECIALS = 0, 1, 2
SPACE = " "
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Units:
    """The units of a model; turns words into unit ids."""

    kind: str  # words | chars | bpe
    known: list[str]
    pieces: BytePairs | None = None

    def __post_init__(self) -> None:
        if (self.kind == "bpe") != (self.pieces is not None):
            raise altered_model("byte-pair pieces and their merges belong together")

    def __len__(self) -> int:
        return SPECIALS + len(self.known)

    @cached_property
    def index(self) -> dict[str, int]:
        """unit → id."""
        return {unit: number for number, unit in enumerate(self.known, SPECIALS)}

    def cut(self, word: str, before: str = "") -> list[str]:
        """The units of a word that follows the word ``before``."""
        if self.kind == "words":
            return [word]
        if self.pieces is not None:
            return self.pieces.cut(word) or [word]
        apart = before[-1:].isascii() and word[:1].isascii() and (before[-1:] + word[:1]).isalnum() and before
        return [SPACE, *word] if apart else list(word) or [word]

    def numbers(self, words: list[str]) -> tuple[list[int], list[int]]:
        """The unit ids of a sentence, and the number of units of each word."""
        numbers: list[int] = []
        sizes, before = [], ""
        for word in words:
            units = self.cut(word, before)
            numbers += [self.index.get(unit, UNKNOWN) for unit in units]
            sizes.append(len(units))
            before = word
        return numbers, sizes

    def text(self, numbers: Iterable[int]) -> str:
        """Unit ids as text: characters concatenated, words with spaces where they are written apart."""
        units = ["\n" if n == BOUNDARY else "�" if n == UNKNOWN else self.known[n - SPECIALS] for n in numbers]
        if self.pieces is not None:
            return self.pieces.join(units)
        return "".join(units) if self.kind == "chars" else join_words(units)


def learn_units(corpus: Corpus, kind: str, *, min_count: int, max_size: int | None) -> Units:
    """The units of a text, the most frequent first."""
    most = None if max_size is None else max_size - SPECIALS
    if kind == "words":
        return Units(kind, corpus.vocabulary.cut(min_count=min_count, max_size=most).words)
    if kind == "bpe":
        pieces = BytePairs.learn(_counted_words(corpus), size=most or 30_000)
        return Units(kind, pieces.pieces, pieces)
    counts: Counter[str] = Counter()
    for word, n in _counted_words(corpus):
        for character in word:
            counts[character] += n
    counts[SPACE] += min_count
    kept = [unit for unit, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if n >= min_count]
    return Units(kind, kept[:most])


def _counted_words(corpus: Corpus) -> Iterator[tuple[str, int]]:
    counts = np.bincount(corpus.ids, minlength=len(corpus.all_words)) if corpus.n_tokens else np.empty(0, np.int64)
    return zip(corpus.all_words, counts.tolist(), strict=False)


def stream_of(corpus: Corpus, which: Ints, units: Units) -> Ints:
    """Sentences as one sequence of unit ids, with a boundary before each and after the last."""
    if units.kind == "words":
        return _stream_of_words(corpus, which, units)
    table = [units.numbers([word])[0] for word in corpus.all_words]
    spaced = units.kind == "chars"
    row = [BOUNDARY]
    for sentence in which.tolist():
        start, end = corpus.sentence_offsets[sentence : sentence + 2]
        words = corpus.ids[start:end].tolist()
        row += (
            units.numbers([corpus.all_words[w] for w in words])[0] if spaced else [u for w in words for u in table[w]]
        )
        row.append(BOUNDARY)
    return np.array(row, dtype=np.int64)


def _stream_of_words(corpus: Corpus, which: Ints, units: Units) -> Ints:
    number = np.array([units.index.get(word, UNKNOWN) for word in corpus.all_words], dtype=np.int64)
    lengths = (corpus.sentence_offsets[which + 1] - corpus.sentence_offsets[which]).astype(np.int64)
    row = np.full(int(lengths.sum()) + len(which) + 1, BOUNDARY, dtype=np.int64)
    ends = np.cumsum(lengths + 1)
    for sentence, end, length in zip(which.tolist(), ends.tolist(), lengths.tolist(), strict=True):
        start = int(corpus.sentence_offsets[sentence])
        row[end - length : end] = number[corpus.ids[start : start + length]]
    return row
