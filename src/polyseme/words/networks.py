"""The torch networks of NNLM and Polyglot, and the training of NNLM. Formulas are in ``nnlm.py`` and ``polyglot.py``.

A step touches only the rows of the words in its batch: gradients and optimiser steps are sparse. Polyglot is trained in
``kernels/polyglot.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import Ints
from polyseme.interfaces import perplexity_of
from polyseme.neural.softmax import ClassSampler, log_losses, sampled_softmax_loss
from polyseme.training.task import BatchTask, Part, Score
from polyseme.words.neural import SPECIALS, Batches, WordStream

if TYPE_CHECKING:
    from polyseme.words.kernels.predict import Tree
    from polyseme.words.nnlm import NnlmOptions
    from polyseme.words.polyglot import PolyglotOptions

SPREAD = 0.1  # standard deviation of initial word vectors
REPORT_WORDS = 2_000_000  # between two reports, if an epoch is longer
EVALUATED = 4096  # positions evaluated at a time


class NnlmNet(nn.Module):
    """b + W x + U tanh(d + H x), where ``table`` is [U W] and ``states`` returns [tanh(d + H x); x]."""

    def __init__(self, n_words: int, options: NnlmOptions) -> None:
        super().__init__()
        context = (options.order - 1) * options.dim
        width = options.hidden + (context if options.direct else 0)
        rows = n_words + SPECIALS - (1 if options.softmax == "hierarchical" else 0)  # a tree has one node less
        self.direct = options.direct
        self.words = nn.Embedding(n_words + SPECIALS, options.dim, sparse=True)
        self.inner = nn.Linear(context, options.hidden)
        self.table = nn.Parameter(torch.empty(rows, width))
        self.bias = nn.Parameter(torch.zeros(rows))
        self.dropout = nn.Dropout(options.dropout)
        nn.init.normal_(self.words.weight, std=SPREAD)
        nn.init.normal_(self.table, std=0.01)

    def states(self, contexts: Tensor) -> Tensor:
        """The inputs of the output layer for the preceding words, nearest first: (M, n - 1) -> (M, P)."""
        x = self.dropout(self.words(contexts).flatten(1))  # (M, (n - 1) m)
        hidden = self.dropout(torch.tanh(self.inner(x)))  # (M, h)
        return torch.cat([hidden, x], dim=1) if self.direct else hidden


class HuffmanPaths:
    """The inner nodes on the path to each class, for hierarchical softmax."""

    def __init__(self, counts: Ints) -> None:
        from polyseme.words.kernels.huffman import huffman_tree

        order = np.argsort(-counts, kind="stable")
        self.place = np.argsort(order)  # index of a class among the classes sorted by descending count
        self.tree: Tree = huffman_tree(counts[order])
        self.lengths = np.diff(self.tree.offsets)

    def same_as(self, other: HuffmanPaths) -> bool:
        """Whether every class has the same path in both trees."""
        a, b = self.tree, other.tree
        pairs = ((self.place, other.place), (a.offsets, b.offsets), (a.nodes, b.nodes), (a.signs, b.signs))
        return all(np.array_equal(ours, theirs) for ours, theirs in pairs)

    def of(self, classes: Ints) -> tuple[Tensor, Tensor, Tensor]:
        """The paths to some classes (M,), concatenated (Σ lengths,): for each step its class index, node and sign."""
        places = self.place[classes]
        lengths = self.lengths[places]
        owners = np.repeat(np.arange(len(classes)), lengths)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        at = np.repeat(self.tree.offsets[places], lengths) + within
        nodes = self.tree.nodes[at].astype(np.int64)
        return torch.from_numpy(owners), torch.from_numpy(nodes), torch.from_numpy(self.tree.signs[at])

    def losses(self, states: Tensor, classes: Ints, table: Tensor, bias: Tensor) -> Tensor:
        """-log p of each class (M,); p is the product of the probabilities of the turns on its path."""
        owners, nodes, signs = self.of(classes)
        rows = F.embedding(nodes, table, sparse=True)
        scores = (states[owners] * rows).sum(dim=1) + bias[nodes]
        return torch.zeros(len(states), dtype=states.dtype).index_add(0, owners, F.softplus(-signs * scores))

    def all_losses(self, state: Tensor, table: Tensor, bias: Tensor) -> Tensor:
        """-log p of every class (C,) after one state (P,)."""
        scores = (table @ state + bias).numpy()
        turns = np.logaddexp(0, -self.tree.signs * scores[self.tree.nodes])
        return torch.from_numpy(np.add.reduceat(turns, self.tree.offsets[:-1])[self.place])


class NnlmTask(BatchTask):
    """Training of NNLM: predict each word, and the end of each sentence, from the words before it."""

    module: NnlmNet
    unit = "words"

    def __init__(
        self,
        module: NnlmNet,
        training: WordStream,
        held_out: WordStream,
        counts: Ints,
        options: NnlmOptions,
    ) -> None:
        self.module, self.options, self.training, self.held_out = module, options, training, held_out
        self.batches = Batches(np.arange(1, len(training.numbers)), options.batch_size, options.seed)
        self.reports = max(1, round(len(training.numbers) / REPORT_WORDS))
        self.sampler = ClassSampler(counts, options.negative)
        self.paths = HuffmanPaths(counts) if options.softmax == "hierarchical" else None

    def n_steps(self, epoch: int) -> int:
        return len(self.batches)

    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        places = self.batches(epoch, index)
        targets = self.training.numbers[places].astype(np.int64)
        random = np.random.default_rng((self.options.seed, epoch, index))
        candidates = self.sampler.draw(targets, random) if self.options.softmax == "sampled" else None
        places, targets = places[part.rank :: part.of], targets[part.rank :: part.of]
        if not len(places):
            return torch.zeros(()), 0
        module = self.module
        contexts = torch.from_numpy(self.training.before(places, self.options.order - 1)).to(self.device)
        states, wanted = module.states(contexts), torch.from_numpy(targets).to(self.device)
        if candidates is not None:
            total = sampled_softmax_loss(states, wanted, module.table, module.bias, candidates.to(self.device), 1.0)
        elif self.paths is not None:
            total = self.paths.losses(states, targets, module.table, module.bias).sum()
        else:
            total = F.cross_entropy(F.linear(states, module.table, module.bias), wanted, reduction="sum")
        return total, len(places)

    def evaluate(self, module: nn.Module) -> Score | None:
        assert isinstance(module, NnlmNet)
        if len(self.held_out.numbers) < 2:
            return None
        losses = next_word_losses(module, self.held_out, self.options.order, self.paths)
        mean = float(losses.mean())
        return Score(mean, {"perplexity": perplexity_of(mean)})


@torch.inference_mode()
def next_word_losses(
    module: NnlmNet, stream: WordStream, order: int, paths: HuffmanPaths | None
) -> NDArray[np.float64]:
    """-log p of every word and every sentence end of a stream, with the softmax over all classes."""
    batches = [np.zeros(0)]
    device = module.bias.device
    for start in range(1, len(stream.numbers), EVALUATED):
        places = np.arange(start, min(start + EVALUATED, len(stream.numbers)))
        targets = stream.numbers[places].astype(np.int64)
        states = module.states(torch.from_numpy(stream.before(places, order - 1)).to(device))
        if paths is None:
            losses = log_losses(states, torch.from_numpy(targets).to(device), module.table, module.bias)
        else:
            losses = paths.losses(states, targets, module.table, module.bias)
        batches.append(losses.cpu().numpy().astype(np.float64))
    return np.concatenate(batches)


@torch.inference_mode()
def next_word_chances(module: NnlmNet, context: Ints, paths: HuffmanPaths | None) -> NDArray[np.float64]:
    """The probability of every class after one context (n - 1,), nearest word first."""
    state = module.states(torch.from_numpy(context[None]))[0]
    if paths is not None:
        return np.asarray(np.exp(-paths.all_losses(state, module.table, module.bias).numpy()), dtype=np.float64)
    return np.asarray(torch.softmax((module.table @ state + module.bias).double(), dim=0).numpy())


class PolyglotNet(nn.Module):
    """W₂ tanh(W₁ [words of a window] + b₁): one score, higher for real windows of text."""

    def __init__(self, n_words: int, options: PolyglotOptions) -> None:
        super().__init__()
        self.radius = options.radius
        self.words = nn.Embedding(n_words + SPECIALS, options.dim, sparse=True)
        self.inner = nn.Linear((2 * options.radius + 1) * options.dim, options.hidden)
        self.out = nn.Linear(options.hidden, 1, bias=False)  # a bias of the score would cancel out
        nn.init.normal_(self.words.weight, std=SPREAD)

    def forward(self, windows: Tensor, centres: Tensor) -> Tensor:
        """Scores (M, k) of windows (M, 2r), words before then after, with each of ``centres`` (M, k) in the middle.

        The contribution of the context words to the hidden layer is computed once for all centres.
        """
        dim = self.words.weight.shape[1]
        middle = self.radius * dim
        weight = self.inner.weight  # (h, (2r + 1) m)
        around = self.words(windows).flatten(1)  # (M, 2r m)
        shared = F.linear(around, torch.cat([weight[:, :middle], weight[:, middle + dim :]], dim=1), self.inner.bias)
        of_centres = F.linear(self.words(centres), weight[:, middle : middle + dim])  # (M, k, m) -> (M, k, h)
        scores: Tensor = self.out(torch.tanh(shared[:, None] + of_centres))[..., 0]
        return scores


@torch.inference_mode()
def window_losses(module: PolyglotNet, stream: WordStream, places: Ints, wrong: Ints) -> Tensor:
    """max(0, 1 - f(s) + f(s')) for the window s around each place; s' has a wrong word at its centre: (M,)."""
    radius = module.radius
    windows = np.concatenate([stream.before(places, radius)[:, ::-1], stream.after(places, radius)], axis=1)
    centres = np.stack([stream.numbers[places].astype(np.int64), wrong], axis=1)
    scores = module(torch.from_numpy(windows), torch.from_numpy(centres))
    return torch.relu(1 - scores[:, 0] + scores[:, 1])
