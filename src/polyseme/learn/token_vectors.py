"""Sources of token vectors (词元向量的来源): learned embeddings, word vectors, characters.

A source prepares texts once (``prepare``), before any epoch: words become numbers, word vectors are looked up. Batches
are then taken from the prepared texts, and the source's module, the trained part, turns them into vectors. Context
encoders are sources too, in ``context_layers.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import FloatArray, Ints
from polyseme.contexts.static import looked_up
from polyseme.interfaces import Progress, WordVectorsInterface, silent
from polyseme.neural.convolution import window_maxima

TokenLists = Sequence[Sequence[str]]

PADDING, UNKNOWN, FIRST = 0, 1, 2  # rows of a learned table; keys start at FIRST
SELDOM = 0.5  # probability that a key seen once is replaced by UNKNOWN in training, so that its row is trained
LONGEST_WORD = 40  # letters of a word that are used


class Flat(NamedTuple):
    """Values of all tokens of all texts, concatenated."""

    values: NDArray[Any]  # (N, …)
    offsets: Ints  # of the texts

    def padded(self, rows: Ints, longest: int) -> NDArray[Any]:
        """The values of some texts, padded with zeros, ``(B, longest, …)``."""
        padded = np.zeros((len(rows), longest, *self.values.shape[1:]), dtype=self.values.dtype)
        for place, row in enumerate(rows):
            start, end = self.offsets[row], self.offsets[row + 1]
            padded[place, : end - start] = self.values[start:end]
        return padded


def offsets_of(lists: TokenLists) -> Ints:
    """Where each text begins among all tokens."""
    return np.concatenate([[0], np.cumsum([len(tokens) for tokens in lists])]).astype(np.int64)


class TokenInputs(ABC):
    """Texts prepared by a source."""

    @abstractmethod
    def batch(self, rows: Ints, longest: int) -> tuple[Tensor, ...]:
        """The input of the source's module for these texts."""


