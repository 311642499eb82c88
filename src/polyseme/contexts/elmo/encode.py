"""Encodes sentences with a biLM: each distinct word once, sentences sorted by length, results in the original order.

Fine-tuning a biLM with a task.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from threading import Lock
from typing import Any
from weakref import WeakSet

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polyseme.arrays import FloatArray
from polyseme.contexts.elmo.alphabet import Alphabet
from polyseme.contexts.elmo.bilm import BiLM, WordInputs
from polyseme.interfaces import pages
from polyseme.neural.batches import Packing
from polyseme.neural.lstm import State, stretches

WINDOW_BYTES = 256 << 20  # vectors of the sentences that are read ahead and sorted by length
WINDOW_TOKENS = 1 << 16
BATCH_ROWS = 256
CACHE_BYTES = 64 << 20
WORDS_AT_ONCE = 512
# BLAS adds in another order when a matrix has fewer rows, so the vectors of a sentence would depend on its batch.
LEAST_ROWS = 8
LEAST_WORDS = 16
PIECE_ROWS = 1 << 16  # packed tokens that are computed at once


class Planes:
    """Which layers to compute, and whether to return them or their weighted sum."""

    def __init__(
        self, layers: Sequence[int], weights: Sequence[float] | None = None, *, predicting: bool = False
    ) -> None:
        self.layers = list(layers)
        self.weights = weights  # of the sum over the layers; None: return the layers themselves
        self.predicting = predicting  # take the forward state of the previous token, the backward state of the next

    @property
    def top(self) -> int:
        """The highest layer that must be computed."""
        return max(self.layers)

    @property
    def count(self) -> int:
        """The number of planes returned."""
        return len(self.layers) if self.weights is None else 1


class WordCache:
    """An LRU cache of word vectors, so that the character CNN need not run again for recent words.

    It holds up to ``capacity`` vectors of dimension ``dim`` and evicts the least recently used.
    """

    def __init__(self, capacity: int, dim: int) -> None:
        self.capacity = capacity
        self._rows: OrderedDict[str, int] = OrderedDict()
        self._vectors = torch.empty(0, dim)
        self._lock = Lock()  # a server calls from several threads
        _caches.add(self)

    def __reduce__(self) -> Any:
        return WordCache, (self.capacity, self._vectors.shape[1])  # a lock does not travel, and vectors need not

    def __len__(self) -> int:
        return len(self._rows)

    def clear(self) -> None:
        """Empty the cache, for when the weights have changed."""
        self._rows.clear()

    def begin_again(self) -> None:
        """Be empty and unlocked in a forked child: the thread that had the lock is not there to give it back."""
        self._lock = Lock()
        self.clear()

    def get(self, words: Sequence[str], compute: Callable[[list[str]], Tensor]) -> Tensor:
        """Vectors of distinct words, ``(W, dim)``; ``compute`` is called for the words that are not cached."""
        with self._lock:
            return self._get(words, compute)

    def _get(self, words: Sequence[str], compute: Callable[[list[str]], Tensor]) -> Tensor:
        rows = torch.tensor([self._rows.get(word, -1) for word in words], dtype=torch.long)
        held, missing = (rows >= 0).nonzero()[:, 0], (rows < 0).nonzero()[:, 0]
        vectors = self._vectors.new_empty(len(words), self._vectors.shape[1])
        vectors[held] = self._vectors[rows[held]]
        for place in held.tolist():
            self._rows.move_to_end(words[place])
        if len(missing):
            new = [words[place] for place in missing.tolist()]
            vectors[missing] = computed = compute(new)
            room = min(self.capacity, len(new))
            self._keep(new[:room], computed[:room])
        return vectors

    def _keep(self, words: list[str], vectors: Tensor) -> None:
        rows = []
        for word in words:
            full = len(self._rows) >= self.capacity
            rows.append(self._rows.popitem(last=False)[1] if full else len(self._rows))
            self._rows[word] = rows[-1]
        needed = len(self._rows)
        if needed > len(self._vectors):
            grown = self._vectors.new_empty(min(self.capacity, max(needed, 2 * len(self._vectors))), vectors.shape[1])
            grown[: len(self._vectors)] = self._vectors
            self._vectors = grown
        self._vectors[torch.tensor(rows, dtype=torch.long)] = vectors


_caches: WeakSet[WordCache] = WeakSet()


def _begin_again() -> None:
    for cache in _caches:
        cache.begin_again()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)


class SentenceRunner:
    """Encodes sentences with a biLM; caches word vectors and, in stateful mode, keeps the states."""

    def __init__(self, bilm: BiLM, alphabet: Alphabet, *, cache_bytes: int = CACHE_BYTES) -> None:
        self.bilm, self.alphabet = bilm, alphabet
        self.cache = WordCache(cache_bytes // (4 * bilm.config.projection), bilm.config.projection)
        self.states: list[State] | None = None  # by batch row, in stateful mode

    def windows(self, sentences: Iterable[list[str]], planes: Planes) -> Iterator[list[list[str]]]:
        """The sentences in groups whose vectors fit in memory together."""
        dim = 2 * self.bilm.config.projection
        room = max(1024, min(WINDOW_TOKENS, WINDOW_BYTES // (4 * dim * planes.count)))
        return pages(sentences, room, per_sequence=2)

    @torch.inference_mode()
    def encode(self, sentences: list[list[str]], planes: Planes) -> list[FloatArray]:
        """Vectors ``(planes, tokens, 2P)`` of each sentence, independent of the other sentences."""
        vectors, flat, ends = self._looked_up(sentences)
        lengths = np.array([len(sentence) + 2 for sentence in sentences])
        order = np.argsort(-lengths, kind="stable")
        results: list[FloatArray | None] = [None] * len(sentences)
        n_batches = -(-len(order) // BATCH_ROWS)
        for rows in np.array_split(order, n_batches):
            packing = Packing.of(lengths[rows], least=LEAST_ROWS)
            words = flat[ends[rows[packing.row]] - lengths[rows[packing.row]] + packing.time]  # (2, N)
            computed, packing = self._run(vectors, words, packing, planes.top)
            for row, array in zip(rows, _unpacked(computed, packing, planes), strict=True):
                results[row] = array
        return [array for array in results if array is not None]

    def _run(
        self, vectors: Tensor, words: NDArray[np.int64], packing: Packing, top: int
    ) -> tuple[list[Tensor], Packing]:
        """Packed layers and their packing. A very large batch is run in pieces, and filler tokens are removed."""
        if packing.n_tokens <= PIECE_ROWS or self.bilm.config.reader != "lstm":  # only LSTMs continue from a state
            return self.bilm.run(vectors[torch.from_numpy(words)], packing.sizes, upto=top)[0], packing
        real, states = packing.of_the_real(), None
        computed = [vectors.new_empty(2, real.n_tokens, vectors.shape[1]) for _ in range(top + 1)]
        start = done = 0
        for sizes in stretches(packing.sizes, PIECE_ROWS):
            end = start + sum(sizes)
            if states:
                states = [State(h[:, : sizes[0]], c[:, : sizes[0]]) for h, c in states]
            piece = vectors[torch.from_numpy(words[:, start:end])]
            piece_planes, states = self.bilm.run(piece, sizes, states, upto=top)
            kept = torch.from_numpy(np.flatnonzero(packing.real[start:end]))
            for plane, new in zip(computed, piece_planes, strict=True):
                plane[:, done : done + len(kept)] = new[:, kept]
            del piece, piece_planes, plane, new  # free their memory before the next piece
            start, done = end, done + len(kept)
        return computed, real

    @torch.inference_mode()
    def encode_stateful(self, sentences: list[list[str]], planes: Planes) -> list[FloatArray]:
        """The same for one batch as bilm-tf and AllenNLP run it: each row continues from its last state.

        The state of a row is that of the last sentence read in it, in both directions. If the batch is larger than
        before, its new rows start from zero; if it is smaller, the states of the other rows stay as they are.
        """
        vectors, flat, ends = self._looked_up(sentences)
        lengths = np.array([len(sentence) + 2 for sentence in sentences])
        packing = Packing.of(lengths)
        order = torch.from_numpy(packing.order)
        self._make_rows(len(sentences), vectors)
        assert self.states is not None
        start = [State(h[:, order], c[:, order]) for h, c in self.states]
        x = vectors[torch.from_numpy(flat[ends[packing.row] - lengths[packing.row] + packing.time])]
        computed, last = self.bilm.run(x, packing.sizes, start)
        for kept, new in zip(self.states, last, strict=True):
            kept.h[:, order] = new.h
            kept.c[:, order] = new.c
        return list(_unpacked(computed, packing, planes))

    def _make_rows(self, n_rows: int, like: Tensor) -> None:
        held = self.states[0].h.shape[1] if self.states else 0
        if n_rows > held:
            fresh = self.bilm.zero_states(n_rows, like=like)
            for new, old in zip(fresh, self.states or [], strict=False):
                new.h[:, :held], new.c[:, :held] = old.h, old.c
            self.states = fresh

    def _looked_up(self, sentences: list[list[str]]) -> tuple[Tensor, NDArray[np.int64], NDArray[np.int64]]:
        """Vectors of the distinct words, the row of each token in them (with boundaries), and the sentence ends."""
        bos, eos = self.alphabet.bos, self.alphabet.eos
        number: dict[str, int] = {}
        flat = [number.setdefault(token, len(number)) for sentence in sentences
                for token in chain((bos,), sentence, (eos,))]  # fmt: skip
        ends = np.cumsum([len(sentence) + 2 for sentence in sentences])
        return self.cache.get(list(number), self.word_vectors), np.array(flat, dtype=np.int64), ends

    @torch.inference_mode()
    def word_vectors(self, words: list[str]) -> Tensor:
        """Context-independent vectors of words, ``(W, P)``."""
        config = self.bilm.config
        company = [*words, *words[-1:] * (LEAST_WORDS - len(words))]
        vectors = torch.empty(len(company), config.projection)
        by_length = np.argsort([len(word) for word in company], kind="stable")
        for part in np.array_split(by_length, -(-len(company) // WORDS_AT_ONCE)):
            vectors[torch.from_numpy(part)] = self.bilm.encoder(
                WordInputs.of(self.alphabet, [company[place] for place in part])
            )
        return vectors[: len(words)]


def _unpacked(computed: list[Tensor], packing: Packing, planes: Planes) -> Iterator[FloatArray]:
    """The vectors ``(planes, tokens, 2P)`` of each sentence without its boundaries, in batch order."""
    # A token at time t of its sentence (boundaries included) takes the state at t + shift of each direction.
    shifts = (-1, 1) if planes.predicting else (0, 0)
    size = computed[0].shape[2]
    order = np.empty_like(packing.order)
    order[packing.order] = np.arange(len(order))
    inner = packing.lengths[order] - 2
    ends = np.cumsum(inner)
    source = []
    for direction, shift in enumerate(shifts):  # the packed state of each token of the concatenated sentences
        times = packing.time[direction] - shift
        kept = np.flatnonzero(packing.real & (times > 0) & (times < packing.lengths[order[packing.row]] - 1))
        row, time = packing.row[kept], times[kept]
        place = np.empty_like(kept)
        place[ends[row] - inner[row] + time - 1] = kept
        source.append(torch.from_numpy(place))
    whole = computed[0].new_empty(planes.count, len(source[0]), 2 * size)
    for plane, layer in enumerate(planes.layers):
        for direction in (0, 1):
            half = computed[layer][direction].index_select(0, source[direction])
            to = whole[plane if planes.weights is None else 0, :, direction * size : (direction + 1) * size]
            if planes.weights is None:
                to.copy_(half)
            elif plane == 0:
                torch.mul(half, planes.weights[0], out=to)
            else:
                to.add_(half, alpha=planes.weights[plane])
    array = whole.numpy()
    return (array[:, end - n : end].copy() for end, n in zip(ends, inner, strict=True))


class ElmoReader:
    """Turns sentences into the input of a biLM: the distinct words of a batch, and the word at each position."""

    def __init__(self, alphabet: Alphabet) -> None:
        self.alphabet = alphabet

    def __call__(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, ...]:
        """Character ids and lengths of the distinct words, word ids, word index ``(B, T + 2)``, sentence lengths."""
        bos, eos = self.alphabet.bos, self.alphabet.eos
        number: dict[str, int] = {}
        lengths = [len(sentence) + 2 for sentence in sentences]
        index = np.zeros((len(sentences), max(lengths)), dtype=np.int64)
        for row, sentence in enumerate(sentences):
            words = chain((bos,), sentence, (eos,))
            index[row, : lengths[row]] = [number.setdefault(word, len(number)) for word in words]
        tokens = WordInputs.of(self.alphabet, list(number))
        none = torch.empty(0, dtype=torch.int64)
        return (
            none if tokens.characters is None else tokens.characters,
            none if tokens.lengths is None else torch.from_numpy(tokens.lengths),
            none if tokens.words is None else tokens.words,
            torch.from_numpy(index),
            torch.tensor(lengths),
        )


class ElmoLayers(nn.Module):
    """The chosen layers of a biLM, without sentence boundaries."""

    def __init__(self, bilm: BiLM, wanted: Sequence[int]) -> None:
        super().__init__()
        self.bilm, self.wanted = bilm, list(wanted)

    def forward(self, letters: Tensor, sizes: Tensor, names: Tensor, index: Tensor, lengths: Tensor) -> Tensor:
        """The layers, ``(B, T, L, D)``."""
        tokens = WordInputs(
            letters if len(letters) else None,
            sizes.cpu().numpy() if len(sizes) else None,
            names if len(names) else None,
        )
        layers, _ = self.bilm(tokens, index, lengths.tolist())  # (L, B, T + 2, D)
        chosen: Tensor = layers[self.wanted, :, 1:-1].permute(1, 2, 0, 3)
        return chosen
