"""The torch networks of NNLM and Polyglot, and how NNLM learns. Formulas are in ``nnlm.py`` and ``polyglot.py``.

A step touches the rows of the words in its batch only: their gradients are sparse, and so are the steps of the
optimiser. Polyglot learns in ``kernels/windows.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.neural.softmax import ClassSampler, log_losses, sampled_softmax_loss
from polyseme.training.task import BatchTask, Part, Score
from polyseme.words.windows import SPECIALS, Batches, Numbers, WordStream

if TYPE_CHECKING:
    from polyseme.words.kernels.predict import Tree
    from polyseme.words.nnlm import NnlmOptions
    from polyseme.words.polyglot import PolyglotOptions

SPREAD = 0.1  # standard deviation of a word's first numbers
REPORT_WORDS = 2_000_000  # between two reports, where an epoch is longer
EVALUATED = 4096  # places evaluated at a time


class NnlmNet(nn.Module):
    """b + W x + U tanh(d + H x), of which ``table`` holds [U W] and ``states`` gives [tanh(d + H x); x]."""

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
        """Words before, nearest first, to what the softmax is a linear map of: (M, n - 1) -> (M, P)."""
        x = self.dropout(self.words(contexts).flatten(1))  # (M, (n - 1) m)
        hidden = self.dropout(torch.tanh(self.inner(x)))  # (M, h)
        return torch.cat([hidden, x], dim=1) if self.direct else hidden


class HuffmanPaths:
    """The inner nodes on the path to each class, for hierarchical softmax."""

    def __init__(self, counts: NDArray[np.int64]) -> None:
        from polyseme.words.kernels.huffman import huffman_tree

        order = np.argsort(-counts, kind="stable")
        self.place = np.argsort(order)  # of a class among the classes by falling count
        self.tree: Tree = huffman_tree(counts[order])
        self.lengths = np.diff(self.tree.offsets)

    def of(self, classes: Numbers) -> tuple[Tensor, Tensor, Tensor]:
        """For some classes (M,), laid end to end (Σ lengths,): which of the M it is for, the node, and its sign."""
        places = self.place[classes]
        lengths = self.lengths[places]
        owners = np.repeat(np.arange(len(classes)), lengths)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        at = np.repeat(self.tree.offsets[places], lengths) + within
        nodes = self.tree.nodes[at].astype(np.int64)
        return torch.from_numpy(owners), torch.from_numpy(nodes), torch.from_numpy(self.tree.signs[at])

    def losses(self, states: Tensor, classes: Numbers, table: Tensor, bias: Tensor) -> Tensor:
        """-log p of each class (M,), the product of the chances to turn to its side at every node."""
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
    """Learns to predict each word, and the end of each sentence, from the words before."""

    module: NnlmNet
    unit = "words"

    def __init__(
        self,
        module: NnlmNet,
        training: WordStream,
        held_out: WordStream,
        counts: NDArray[np.int64],
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
        return Score(mean, {"perplexity": float(np.exp(min(mean, 700.0)))})


@torch.inference_mode()
def next_word_losses(
    module: NnlmNet, stream: WordStream, order: int, paths: HuffmanPaths | None
) -> NDArray[np.float64]:
    """-log p of every word of a stream and of every end of a sentence, over all classes."""
    found = []
    device = module.bias.device
    for start in range(1, len(stream.numbers), EVALUATED):
        places = np.arange(start, min(start + EVALUATED, len(stream.numbers)))
        targets = stream.numbers[places].astype(np.int64)
        states = module.states(torch.from_numpy(stream.before(places, order - 1)).to(device))
        if paths is None:
            losses = log_losses(states, torch.from_numpy(targets).to(device), module.table, module.bias)
        else:
            losses = paths.losses(states, targets, module.table, module.bias)
        found.append(losses.cpu().numpy().astype(np.float64))
    return np.concatenate(found)


@torch.inference_mode()
def next_word_chances(module: NnlmNet, context: Numbers, paths: HuffmanPaths | None) -> NDArray[np.float64]:
    """p of every class after one context (n - 1,), nearest first."""
    state = module.states(torch.from_numpy(context[None]))[0]
    if paths is not None:
        return np.asarray(np.exp(-paths.all_losses(state, module.table, module.bias).numpy()), dtype=np.float64)
    return np.asarray(torch.softmax((module.table @ state + module.bias).double(), dim=0).numpy())


class PolyglotNet(nn.Module):
    """W₂ tanh(W₁ [words of a window] + b₁): one number, greater for windows that people write."""

    def __init__(self, n_words: int, options: PolyglotOptions) -> None:
        super().__init__()
        self.radius = options.radius
        self.words = nn.Embedding(n_words + SPECIALS, options.dim, sparse=True)
        self.inner = nn.Linear((2 * options.radius + 1) * options.dim, options.hidden)
        self.out = nn.Linear(options.hidden, 1, bias=False)  # a bias of the score would cancel out
        nn.init.normal_(self.words.weight, std=SPREAD)

    def forward(self, windows: Tensor, centres: Tensor) -> Tensor:
        """Scores of windows (M, 2r), words before then behind, with each of some words (M, k) at the centre: (M, k).

        What the words around add to the hidden layer is computed once for all of them.
        """
        dim = self.words.weight.shape[1]
        middle = self.radius * dim
        weight = self.inner.weight  # (h, (2r + 1) m)
        around = self.words(windows).flatten(1)  # (M, 2r m)
        shared = F.linear(around, torch.cat([weight[:, :middle], weight[:, middle + dim :]], dim=1), self.inner.bias)
        own = F.linear(self.words(centres), weight[:, middle : middle + dim])  # (M, k, m) -> (M, k, h)
        scores: Tensor = self.out(torch.tanh(shared[:, None] + own))[..., 0]
        return scores


@torch.inference_mode()
def window_losses(module: PolyglotNet, stream: WordStream, places: Numbers, wrong: Numbers) -> Tensor:
    """max(0, 1 - f(s) + f(s')) of the window s around each place, with a wrong word at the centre of s': (M,)."""
    radius = module.radius
    windows = np.concatenate([stream.before(places, radius)[:, ::-1], stream.after(places, radius)], axis=1)
    centres = np.stack([stream.numbers[places].astype(np.int64), wrong], axis=1)
    scores = module(torch.from_numpy(windows), torch.from_numpy(centres))
    return torch.relu(1 - scores[:, 0] + scores[:, 1])
