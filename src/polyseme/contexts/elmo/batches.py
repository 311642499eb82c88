"""Batches for a biLM, made of a corpus and a position alone.

A sentence s_1…s_n is between its boundaries: s_0 = begin, s_{n+1} = end. Forward, s_k is read to predict s_{k+1};
backward, s_{k+1} to predict s_k: n + 1 predictions each way. Two ways to cut the text into batches:

    sentences   whole sentences (the longest in overlapping pieces), batches of sentences of about one length
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
from polyseme.contexts.elmo.bilm import Tokens
from polyseme.neural.batches import BudgetBatches
from polyseme.neural.packing import Packing
from polyseme.text.corpus import Corpus

BLOCK = 64  # consecutive sentences that a stream keeps together
COUNTED_AT_ONCE = 1 << 20  # words
WAITING = 64  # sentences of a stream among which the rows choose
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Word ids to read and to predict, ``(2, N)`` each, packed."""

    inputs: Ints
    targets: Ints
    packing: Packing

    @property
    def n_predictions(self) -> int:
        """The number of predictions in both directions."""
        return self.targets.size

    def share(self, rank: int, of: int) -> tuple[Batch, Ints]:
        """Every ``of``-th row from the ``rank``-th on, and where its tokens lie among those of this batch."""
        sizes = np.array(self.packing.sizes, dtype=np.int64)
        packing = Packing.of(self.packing.lengths[rank::of])
        places = (np.cumsum(sizes) - sizes)[packing.time[0]] + rank + of * packing.row
        return Batch(self.inputs[:, places], self.targets[:, places], packing), places


class Numbered(Protocol):
    """Text as words by number: a Corpus, or sentences in memory."""

    @property
    def all_words(self) -> list[str]: ...

    ids: NDArray[np.int32]
    sentence_offsets: NDArray[np.int64]


class WordTable:
    """Every word of a text by its number there: how it is read, and its class. Two sentence boundaries follow them."""

    def __init__(self, words: Sequence[str], alphabet: Alphabet, classes: Sequence[str]) -> None:
        """``classes`` are the words of the softmax; unknown, begin and end follow them."""
        self.alphabet, self.classes = alphabet, list(classes)
        number = {word: i for i, word in enumerate(classes)}
        unknown = len(classes)
        self.class_of = np.array([*(number.get(word, unknown) for word in words), unknown + 1, unknown + 2])
        self.tokens = Tokens.of(alphabet, [*words, alphabet.bos, alphabet.eos])


@dataclass(frozen=True)
class Sentences:
    """Some sentences of a text. Ids are the text's own; after them come the two boundaries."""

    text: Numbered
    which: Ints

    @property
    def begin(self) -> int:
        """Id of a sentence's beginning."""
        return len(self.text.all_words)

    @property
    def end(self) -> int:
        """Id of a sentence's end."""
        return self.begin + 1

    def lengths(self) -> Ints:
        """Words of each sentence."""
        offsets = self.text.sentence_offsets
        return np.asarray(offsets[self.which + 1] - offsets[self.which], dtype=np.int64)

    def ids_at(self, sentence: Ints, k: Ints) -> Ints:
        """The ids s_k of sentences (numbers in the corpus), boundaries included."""
        first = self.text.sentence_offsets[sentence]
        length = self.text.sentence_offsets[sentence + 1] - first
        place = np.clip(first + k - 1, 0, max(len(self.text.ids) - 1, 0))
        words = self.text.ids[place].astype(np.int64)
        return np.where(k == 0, self.begin, np.where(k == length + 1, self.end, words))

    def id_counts(self) -> Ints:
        """How often each id is to be predicted, both directions together."""
        counts = word_counts(self.text.ids, self.end + 1)
        others = np.setdiff1d(np.arange(len(self.text.sentence_offsets) - 1), self.which)
        for sentence in others:  # the few held out
            start, end = self.text.sentence_offsets[sentence : sentence + 2]
            np.subtract.at(counts, self.text.ids[start:end], 1)
        counts *= 2
        counts[[self.begin, self.end]] = len(self.which)
        return counts


def word_counts(ids: NDArray[np.int32], n: int) -> Ints:
    """How often each of ``n`` ids occurs. In pieces: NumPy would make 8 bytes of every word of the text at once."""
    counts = np.zeros(n, dtype=np.int64)
    for start in range(0, len(ids), COUNTED_AT_ONCE):
        counts += np.bincount(ids[start : start + COUNTED_AT_ONCE], minlength=n)
    return counts


