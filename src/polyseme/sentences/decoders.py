"""Decoders that train an encoder by generating sentences 解码器: a GRU conditioned on a sentence vector at every word.

    h_t = GRU(h_t-1, x_t-1 + P c),   h_0 = c,   p(w_t) = softmax(W h_t + b);   c: the vector, x_0 = 0

The last token of every sentence is an end mark. For large vocabularies the softmax is sampled (``neural/softmax``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.neural.batches import sized_batches
from polyseme.neural.gru import GruWeights, packed_gru
from polyseme.neural.packing import Packing
from polyseme.neural.softmax import ClassSampler, classes_to_report, log_losses, sampled_softmax_loss
from polyseme.sentences.inputs import PreparedTexts
from polyseme.sentences.learned import EncoderNet
from polyseme.sentences.options import SkipThoughtOptions
from polyseme.sentences.token_vectors import Flat, Ints, TokenLists, counted_keys, offsets_of, words
from polyseme.training.task import BatchTask, Part, Score

MOST_HELD_OUT = 2000  # sentences
REPORT_BATCHES = 1000  # between two reports, if an epoch is longer
END, UNKNOWN, FIRST = 0, 1, 2  # classes of the softmax; words start at FIRST


class TargetWords:
    """The output vocabulary of a decoder."""

    def __init__(self, keys: Sequence[str], counts: Ints) -> None:
        self.index = {key: FIRST + number for number, key in enumerate(keys)}
        self.counts = counts  # of every class

    @classmethod
    def of(cls, lists: TokenLists, min_count: int) -> TargetWords:
        """The words that occur at least ``min_count`` times in these sentences."""
        keys = counted_keys(words, lists, min_count)[0]
        found = cls(keys, np.zeros(FIRST + len(keys), dtype=np.int64))
        found.counts = np.bincount(found.ids(lists).values, minlength=len(found.counts))
        return found

    def __len__(self) -> int:
        return len(self.counts)

    def ids(self, lists: TokenLists) -> Flat:
        """The class of every word, with an end mark after each sentence."""
        known = self.index.get
        ids = [number for tokens in lists for number in (*(known(token, UNKNOWN) for token in tokens), END)]
        return Flat(np.array(ids, dtype=np.int64), offsets_of(lists) + np.arange(len(lists) + 1))


class WordDecoder(nn.Module):
    """The GRU that generates sentences; its hidden size is the dimension of the sentence vectors."""

    def __init__(self, dim: int, hidden: int, *, every_step: bool = True) -> None:
        super().__init__()
        self.rnn = nn.GRU(dim, hidden)
        self.condition = nn.Linear(hidden, 3 * hidden, bias=False) if every_step else None

    def forward(self, x: Tensor, lengths: Ints, vectors: Tensor, written: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states ``(N, H)`` and the classes to predict from them ``(N,)``.

        ``x (B, T, D)`` are the word vectors of the sentences, ``written (B, T + 1)`` their classes and the end mark,
        ``vectors (B, H)`` the vectors they are generated from.
        """
        packing = Packing.of(lengths + 1)
        device = x.device
        order = torch.from_numpy(packing.order).to(device)
        places = torch.from_numpy(packing.row * written.shape[1] + packing.time[0]).to(device)
        before = F.pad(x, (0, 0, 1, 0)).flatten(0, 1)  # the input of a step is the previous word; zeros at first
        read = before.index_select(0, places)[None]
        ordered = vectors[order]
        context = None if self.condition is None else self.condition(ordered)[None]
        rnn = self.rnn
        weights = GruWeights(*(getattr(rnn, f"{name}_l0")[None] for name in
                               ("weight_ih", "weight_hh", "bias_ih", "bias_hh")))  # fmt: skip
        states = packed_gru(read, packing.sizes, weights, ordered[None], context)[0]
        return states[0], written.flatten().index_select(0, places)


class WordOutput(nn.Module):
    """The softmax over words, which decoders may share."""

    def __init__(self, hidden: int, counts: Ints, negative: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(len(counts), hidden).uniform_(-0.1, 0.1))
        self.bias = nn.Parameter(torch.zeros(len(counts)))
        self.sampler, self.reported = ClassSampler(counts, negative), classes_to_report(counts)

    def loss(self, states: Tensor, targets: Tensor, random: np.random.Generator, scale: float = 1.0) -> Tensor:
        """``scale`` times the sum of the losses, with a softmax over a sample of the words."""
        candidates = self.sampler.draw(targets.cpu().numpy(), random).to(states.device)
        return sampled_softmax_loss(states, targets, self.weight, self.bias, candidates, scale)

    def score(self, states: Tensor, targets: Tensor) -> float:
        """The sum of the losses with a softmax over all words, for reports."""
        return float(log_losses(states, targets, self.weight, self.bias, self.reported).sum())


class WritingNet(nn.Module):
    """An encoder's network, and the softmax for the text generated from its vectors."""

    def __init__(self, net: EncoderNet, output: WordOutput) -> None:
        super().__init__()
        self.net, self.output = net, output


class WritingTask(BatchTask):
    """Training by generating texts from the vectors of others; batches have similar lengths; the last are held out."""

    unit = "sentences"
    module: WritingNet

    def __init__(self, module: WritingNet, texts: PreparedTexts, n_held_out: int, options: SkipThoughtOptions) -> None:
        self.module, self.texts, self.options = module, texts, options
        self.last = len(texts.sizes) - n_held_out  # what follows is held out
        self.batches = sized_batches(texts.sizes[: self.last], options.batch_size, options.seed)
        self.reports = max(1, round(self.last / options.batch_size / REPORT_BATCHES))

    @abstractmethod
    def written(self, module: nn.Module, rows: Ints, end: int) -> list[tuple[Tensor, Tensor]]:
        """Hidden states ``(N, H)`` and target words ``(N,)`` of each decoder, for texts before ``end`` only."""

    def n_steps(self, epoch: int) -> int:
        return self.batches.n_steps(epoch)

    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        rows = self.batches.rows(epoch, index)[part.rank :: part.of]
        random = np.random.default_rng((self.options.seed, epoch, index, part.rank))
        written = self.written(self.module, rows, self.last) if len(rows) else []
        n_words = sum(len(targets) for _, targets in written)
        if not n_words:
            return torch.zeros(()), 0
        # The loss is a mean over words, but sentences are counted, so that speeds can be compared.
        losses = [self.module.output.loss(*one, random, len(rows) / n_words) for one in written]
        return torch.stack(losses).sum(), len(rows)

    def evaluate(self, module: nn.Module) -> Score | None:
        assert isinstance(module, WritingNet)
        total, n, size = 0.0, 0, self.options.batch_size
        n_texts = len(self.texts.sizes)
        with torch.inference_mode():
            for start in range(self.last, n_texts, size):
                rows = np.arange(start, min(start + size, n_texts))
                for states, targets in self.written(module, rows, n_texts):
                    total, n = total + module.output.score(states, targets), n + len(targets)
        return Score(total / n, {"held_out_loss": total / n}) if n else None
