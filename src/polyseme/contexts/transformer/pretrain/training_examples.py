"""Training examples, created during training: segments of a stream, and pairs of segments of a document.

An example depends only on the seed, the epoch and its number. An epoch goes over the text once; each starts at another
position, so that the text is cut differently every time.

Masking 遮盖: which subwords of an example are predicted, and what replaces them.

Of the 15 % that are chosen, 80 % become [MASK], 10 % stay and 10 % become a random subword (Devlin et al. 2018). The
units are single subwords, whole words, or one to three consecutive words with p(n) ∝ 1/n (Lan et al. 2019). Words are
those of the corpus segmentation, so that both characters of 电话 are masked or neither. Units that would exceed the
wanted number are skipped.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from polyseme.contexts.transformer.pretrain.corpus_tokens import FEW_DOCUMENTS, PieceCorpus, TokenRun
from polyseme.contexts.transformer.tokenizer import Ints

log = logging.getLogger(__name__)

SHORT = 0.1  # share of pairs that are shorter than the maximum
FEW_TRUE = 0.1  # with a smaller share of true pairs, next-sentence prediction learns little but "no"
FEW_PAIRS = 20  # among fewer, the share of true pairs is left to chance
BLOCK = 20  # sentences that count as a document in a text with few documents


class Example(NamedTuple):
    """Subwords, the word of each (-1: none), the segment of each (0 or 1), and the label of a pair."""

    ids: Ints
    words: Ints
    types: Ints
    label: int = -1  # 0: B follows A; 1: it does not; -1: no pair
    languages: Ints | None = None  # of each subword, if the network has language embeddings
    positions: Ints | None = None  # if they are not simply 0, 1, 2, …


class TrainingExamples(Protocol):
    """Examples by epoch and number; epoch -1 is always the same, for held-out text."""

    def n_examples(self, epoch: int) -> int: ...

    def example(self, epoch: int, number: int) -> Example: ...


class StreamExamples:
    """Consecutive segments of ``room`` subwords, with the special tokens ``before`` and ``behind`` around each."""

    def __init__(self, text: PieceCorpus, *, room: int, before: list[int], behind: list[int], seed: int) -> None:
        self.text, self.room, self.before, self.behind, self.seed = text, room, before, behind, seed
        self._starts = lru_cache(maxsize=2)(self._make_starts)

    def n_examples(self, epoch: int) -> int:
        """The number of examples that cover the text."""
        return -(-self.text.n_pieces // self.room)

    def example(self, epoch: int, number: int) -> Example:
        """The example with this number; the text wraps around at its end, unless ``epoch`` is -1."""
        n, start = self.text.n_pieces, int(self._starts(epoch)[number])
        end = start + min(self.room, n)
        parts = [self.text.stretch(start, min(end, n))]
        if end > n and epoch >= 0:
            parts.append(self.text.stretch(0, end - n))
        return wrapped([joined(parts)], self.before, self.behind)

    def _make_starts(self, epoch: int) -> Ints:
        starts = np.arange(self.n_examples(epoch)) * self.room
        if epoch < 0:
            return starts
        random = np.random.default_rng((self.seed, epoch, 0))
        shift = int(random.integers(self.text.n_pieces)) if epoch else 0
        return random.permutation((starts + shift) % self.text.n_pieces)


class PairExamples:
    """Pairs of consecutive segments A and B; in half of them B is from another document (``nsp``) or swapped (``sop``).

    As in google-research/bert: a chunk of sentences that fills the length (sometimes a shorter one) is cut at a random
    sentence. If B is from another document, the unused rest of the chunk is used in the next pairs.
    """

    def __init__(self, text: PieceCorpus, *, kind: str, room: int, cls: int, sep: int, seed: int) -> None:
        self.text, self.kind, self.room, self.cls, self.sep, self.seed = text, kind, room, cls, sep, seed
        self._plan = lru_cache(maxsize=2)(self._make_plan)

    def n_examples(self, epoch: int) -> int:
        """The number of pairs, which differs a little from epoch to epoch."""
        return len(self._plan(epoch))

    def example(self, epoch: int, number: int) -> Example:
        """The example with this number."""
        (a_first, a_last), (b_first, b_last), label = self._plan(epoch)[number]
        random = np.random.default_rng((self.seed, max(epoch, 0), number, 2))
        a, b = self.text.sentences_between(a_first, a_last), self.text.sentences_between(b_first, b_last)
        if label == 1 and self.kind == "sop":
            a, b = b, a
        a, b = truncated(a, b, self.room, random)
        return wrapped([a, b], [self.cls], [self.sep], label)

    def _make_plan(self, epoch: int) -> list[tuple[tuple[int, int], tuple[int, int], int]]:
        random = np.random.default_rng((self.seed, max(epoch, 0), 1))
        ends = _documents(self.text.document_ends)
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        plan = []
        for document in range(len(ends)):
            plan += self._of_document(int(starts[document]), int(ends[document]), starts, ends, random)
        true = sum(label == 0 for _, _, label in plan)
        if self.kind == "nsp" and epoch == 0 and len(plan) >= FEW_PAIRS and true < FEW_TRUE * len(plan):
            log.warning(
                "only %d of %d pairs are consecutive sentences, because most documents have one: use pairs=none",
                true, len(plan),
            )  # fmt: skip
        order = random.permutation(len(plan)) if epoch >= 0 else range(len(plan))
        return [plan[n] for n in order]

    def _of_document(
        self, first: int, last: int, starts: Ints, ends: Ints, random: np.random.Generator
    ) -> list[tuple[tuple[int, int], tuple[int, int], int]]:
        pairs = []
        sizes = self.text.sizes
        place = first
        while place < last:
            wanted = self.room if random.random() >= SHORT else int(random.integers(2, max(self.room, 3)))
            end, size = place, 0
            while end < last and size < wanted:
                size += int(sizes[end])
                end += 1
            n = end - place
            cut = place + (int(random.integers(1, n)) if n > 1 else 1)
            if self.kind == "nsp" and len(ends) > 1 and (n == 1 or random.random() < 0.5):
                rest = wanted - int(sizes[place:cut].sum())
                pairs.append(((place, cut), self._elsewhere(first, rest, starts, ends, random), 1))
                place = cut  # the rest is used again
                continue
            if n > 1:
                swapped = int(self.kind == "sop" and random.random() < 0.5)
                pairs.append(((place, cut), (cut, end), swapped))
            place = end
        return pairs

    def _elsewhere(
        self, first: int, wanted: int, starts: Ints, ends: Ints, random: np.random.Generator
    ) -> tuple[int, int]:
        """The range of sentences of another document, from a random sentence on: at least one."""
        other = int(random.integers(len(ends) - 1))
        other += int(starts[other] >= first)
        begin = int(random.integers(starts[other], ends[other]))
        end, size = begin + 1, int(self.text.sizes[begin])
        while end < ends[other] and size < wanted:
            size += int(self.text.sizes[end])
            end += 1
        return begin, end


def _documents(ends: Ints) -> Ints:
    """The ends of documents; a text with few of them is divided into blocks, so that there are others to draw from."""
    if len(ends) >= FEW_DOCUMENTS or not len(ends):
        return ends
    return np.union1d(ends, np.arange(BLOCK, int(ends[-1]), BLOCK))


def joined(parts: list[TokenRun]) -> TokenRun:
    """Concatenates stretches; word numbers continue from one to the next."""
    if len(parts) == 1:
        return parts[0]
    words, known = [], 0
    for part in parts:
        words.append(np.where(part.words >= 0, part.words + known, -1))
        known += int(part.words.max(initial=-1)) + 1
    return TokenRun(np.concatenate([part.ids for part in parts]), np.concatenate(words))


def wrapped(parts: list[TokenRun], before: list[int], behind: list[int], label: int = -1) -> Example:
    """The example ``before`` A ``behind`` B ``behind``; special tokens do not count as words."""
    ids, words, types = [np.array(before, dtype=np.int64)], [np.full(len(before), -1)], [np.zeros(len(before))]
    known = 0
    for number, part in enumerate(parts):
        ids += [part.ids, np.array(behind, dtype=np.int64)]
        words += [np.where(part.words >= 0, part.words + known, -1), np.full(len(behind), -1)]
        types.append(np.full(len(part.ids) + len(behind), number))
        known += int(part.words.max(initial=-1)) + 1
    return Example(
        np.concatenate(ids), np.concatenate(words).astype(np.int64), np.concatenate(types).astype(np.int64), label
    )


def truncated(a: TokenRun, b: TokenRun, room: int, random: np.random.Generator) -> tuple[TokenRun, TokenRun]:
    """Truncate the longer of the two, subword by subword at a random end, until both fit into ``room``."""
    n_a, n_b = len(a.ids), len(b.ids)
    excess = n_a + n_b - room
    if excess <= 0:
        return a, b
    level = min(excess, abs(n_a - n_b))  # first cut the longer one to the length of the other
    rest = excess - level
    longer, shorter = (level + (rest + 1) // 2, rest // 2)
    off_a, off_b = (longer, shorter) if n_a >= n_b else (shorter, longer)
    return _cut(a, off_a, random), _cut(b, off_b, random)


def _cut(part: TokenRun, off: int, random: np.random.Generator) -> TokenRun:
    front = int(random.binomial(off, 0.5)) if off else 0
    kept = slice(front, len(part.ids) - (off - front))
    return TokenRun(part.ids[kept], part.words[kept])


LONGEST_NGRAM = 3


@dataclass(frozen=True)
class Masking:
    """How subwords are chosen and replaced."""

    unit: str  # token | word | ngram
    share: float
    masked: float  # of the chosen, the share that is masked
    kept: float  # … that is masked or kept
    mask: int
    ordinary: Ints  # the possible random replacements: all subwords but special tokens

    def choose(self, words: Ints, size: int, random: np.random.Generator) -> Ints:
        """The chosen positions, sorted. ``words``: the word of each position (-1: none); ``size``: their number."""
        wanted = max(1, round(self.share * size))
        if self.unit == "token":
            places = np.flatnonzero(words >= 0)
            return np.sort(random.permutation(places)[:wanted])
        groups = _groups(words)
        if self.unit == "ngram":
            groups = _joined(groups, random)
        chosen: list[Ints] = []
        n_chosen = 0
        for number in random.permutation(len(groups)):
            group = groups[number]
            if n_chosen + len(group) <= wanted:
                chosen.append(group)
                n_chosen += len(group)
                if n_chosen == wanted:
                    break
        if not chosen and groups:  # every word is longer than the wanted number: take part of one
            chosen.append(groups[int(random.integers(len(groups)))][:wanted])
        return np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, dtype=np.int64)

    def replaced(self, ids: Ints, random: np.random.Generator) -> Ints:
        """The replacements of the chosen subwords ``ids``."""
        draw = random.random(len(ids))
        others = self.ordinary[random.integers(len(self.ordinary), size=len(ids))]
        return np.where(draw < self.masked, self.mask, np.where(draw < self.kept, ids, others))


def _groups(words: Ints) -> list[Ints]:
    """The positions of each word, in order."""
    places = np.flatnonzero(words >= 0)
    if not len(places):
        return []
    numbers = words[places]
    edges = np.flatnonzero((numbers[1:] != numbers[:-1]) | (places[1:] != places[:-1] + 1)) + 1
    return np.split(places, edges)


def _joined(groups: list[Ints], random: np.random.Generator) -> list[Ints]:
    """Join the words of a text into groups of one to three."""
    weights: NDArray[np.float64] = 1 / np.arange(1, LONGEST_NGRAM + 1)
    lengths = random.choice(LONGEST_NGRAM, size=len(groups), p=weights / weights.sum()) + 1
    spans, place = [], 0
    for n in lengths.tolist():
        if place >= len(groups):
            break
        spans.append(np.concatenate(groups[place : place + n]))
        place += n
    return spans
