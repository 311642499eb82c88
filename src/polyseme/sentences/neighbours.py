"""Encoders trained on the order of sentences 相邻句编码器: quick-thought.

Logeswaran and Lee, "An efficient framework for learning sentence representations", ICLR 2018. Two encoders f and g,
each with its own word vectors, encode consecutive sentences of a text; for each sentence, the model picks its
neighbours among all sentences of the batch:

    p(s' | s) = exp(f(s)·g(s')) / Σ_{s'' ≠ s} exp(f(s)·g(s''))        vector of s = [f(s); g(s)]

A sentence with two neighbours has both as targets, each with weight ½. What differs from the authors' program: the
sentence itself is not a candidate (theirs gives it a score of 0), and neighbours must be in the same document.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.errors import OptionError, TrainingError
from polyseme.interfaces import FloatArray
from polyseme.neural.recurrent import Recurrent
from polyseme.sentences.infersent import given_vectors
from polyseme.sentences.inputs import PreparedTexts
from polyseme.sentences.learned import EncoderNet, LearnedEncoder
from polyseme.sentences.modules import Encoding, TextModule, Tokens
from polyseme.sentences.options import QUICK_DIM, QuickThoughtOptions
from polyseme.sentences.token_vectors import Ints
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.training.loop import fit
from polyseme.training.run import Run
from polyseme.training.task import BatchTask, Part, Score

if TYPE_CHECKING:
    from typing_extensions import Self

HELD_OUT_BATCHES = 20  # at most
REPORT_BATCHES = 500  # between two reports, if an epoch is longer


class TwinModule(TextModule):
    """Two recurrent encoders, concatenated; if ``apart``, each reads its own half of every token vector."""

    def __init__(self, dim: int, options: QuickThoughtOptions, *, apart: bool) -> None:
        super().__init__()
        self.apart = apart
        if apart and dim % 2:
            raise OptionError(f"dim must be even, half of it for each encoder, not {dim}")
        size = dim // 2 if apart else dim
        make = {"kind": "gru", "bidirectional": options.bidirectional}
        self.of_sentence = Recurrent(size, options.hidden, **make)  # type: ignore[arg-type]
        self.of_candidate = Recurrent(size, options.hidden, **make)  # type: ignore[arg-type]
        self.dim = 2 * self.of_sentence.dim

    def forward(self, tokens: Tokens) -> Encoding:
        halves = tokens.x.chunk(2, dim=2) if self.apart else (tokens.x, tokens.x)
        encoders = (self.of_sentence, self.of_candidate)
        found = [one.last_of(one(half, tokens.mask)[1]) for one, half in zip(encoders, halves, strict=True)]
        return Encoding(torch.cat(found, dim=1))


class QuickThought(LearnedEncoder):
    """Two encoders trained to pick the neighbours of sentences."""

    method: ClassVar[str] = "quick-thought"
    Options: ClassVar[type] = QuickThoughtOptions

    @classmethod
    def make_module(cls, options: QuickThoughtOptions, dim: int, beside: int) -> TwinModule:
        return TwinModule(dim, options, apart=options.word_vectors is None)

    @classmethod
    def train(cls, data: Corpus, options: QuickThoughtOptions, run: Run) -> Self:
        """Train on the order of the sentences of a corpus."""
        if options.dim is None and options.word_vectors is None:
            options = replace(options, dim=QUICK_DIM)
        stories = Stories.of(data, options.max_sentences, options.longest)
        about = About(data.segmentation, data.facts, run.curve)
        encoder = cls.of(stories.texts, given_vectors(run, options.word_vectors), about, options)
        task = NeighbourTask(encoder.net, encoder.prepare(stories.texts, run.progress), stories.documents, options)
        fit(task, options, run)
        encoder.net.eval()
        return encoder


class Stories:
    """Sentences in order, and the number of each one's document."""

    def __init__(self, texts: list[list[str]], documents: Ints) -> None:
        self.texts, self.documents = texts, documents

    @classmethod
    def of(cls, corpus: Corpus, most: int, longest: int) -> Stories:
        """The first ``most`` sentences of a corpus, cut to ``longest`` words."""
        chosen = np.flatnonzero(np.diff(corpus.sentence_offsets) > 0)[:most]  # those with words
        if len(chosen) < 2:
            raise TrainingError("the corpus has no two sentences to learn from")
        documents = corpus.sentence_documents[chosen]
        if not (documents[1:] == documents[:-1]).any():
            raise TrainingError("no document of the corpus has two consecutive sentences to learn from")
        return cls([corpus.sentence(int(number))[:longest] for number in chosen], documents)

    def neighbours(self, rows: Ints, step: int, end: int) -> Ints:
        """Which of ``rows`` have a sentence of the same document at ``row + step``, before ``end``."""
        there = rows + step
        inside = (there >= 0) & (there < end)
        found = np.zeros(len(rows), dtype=bool)
        found[inside] = self.documents[there[inside]] == self.documents[rows[inside]]
        return np.flatnonzero(found)


