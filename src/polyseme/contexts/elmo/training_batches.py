"""Training batches of a biLM, which depend on the corpus, the seed and the position only.

A sentence s_1…s_n has boundaries: s_0 = begin, s_{n+1} = end. Forward, s_k is read to predict s_{k+1}; backward,
s_{k+1} to predict s_k: n + 1 predictions in each direction. There are two ways to cut the text into batches:

    sentences   batches of whole sentences of similar length (very long ones in pieces)
    stream      rows of consecutive text, ``unroll`` predictions per row and batch; states are carried over
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from polyseme.contexts.elmo.alphabet import Alphabet
from polyseme.contexts.elmo.bilm import WordInputs
from polyseme.neural.batches import BudgetBatches, Packing
from polyseme.text.corpus import Corpus

BLOCK = 64  # consecutive sentences that a stream keeps together
COUNTED_AT_ONCE = 1 << 20  # words
WAITING = 64  # sentences of a stream from which the rows choose their next one
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PackedBatch:
    """Packed ids of the words to read and to predict, ``(2, N)`` each."""

    inputs: Ints
    targets: Ints
    packing: Packing

    @property
    def n_predictions(self) -> int:
        """The number of predictions in both directions."""
        return self.targets.size

    def share(self, rank: int, of: int) -> tuple[PackedBatch, Ints]:
        """The rows ``rank``, ``rank + of``, … as a batch, and the positions of its tokens in this batch."""
        sizes = np.array(self.packing.sizes, dtype=np.int64)
        packing = Packing.of(self.packing.lengths[rank::of])
        places = (np.cumsum(sizes) - sizes)[packing.time[0]] + rank + of * packing.row
        return PackedBatch(self.inputs[:, places], self.targets[:, places], packing), places


class NumberedText(Protocol):
    """A text as word ids: a Corpus, or sentences in memory."""

    @property
    def all_words(self) -> list[str]: ...

    ids: NDArray[np.int32]
    sentence_offsets: NDArray[np.int64]


class WordTable:
    """The input and the softmax class of every word of a text, by word id; the two sentence boundaries come last."""

    def __init__(self, words: Sequence[str], alphabet: Alphabet, classes: Sequence[str]) -> None:
        """``classes`` are the words of the softmax; the classes unknown, begin and end follow them."""
        self.alphabet, self.classes = alphabet, list(classes)
        number = {word: i for i, word in enumerate(classes)}
        unknown = len(classes)
        self.class_of = np.array([*(number.get(word, unknown) for word in words), unknown + 1, unknown + 2])
        self.tokens = WordInputs.of(alphabet, [*words, alphabet.bos, alphabet.eos])


@dataclass(frozen=True)
class Sentences:
    """A selection of the sentences of a text. Ids are those of the text, followed by the two boundaries."""

    text: NumberedText
    which: Ints

    @property
    def begin(self) -> int:
        """Id of the begin-of-sentence boundary."""
        return len(self.text.all_words)

    @property
    def end(self) -> int:
        """Id of the end-of-sentence boundary."""
        return self.begin + 1

    def lengths(self) -> Ints:
        """The number of words of each sentence."""
        offsets = self.text.sentence_offsets
        return np.asarray(offsets[self.which + 1] - offsets[self.which], dtype=np.int64)

    def ids_at(self, sentence: Ints, k: Ints) -> Ints:
        """The ids s_k in sentences (numbered as in the text), where k = 0 and k = n + 1 are the boundaries."""
        first = self.text.sentence_offsets[sentence]
        length = self.text.sentence_offsets[sentence + 1] - first
        place = np.clip(first + k - 1, 0, max(len(self.text.ids) - 1, 0))
        words = self.text.ids[place].astype(np.int64)
        return np.where(k == 0, self.begin, np.where(k == length + 1, self.end, words))

    def id_counts(self) -> Ints:
        """How often each id is predicted in both directions together."""
        counts = word_counts(self.text.ids, self.end + 1)
        others = np.setdiff1d(np.arange(len(self.text.sentence_offsets) - 1), self.which)
        for sentence in others:  # the few held-out sentences
            start, end = self.text.sentence_offsets[sentence : sentence + 2]
            np.subtract.at(counts, self.text.ids[start:end], 1)
        counts *= 2
        counts[[self.begin, self.end]] = len(self.which)
        return counts


def word_counts(ids: NDArray[np.int32], n: int) -> Ints:
    """How often each of ``n`` ids occurs. Counted in chunks, as NumPy would copy the whole text to 64-bit integers."""
    counts = np.zeros(n, dtype=np.int64)
    for start in range(0, len(ids), COUNTED_AT_ONCE):
        counts += np.bincount(ids[start : start + COUNTED_AT_ONCE], minlength=n)
    return counts


def split(corpus: Corpus, share: float, limit: int) -> tuple[Sentences, Sentences]:
    """Training sentences and held-out sentences; the latter are ``share`` of the text, at most ``limit`` words.

    The choice depends on the corpus alone, so that all training runs are evaluated on the same sentences.
    """
    lengths = np.diff(corpus.sentence_offsets)
    filled = np.flatnonzero(lengths > 0)
    order = np.random.default_rng(20180201).permutation(filled)
    wanted = min(share * corpus.n_tokens, limit)
    n = int(np.searchsorted(np.cumsum(lengths[order]), wanted, side="right"))
    n = min(max(n, 1), len(order) - 1) if share else 0  # at least one sentence, however small the text
    return Sentences(corpus, np.sort(order[n:])), Sentences(corpus, np.sort(order[:n]))


class SentenceBatches:
    """Batches of about ``tokens`` predictions per direction; sentences are shuffled in every epoch."""

    def __init__(self, sentences: Sentences, *, tokens: int, longest: int, seed: int) -> None:
        self.sentences = sentences
        # A piece is the predictions first … first + size of a sentence. Each prediction is in exactly one piece.
        predictions = sentences.lengths() + 1
        pieces = -(-predictions // longest)
        self.sentence = np.repeat(sentences.which, pieces)
        number = np.arange(len(self.sentence)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        even = np.repeat(-(-predictions // pieces), pieces)  # pieces of one sentence are about equally long
        self.first = number * even
        self.size = np.minimum(np.repeat(predictions, pieces) - self.first, even)
        self.pieces = BudgetBatches(self.size, tokens=tokens, seed=seed)

    def n_steps(self, epoch: int) -> int:
        """The number of batches in an epoch."""
        return self.pieces.n_steps(epoch)

    def batch(self, epoch: int, index: int) -> PackedBatch:
        """A batch of pieces of similar length, the longest first."""
        return self.packed(self.pieces.rows(epoch, index))

    def in_order(self) -> Iterator[PackedBatch]:
        """Batches of all pieces, sorted by length."""
        return map(self.packed, self.pieces.in_order())

    def packed(self, pieces: Ints) -> PackedBatch:
        """A batch of these pieces."""
        packing = Packing.of(self.size[pieces])
        row = pieces[packing.row]
        place = self.first[row][None] + packing.time  # (2, N) of the earlier of the two words
        sentence = np.broadcast_to(self.sentence[row], place.shape)
        earlier, later = self.sentences.ids_at(sentence, place), self.sentences.ids_at(sentence, place + 1)
        inputs, targets = np.stack([earlier[0], later[1]]), np.stack([later[0], earlier[1]])
        return PackedBatch(inputs, targets, packing)


class StreamBatches:
    """Rows of concatenated sentences, as bilm-tf trains: a batch has ``unroll`` predictions of every row.

    Blocks of sentences are shuffled in every epoch, and each row takes its next sentence from a few waiting ones. It
    prefers a sentence that ends where a batch ends: then both directions read the same words, and a batch has fewer
    distinct words for the character CNN (a seventh fewer than with rows of text that are far apart).
    """

    def __init__(self, sentences: Sentences, *, rows: int, unroll: int, seed: int) -> None:
        self.sentences, self.rows, self.unroll, self.seed = sentences, rows, unroll, seed
        self.predictions = sentences.lengths() + 1
        self.packing = Packing.of([unroll] * rows)
        self._plan = lru_cache(maxsize=2)(self._make_plan)

    def n_steps(self, epoch: int) -> int:
        """The number of batches in an epoch; text that does not fill a batch is left out of this epoch."""
        return self._plan(epoch).n_steps

    def batch(self, epoch: int, index: int) -> PackedBatch:
        """Predictions ``index·unroll …`` of every row. The backward direction reads each sentence reversed in place."""
        plan = self._plan(epoch)
        time = np.arange(index * self.unroll, (index + 1) * self.unroll)
        place = (time[:, None] + np.arange(self.rows)[None] * plan.span).reshape(-1)  # all rows of step 0, of step 1, …
        which = np.searchsorted(plan.starts, place, side="right") - 1
        k = place - plan.starts[which]
        sentence = self.sentences.which[plan.order[which]]
        mirrored = self.predictions[plan.order[which]] - 1 - k
        at = self.sentences.ids_at
        inputs = np.stack([at(sentence, k), at(sentence, mirrored + 1)])
        targets = np.stack([at(sentence, k + 1), at(sentence, mirrored)])
        return PackedBatch(inputs, targets, self.packing)

    def _make_plan(self, epoch: int) -> _StreamPlan:
        random = np.random.default_rng((self.seed, epoch))
        n = len(self.predictions)
        blocks = [np.arange(i, min(i + BLOCK, n)) for i in range(0, n, BLOCK)]
        order = np.concatenate([blocks[i] for i in random.permutation(len(blocks))]) if blocks else np.arange(0)
        lists = _dealt(order.tolist(), self.predictions[order].tolist(), self.rows, self.unroll)
        totals = [int(self.predictions[row].sum()) for row in lists]
        span = max(totals, default=0) + 1
        starts = [np.cumsum(self.predictions[row]) - self.predictions[row] + r * span for r, row in enumerate(lists)]
        return _StreamPlan(np.concatenate(lists), np.concatenate(starts), span, min(totals) // self.unroll)


class _StreamPlan(NamedTuple):
    order: Ints  # sentences, row after row
    starts: Ints  # position where each begins; rows are ``span`` apart
    span: int
    n_steps: int


def _dealt(order: list[int], sizes: list[int], rows: int, unroll: int) -> list[Ints]:
    """Distribute sentences over rows, batch by batch, so that many end where a batch ends."""
    waiting: dict[int, deque[int]] = {}  # the next sentences, by size
    coming = iter(zip(order, sizes, strict=True))

    def refill(count: int) -> int:
        for sentence, size in islice(coming, count):
            waiting.setdefault(size, deque()).append(sentence)
            count -= 1
        return count

    def chosen(free: int) -> int:
        if free in waiting:
            return free
        fitting = [size for size in waiting if free - size in waiting and (2 * size != free or len(waiting[size]) > 1)]
        return max(fitting or waiting)

    lists: list[list[int]] = [[] for _ in range(rows)]
    over = [0] * rows  # predictions of each row that reach into the next batch
    missing = refill(WAITING)
    while waiting:
        for row in range(rows):
            while over[row] < unroll and waiting:
                size = chosen(unroll - over[row])
                lists[row].append(waiting[size].popleft())
                if not waiting[size]:
                    del waiting[size]
                over[row] += size
                missing = refill(missing + 1)
            over[row] -= min(unroll, over[row])
    return [np.array(row, dtype=np.int64) for row in lists]
