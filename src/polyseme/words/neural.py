"""Word vectors that are the first layer of a torch network, kept with them; and the windows of text that train it.

The methods of this kind are NNLM and Polyglot.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Ints
from polyseme.errors import TrainingError
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors, vocabulary_of
from polyseme.words.vocabulary_plan import WordPlan, older_rows

if TYPE_CHECKING:
    from torch import nn
    from typing_extensions import Self


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

    def before(self, places: Ints, n: int) -> Ints:
        """The ``n`` words before each place, nearest first; all boundaries beyond the first: ``(m,) -> (m, n)``."""
        return self._beside(places[:, None] - np.arange(1, n + 1))

    def after(self, places: Ints, n: int) -> Ints:
        """The ``n`` words after each place, likewise."""
        return self._beside(places[:, None] + np.arange(1, n + 1))

    def _beside(self, at: Ints) -> Ints:
        neighbours = self.numbers[np.clip(at, 0, len(self.numbers) - 1)].astype(np.int64)
        outside = np.logical_or.accumulate(neighbours == self.boundary, axis=1)
        return np.where(outside, self.boundary, neighbours)


def _with_boundaries(joined: NDArray[np.int32], lengths: Ints, boundary: int) -> NDArray[np.int32]:
    row = np.full(len(joined) + len(lengths) + 1, boundary, dtype=np.int32)
    row[np.arange(len(joined)) + np.repeat(np.arange(1, len(lengths) + 1), lengths)] = joined
    return row


class Batches:
    """Batches of positions in a text, shuffled anew in each epoch; runs of neighbours stay together."""

    def __init__(self, places: Ints, size: int, seed: int) -> None:
        self.places, self.size, self.seed = places, size, seed
        self.run = max(1, min(RUN, size // 8))
        self._order = lru_cache(maxsize=2)(self._shuffled)

    def __len__(self) -> int:
        runs = -(-len(self.places) // self.run)  # the last of which may be short
        return -(-runs * self.run // self.size)

    def __call__(self, epoch: int, index: int) -> Ints:
        """The positions of batch ``index`` in an epoch."""
        runs = self._order(epoch)[index * self.size // self.run : -(-(index + 1) * self.size // self.run)]
        first = index * self.size % self.run
        picked = (runs[:, None] * self.run + np.arange(self.run)).ravel()[first : first + self.size]
        return np.asarray(self.places[picked[picked < len(self.places)]])

    def _shuffled(self, epoch: int) -> Ints:
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


class NeuralVectors(WordVectors):
    """``module.words`` has the vectors of the vocabulary, then those of the unknown word and the sentence boundary."""

    computes_with: ClassVar[str] = "torch"
    by_class: ClassVar[tuple[str, ...]] = ("words.weight",)  # weights with a row for each word and special
    module: Any

    def __init__(self, vocabulary: Vocabulary, module: nn.Module, *, options: Any, about: About, counts: Ints) -> None:
        self.module: Any = module.eval()
        vectors = self.module.words.weight.detach().numpy()[: len(vocabulary)]
        super().__init__(vocabulary, vectors, options=options, about=about)
        self.class_counts = counts  # (V + SPECIALS,)

    @classmethod
    @abstractmethod
    def network(cls, n_words: int, options: Any) -> nn.Module:
        """The network, with random weights."""

    @classmethod
    def take_over(cls, module: nn.Module, plan: WordPlan, start: WordVectors, fresh: Collection[str] = ()) -> None:
        """Start from the vectors of an older model, and if it is of the same class from its other weights that fit.

        The weights named in ``fresh`` stay as they are.
        """
        import torch

        known = torch.from_numpy(np.flatnonzero(plan.old_rows >= 0))
        old = torch.from_numpy(plan.old_rows[plan.old_rows >= 0])
        weights = module.state_dict()
        with torch.no_grad():
            weights["words.weight"][known] = torch.from_numpy(np.array(older_rows(start)))[old]
            if type(start) is not cls:
                return
            for name, tensor in start.module.state_dict().items():
                if name in fresh:
                    continue
                if name in cls.by_class and weights[name].shape[1:] == tensor.shape[1:]:
                    weights[name][known] = tensor[old]
                    weights[name][-SPECIALS:] = tensor[-SPECIALS:]
                elif weights[name].shape == tensor.shape:
                    weights[name].copy_(tensor)

    def parts(self) -> Parts:
        """The weights by their names in the module, and the counts of words and classes."""
        from polyseme.neural.weights import arrays_of

        counts = {"counts": self.vocabulary.counts, "class_counts": self.class_counts}
        return Parts({**arrays_of(self.module), **counts}, {"vocab": self.index_to_key})

    @classmethod
    def from_parts(cls, options: Any, parts: Parts, about: About) -> Self:
        from polyseme.neural.weights import with_weights

        vocabulary = vocabulary_of(parts)
        counts = parts.tensor("class_counts", (len(vocabulary) + SPECIALS,))
        weights = {name: array for name, array in parts.tensors.items() if name not in ("counts", "class_counts")}
        module = with_weights(lambda: cls.network(len(vocabulary), options), weights)
        return cls(vocabulary, module, options=options, about=about, counts=np.asarray(counts, dtype=np.int64))


def class_counts(vocabulary: Vocabulary, stream: NDArray[np.int32], start: WordVectors | None) -> Ints:
    """The counts of all words, then of unknown words and of boundaries in the stream and in that of an older model."""
    specials = [int((stream == number).sum()) for number in range(len(vocabulary), len(vocabulary) + SPECIALS)]
    older = start.class_counts[-SPECIALS:] if isinstance(start, NeuralVectors) else 0
    return np.append(vocabulary.counts, np.array(specials) + older)