class NeighbourTask(BatchTask):
    """Training: in batches of consecutive sentences, pick the neighbours of each among the batch."""

    module: EncoderNet
    unit = "sentences"

    def __init__(self, net: EncoderNet, texts: PreparedTexts, documents: Ints, options: QuickThoughtOptions) -> None:
        self.module, self.texts, self.documents, self.options = net, texts, documents, options
        n_batches = -(-len(documents) // options.batch_size)
        self.n_held_out = min(round(options.hold_out * n_batches), HELD_OUT_BATCHES)
        self.last = len(documents) - self.n_held_out * options.batch_size  # what follows is held out
        self.reports = max(1, round(n_batches / REPORT_BATCHES))
        self._starts = lru_cache(maxsize=2)(self._make_starts)

    def _make_starts(self, epoch: int) -> Ints:
        """Where batches begin, with another shift and order in each epoch."""
        random = np.random.default_rng((self.options.seed, epoch))
        size = self.options.batch_size
        first = int(random.integers(min(size, max(self.last - 1, 1)))) if epoch and self.last > size else 0
        return random.permutation(np.arange(first, max(self.last - 1, 1), size))

    def n_steps(self, epoch: int) -> int:
        return len(self._starts(epoch))

    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        start = int(self._starts(epoch)[index])
        rows = np.arange(start, min(start + self.options.batch_size, self.last))
        if part.rank:  # a batch cannot be divided: all its sentences are candidates for each of them
            return torch.zeros(()), 0
        total, n, _ = self._choices(self.module, rows)
        return total, n

    def _choices(self, net: nn.Module, rows: Ints) -> tuple[Tensor, int, int]:
        """The sum of losses, the number of sentences with neighbours, and how many have one ranked first."""
        vectors = net(self.texts.batch(rows).to(self.device)).vectors
        f, g = vectors.chunk(2, dim=1)
        logits = (f @ g.t()).fill_diagonal_(-torch.inf)
        targets = torch.from_numpy(neighbour_targets(self.documents[rows])).to(self.device)
        some = targets.sum(dim=1) > 0
        if not bool(some.any()):
            return vectors.sum() * 0, 0, 0
        chances = torch.log_softmax(logits[some], dim=1)
        wanted = targets[some]
        total = -(wanted * chances.masked_fill(wanted == 0, 0)).sum()
        right = int((wanted.gather(1, chances.argmax(dim=1, keepdim=True)) > 0).sum())
        return total, int(some.sum()), right

    def evaluate(self, module: nn.Module) -> Score | None:
        total, n, right = 0.0, 0, 0
        with torch.inference_mode():
            for start in range(self.last, len(self.documents), self.options.batch_size):
                rows = np.arange(start, min(start + self.options.batch_size, len(self.documents)))
                loss, some, hits = self._choices(module, rows)
                total, n, right = total + float(loss), n + some, right + hits
        return Score(total / n, {"held_out_loss": total / n, "neighbours_found": right / n}) if n else None


def neighbour_targets(documents: Ints) -> FloatArray:
    """The target distribution ``(B, B)`` over the neighbours of each of some consecutive sentences."""
    n = len(documents)
    near = np.zeros((n, n), dtype=np.float32)
    together = np.flatnonzero(documents[1:] == documents[:-1])
    near[together, together + 1] = near[together + 1, together] = 1
    return np.asarray(near / np.maximum(near.sum(axis=1, keepdims=True), 1), dtype=np.float32)