class SourceModule(nn.Module, ABC):
    """The trained part of a source."""

    dim: int  # of its vectors at the input
    beside: int = 0  # of its vectors at the hidden states

    @abstractmethod
    def forward(self, *batch: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Vectors ``(B, T, dim)`` for the input and ``(B, T, beside)`` for the hidden states; either may be None."""


class TokenVectorSource(ABC):
    """One source of token vectors."""

    module: SourceModule

    @abstractmethod
    def prepare(self, lists: TokenLists, progress: Progress = silent) -> TokenInputs:
        """Prepare texts for batches."""

    def table(self) -> dict[str, list[str]]:
        """The keys of its table by the table's name, to save in the model folder."""
        return {}


# ---- learned tables


def words(tokens: Sequence[str]) -> Iterable[str]:
    """Keys of a table of words."""
    return tokens


def bigrams(tokens: Sequence[str]) -> Iterable[str]:
    """Keys of a table of bigrams: each token with the one after it."""
    return (f"{a} {b}" for a, b in pairwise([*tokens, ""]))


KEYS: dict[str, Callable[[Sequence[str]], Iterable[str]]] = {"words": words, "bigrams": bigrams}


class EmbeddingTable(SourceModule):
    """A vector for each key, trained with the task: ``(B, T) -> (B, T, dim)``."""

    def __init__(self, n_keys: int, dim: int, seldom: NDArray[np.bool_] | None = None) -> None:
        super().__init__()
        self.dim = dim
        self.weight = nn.Parameter(torch.empty(FIRST + n_keys, dim).uniform_(-0.25, 0.25))
        self.weight.data[PADDING] = 0
        rare = np.zeros(FIRST + n_keys, dtype=bool) if seldom is None else seldom
        self.register_buffer("seldom", torch.from_numpy(rare), persistent=False)
        self.seldom: Tensor

    def rows(self, ids: Tensor) -> Tensor:
        """The vectors of keys; in training, some keys seen only once are treated as unknown."""
        if self.training:
            hidden = self.seldom[ids] & (torch.rand(ids.shape, device=ids.device) < SELDOM)
            ids = torch.where(hidden, UNKNOWN, ids)
        return F.embedding(ids, self.weight, padding_idx=PADDING, sparse=True)

    def forward(self, *batch: Tensor) -> tuple[Tensor, None]:
        return self.rows(batch[0]), None


class LearnedKeys(TokenVectorSource):
    """A learned table of words or bigrams."""

    module: EmbeddingTable

    def __init__(self, name: str, keys: list[str], dim: int, seldom: NDArray[np.bool_] | None = None) -> None:
        self.name, self.keys = name, keys
        self.index = {key: FIRST + number for number, key in enumerate(keys)}
        self.module = EmbeddingTable(len(keys), dim, seldom)

    @classmethod
    def of(cls, name: str, lists: TokenLists, dim: int, min_count: int) -> LearnedKeys:
        """The table of the keys in these texts."""
        keys, seldom = counted_keys(KEYS[name], lists, min_count)
        return cls(name, keys, dim, seldom)

    def prepare(self, lists: TokenLists, progress: Progress = silent) -> TokenInputs:
        return _Numbers(Flat(self.numbers(lists), offsets_of(lists)))

    def numbers(self, lists: TokenLists) -> Ints:
        """The row of every token's key, texts concatenated."""
        known, keys = self.index.get, KEYS[self.name]
        return np.array([known(key, UNKNOWN) for tokens in lists for key in keys(tokens)], dtype=np.int64)

    def table(self) -> dict[str, list[str]]:
        return {self.name: self.keys}


def counted_keys(
    keys: Callable[[Sequence[str]], Iterable[str]], lists: TokenLists, min_count: int
) -> tuple[list[str], NDArray[np.bool_]]:
    """The keys seen at least ``min_count`` times, most frequent first, and which table rows are of keys seen once."""
    counts = Counter(chain.from_iterable(keys(tokens) for tokens in lists))
    kept = sorted((-n, key) for key, n in counts.items() if n >= min_count)
    seldom = np.array([False] * FIRST + [n == -1 for n, _ in kept])
    return [key for _, key in kept], seldom


class _Numbers(TokenInputs):
    def __init__(self, flat: Flat) -> None:
        self.flat = flat

    def batch(self, rows: Ints, longest: int) -> tuple[Tensor, ...]:
        return (torch.from_numpy(self.flat.padded(rows, longest)),)


# ---- word vectors


class FixedVectors(TokenVectorSource):
    """Given word vectors: frozen (static), fine-tuned (non-static), or the sum of both (multichannel).

    The difference from the given vector is trained, so words that do not occur in the training texts keep theirs. A
    word without a vector is looked up in lower case too.
    """

    def __init__(self, vectors: WordVectorsInterface, mode: str, learned: LearnedKeys | None = None) -> None:
        self.vectors, self.mode, self.learned = vectors, mode, learned
        self.module = _ShiftedSource(vectors.vector_size, mode, learned.module if learned else None)

    @classmethod
    def of(cls, vectors: WordVectorsInterface, mode: str, lists: TokenLists, min_count: int) -> FixedVectors:
        """Word vectors for a task whose training texts are ``lists``."""
        if mode == "frozen":
            return cls(vectors, mode)
        learned = LearnedKeys.of("words", lists, vectors.vector_size, min_count)
        known = looked_up(vectors, learned.keys).any(axis=1)
        learned.module.weight.data[FIRST:][torch.from_numpy(known)] = 0
        learned.module.weight.data[UNKNOWN] = 0
        return cls(vectors, mode, learned)

    def prepare(self, lists: TokenLists, progress: Progress = silent) -> TokenInputs:
        number: dict[str, int] = {}
        places = [number.setdefault(token, len(number)) for tokens in lists for token in tokens]
        offsets = offsets_of(lists)
        learned = Flat(self.learned.numbers(lists), offsets) if self.learned else None
        return _LookedUp(
            looked_up(self.vectors, list(number)), Flat(np.array(places, dtype=np.int64), offsets), learned
        )

    def table(self) -> dict[str, list[str]]:
        return self.learned.table() if self.learned else {}


class _LookedUp(TokenInputs):
    def __init__(self, matrix: FloatArray, places: Flat, learned: Flat | None) -> None:
        self.matrix = np.concatenate([np.zeros_like(matrix[:1], shape=(1, matrix.shape[1])), matrix])
        self.places, self.learned = Flat(places.values + 1, places.offsets), learned

    def batch(self, rows: Ints, longest: int) -> tuple[Tensor, ...]:
        given = torch.from_numpy(self.matrix[self.places.padded(rows, longest)])
        if self.learned is None:
            return (given,)
        return given, torch.from_numpy(self.learned.padded(rows, longest))


class _ShiftedSource(SourceModule):
    def __init__(self, dim: int, mode: str, table: EmbeddingTable | None) -> None:
        super().__init__()
        self.dim, self.times, self.table = dim, 2 if mode == "multichannel" else 1, table

    def forward(self, *batch: Tensor) -> tuple[Tensor, None]:
        given = batch[0]
        return (given if self.table is None else self.times * given + self.table.rows(batch[1])), None


# ---- letters


class Letters(TokenVectorSource):
    """A character CNN: the maxima of a convolution over the letters of each token (Ma and Hovy 2016)."""

    def __init__(self, letters: list[str], filters: int) -> None:
        self.letters = letters
        self.index = {letter: FIRST + number for number, letter in enumerate(letters)}
        self.module = _LetterFilters(len(letters), filters)

    @classmethod
    def of(cls, lists: TokenLists, filters: int) -> Letters:
        """For the letters of these texts."""
        return cls(counted_keys(chain.from_iterable, lists, 1)[0], filters)

    def prepare(self, lists: TokenLists, progress: Progress = silent) -> TokenInputs:
        number: dict[str, int] = {}
        places = [number.setdefault(token, len(number)) for tokens in lists for token in tokens]
        spelt = [[self.index.get(letter, UNKNOWN) for letter in word[:LONGEST_WORD]] for word in number]
        table = np.zeros((len(spelt) + 1, max(map(len, spelt), default=1)), dtype=np.int64)
        for row, letters in enumerate(spelt, start=1):
            table[row, : len(letters)] = letters
        return _Spelt(table, Flat(np.array(places, dtype=np.int64) + 1, offsets_of(lists)))

    def table(self) -> dict[str, list[str]]:
        return {"letters": self.letters}


class _Spelt(TokenInputs):
    def __init__(self, table: Ints, places: Flat) -> None:
        self.table, self.places = table, places

    def batch(self, rows: Ints, longest: int) -> tuple[Tensor, ...]:
        distinct, inverse = np.unique(self.places.padded(rows, longest), return_inverse=True)
        return torch.from_numpy(self.table[distinct]), torch.from_numpy(inverse.reshape(len(rows), longest))


class _LetterFilters(SourceModule):
    WIDTH, LETTER = 3, 25

    def __init__(self, n_letters: int, filters: int) -> None:
        super().__init__()
        self.dim = filters
        self.letters = EmbeddingTable(n_letters, self.LETTER)
        self.weight = nn.Parameter(torch.empty(filters, self.WIDTH, self.LETTER).uniform_(-0.2, 0.2))
        self.bias = nn.Parameter(torch.zeros(filters))

    def forward(self, *batch: Tensor) -> tuple[Tensor, None]:
        spelt, places = batch  # (W, C) letters of the distinct words, (B, T) index of each word
        filters = window_maxima(self.letters.rows(spelt), spelt != PADDING, [self.weight], [self.bias])
        return F.embedding(places, torch.tanh(filters)), None
