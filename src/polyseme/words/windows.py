"""Words and their context, for the methods that train on windows of text (NNLM, Polyglot)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import TrainingError
from polyseme.text.corpus import Corpus
from polyseme.words.vocabulary_plan import WordPlan

Numbers = NDArray[np.int64]
MOST_HELD_OUT = 20_000  # words
RUN = 64  # neighbouring positions that stay together in a batch: their windows share a part of memory
SPECIALS = 2  # rows after those of the words: the unknown word, and the sentence boundary


@dataclass(frozen=True)
class WordStream:
    """Sentences as one sequence of word numbers, with a boundary before each sentence and one after the last."""

    numbers: NDArray[np.int32]
    unknown: int

    @property
    def boundary(self) -> int:
        """The number that marks sentence boundaries."""
        return self.unknown + 1

    @classmethod
    def of_sentences(cls, sentences: list[NDArray[np.int32]], n_words: int) -> WordStream:
        """From the word numbers of each sentence."""
        lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        joined = np.concatenate([*sentences, np.empty(0, np.int32)])
        return cls(_with_boundaries(joined, lengths, n_words + 1), n_words)

    @classmethod
    def of_corpus(cls, corpus: Corpus, plan: WordPlan, chosen: NDArray[np.bool_]) -> WordStream:
        """From the chosen sentences of a corpus."""
        lengths = np.diff(corpus.sentence_offsets)
        joined = plan.numbers[np.asarray(corpus.ids)[np.repeat(chosen, lengths)]]
        return cls(_with_boundaries(joined, lengths[chosen], len(plan.vocabulary) + 1), len(plan.vocabulary))

    def before(self, places: Numbers, n: int) -> Numbers:
        """The ``n`` words before each place, nearest first; all boundaries beyond the first: ``(m,) -> (m, n)``."""
        return self._beside(places[:, None] - np.arange(1, n + 1))

    def after(self, places: Numbers, n: int) -> Numbers:
        """The ``n`` words after each place, likewise."""
        return self._beside(places[:, None] + np.arange(1, n + 1))

    def _beside(self, at: Numbers) -> Numbers:
        found = self.numbers[np.clip(at, 0, len(self.numbers) - 1)].astype(np.int64)
        outside = np.logical_or.accumulate(found == self.boundary, axis=1)
        return np.where(outside, self.boundary, found)


def _with_boundaries(joined: NDArray[np.int32], lengths: Numbers, boundary: int) -> NDArray[np.int32]:
    row = np.full(len(joined) + len(lengths) + 1, boundary, dtype=np.int32)
    row[np.arange(len(joined)) + np.repeat(np.arange(1, len(lengths) + 1), lengths)] = joined
    return row


class Batches:
    """Batches of positions in a text, shuffled anew in each epoch; runs of neighbours stay together."""

    def __init__(self, places: Numbers, size: int, seed: int) -> None:
        self.places, self.size, self.seed = places, size, seed
        self.run = max(1, min(RUN, size // 8))
        self._order = lru_cache(maxsize=2)(self._shuffled)

    def __len__(self) -> int:
        runs = -(-len(self.places) // self.run)  # the last of which may be short
        return -(-runs * self.run // self.size)

    def __call__(self, epoch: int, index: int) -> Numbers:
        """The positions of batch ``index`` in an epoch."""
        runs = self._order(epoch)[index * self.size // self.run : -(-(index + 1) * self.size // self.run)]
        first = index * self.size % self.run
        picked = (runs[:, None] * self.run + np.arange(self.run)).ravel()[first : first + self.size]
        return np.asarray(self.places[picked[picked < len(self.places)]])

    def _shuffled(self, epoch: int) -> Numbers:
        return np.random.default_rng((self.seed, epoch)).permutation(-(-len(self.places) // self.run))


def split_sentences(corpus: Corpus, share: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which sentences to train on and which to hold out; the choice depends only on the text."""
    lengths = np.diff(corpus.sentence_offsets)
    filled = np.flatnonzero(lengths > 0)
    held_out = np.zeros(len(lengths), dtype=bool)
    if share and len(filled) > 1:
        order = np.random.default_rng(20030201).permutation(filled)
        wanted = min(share * corpus.n_tokens, MOST_HELD_OUT)
        n = int(np.searchsorted(np.cumsum(lengths[order]), wanted, side="right"))
        held_out[order[: min(max(n, 1), len(order) - 1)]] = True
    training = ~held_out & (lengths > 0)
    if not training.any():
        raise TrainingError("the corpus has no words to train on")
    return training, held_out
