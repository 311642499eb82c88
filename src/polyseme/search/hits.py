"""What the index answers with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyseme.nouns import FloatArray


@dataclass(frozen=True)
class Hit:
    """One occurrence of a word: ``text`` is its sentence as it was written, ``text[start:end]`` the word in it."""

    occurrence: int  # its place in the index
    sentence: int  # its sentence in the corpus
    token: int  # its place among the tokens of that sentence
    word: str
    score: float
    text: str
    start: int
    end: int
    tag: str | None


@dataclass(frozen=True)
class Sense:
    """One sense of a word, as the text uses it."""

    share: float  # of the word's occurrences
    size: int  # occurrences looked at that have this sense
    substitutes: list[str]  # what the language model would say instead; or, from other encoders, words that stand near
    typical: list[Hit]


@dataclass(frozen=True)
class WordSenses:
    """The senses of a word, the most frequent first, and every occurrence that was looked at."""

    word: str
    count: int  # occurrences in the index; frequent words are clustered on an even sample of them
    senses: list[Sense]
    points: FloatArray  # (n, 2) a map: the two main directions in which the occurrences differ
    labels: NDArray[np.int64]  # (n,) the place of each occurrence's sense in ``senses``
    hits: list[Hit]  # n
