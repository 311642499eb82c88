"""The nouns of the house, as far as every room needs to know them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
Sentence = str | Sequence[str]  # raw text, or tokens already


class Progress(Protocol):
    """Hears how far a long piece of work is. ``total`` is None where it cannot be known."""

    def __call__(self, what: str, done: float, total: float | None, /, **facts: Any) -> None: ...


def silent(what: str, done: float, total: float | None, /, **facts: Any) -> None:
    """The Progress that says nothing."""


class WordLookup(Protocol):
    """What a word-vector table answers to the rooms that must not import ``words``."""

    @property
    def vector_size(self) -> int: ...

    def __contains__(self, word: object) -> bool: ...

    def __getitem__(self, word: str) -> FloatArray: ...

    def tokenize(self, text: str) -> list[str]: ...


@dataclass(frozen=True)
class EncodedSentence:
    """A sentence's tokens and their vectors, one ``(tokens, dim)`` plane per layer."""

    tokens: list[str]
    layers: FloatArray  # (L, T, D)


class ContextEncoder(ABC):
    """A model that reads a sentence: one vector per occurrence of a word."""

    dim: int
    n_layers: int

    @abstractmethod
    def encode_tokens(self, sentences: Iterable[Sentence], *, layers: str | int = "all") -> Iterator[EncodedSentence]:
        """Vectors of every token, sentence by sentence, in order; streams.

        ``layers`` is ``all``, ``top``, ``mean``, ``mix`` or a number; all but ``all`` give L = 1.
        """

    @abstractmethod
    def tokenize(self, text: str) -> list[str]:
        """Cut raw text the way the model's training text was cut."""


class SentenceEncoder(ABC):
    """Anything that reads a text: one vector per text."""

    dim: int

    @abstractmethod
    def encode(self, texts: Iterable[Sentence]) -> FloatArray:
        """Vectors of the texts, ``(n, dim)``."""

    def similarity(self, a: Iterable[Sentence], b: Iterable[Sentence]) -> FloatArray:
        """Cosines of every text of ``a`` with every text of ``b``, ``(len(a), len(b))``."""
        left, right = unit_rows(self.encode(a)), unit_rows(self.encode(b))
        return np.asarray(left @ right.T, dtype=np.float32)


def unit_rows(matrix: FloatArray) -> FloatArray:
    """The rows scaled to length one; a zero row stays zero."""
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.asarray(matrix / np.where(norms > 0, norms, 1), dtype=np.float32)