def split(corpus: Corpus, share: float, limit: int) -> tuple[Sentences, Sentences]:
    """Sentences to train on and to hold out: ``share`` of the text, ``limit`` words at most.

    The choice depends on the corpus alone, so that different trainings are scored on the same sentences.
    """
    lengths = np.diff(corpus.sentence_offsets)
    filled = np.flatnonzero(lengths > 0)
    order = np.random.default_rng(20180201).permutation(filled)
    wanted = min(share * corpus.n_tokens, limit)
    n = int(np.searchsorted(np.cumsum(lengths[order]), wanted, side="right"))
    n = min(max(n, 1), len(order) - 1) if share else 0  # one sentence at least, however small the text
    return Sentences(corpus, np.sort(order[n:])), Sentences(corpus, np.sort(order[:n]))


class SentenceBatches:
    """Batches of ``tokens`` predictions (each way), sentences shuffled in every epoch."""

    def __init__(self, sentences: Sentences, *, tokens: int, longest: int, seed: int) -> None:
        self.sentences = sentences
        # Pieces: predictions first … first + size of a sentence. Each prediction is in exactly one piece.
        predictions = sentences.lengths() + 1
        pieces = -(-predictions // longest)
        self.sentence = np.repeat(sentences.which, pieces)
        number = np.arange(len(self.sentence)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        even = np.repeat(-(-predictions // pieces), pieces)  # pieces of one sentence are about equally long
        self.first = number * even
        self.size = np.minimum(np.repeat(predictions, pieces) - self.first, even)
        self.pieces = BudgetBatches(self.size, tokens=tokens, seed=seed)

    def n_steps(self, epoch: int) -> int:
        """Batches of an epoch."""
        return self.pieces.n_steps(epoch)

    def batch(self, epoch: int, index: int) -> Batch:
        """A batch of pieces of about one length, the longest first."""
        return self.packed(self.pieces.rows(epoch, index))

    def in_order(self) -> Iterator[Batch]:
        """Every piece once, sorted by length."""
        return map(self.packed, self.pieces.in_order())

    def packed(self, pieces: Ints) -> Batch:
        """A batch of these pieces."""
        packing = Packing.of(self.size[pieces])
        row = pieces[packing.row]
        place = self.first[row][None] + packing.time  # (2, N) of the earlier of the two words
        sentence = np.broadcast_to(self.sentence[row], place.shape)
        earlier, later = self.sentences.ids_at(sentence, place), self.sentences.ids_at(sentence, place + 1)
        inputs, targets = np.stack([earlier[0], later[1]]), np.stack([later[0], earlier[1]])
        return Batch(inputs, targets, packing)


class StreamBatches:
    """Rows of sentences laid end to end, as bilm-tf trains: ``unroll`` predictions of every row make a batch.

    Blocks of sentences are shuffled in every epoch, and the rows take theirs from a few that come next. Which row
    takes which is free, so sentences are chosen that end where a batch ends: then both directions read the same words,
    and a batch has fewer distinct ones to spell (a seventh fewer than in rows of text that are far apart).
    """

    def __init__(self, sentences: Sentences, *, rows: int, unroll: int, seed: int) -> None:
        self.sentences, self.rows, self.unroll, self.seed = sentences, rows, unroll, seed
        self.predictions = sentences.lengths() + 1
        self.packing = Packing.of([unroll] * rows)
        self._plan = lru_cache(maxsize=2)(self._make_plan)

    def n_steps(self, epoch: int) -> int:
        """Batches of an epoch; what does not fill one is left for another epoch."""
        return self._plan(epoch).n_steps

    def batch(self, epoch: int, index: int) -> Batch:
        """Predictions ``index·unroll …`` of every row. Backward, each sentence is turned round where it stands."""
        plan = self._plan(epoch)
        time = np.arange(index * self.unroll, (index + 1) * self.unroll)
        place = (time[:, None] + np.arange(self.rows)[None] * plan.span).reshape(-1)  # step by step, all rows
        which = np.searchsorted(plan.starts, place, side="right") - 1
        k = place - plan.starts[which]
        sentence = self.sentences.which[plan.order[which]]
        mirrored = self.predictions[plan.order[which]] - 1 - k
        at = self.sentences.ids_at
        inputs = np.stack([at(sentence, k), at(sentence, mirrored + 1)])
        targets = np.stack([at(sentence, k + 1), at(sentence, mirrored)])
        return Batch(inputs, targets, self.packing)

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
    starts: Ints  # of each in its row; rows lie ``span`` apart
    span: int
    n_steps: int


def _dealt(order: list[int], sizes: list[int], rows: int, unroll: int) -> list[Ints]:
    """Deal sentences to rows, batch by batch, so that many end where a batch ends."""
    waiting: dict[int, deque[int]] = {}  # by size, the sentences that come next
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
    over = [0] * rows  # predictions of a row's last sentence that reach into the next batch
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
