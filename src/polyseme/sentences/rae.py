"""Greedy trees over texts 贪心树: each step merges the two neighbours that an autoencoder reconstructs best.

All texts of a batch are processed together, with one merge per text and step; only the two pairs next to a merge are
recomputed. A long text is processed separately with a heap of its pairs, in n log n steps instead of n². Once the trees
are known, phrases of the same height are computed at once, and so are the reconstructions of all phrases.

Recursive autoencoder (递归自编码器) over greedy trees: composes sentences from phrases, trained on unlabelled text.

Socher, Huang, Pennington, Ng and Manning, "Dynamic Pooling and Unfolding Recursive Autoencoders for Paraphrase
Detection", NIPS 2011. Two neighbours are merged into a phrase, and every phrase should reconstruct all its words:

    p = tanh(W [a; b] + c) / |·|        E = Σ_phrases |(x_i … x_j) - (x'_i … x'_j)|²,   x' = what p unfolds to

What differs from the paper: it uses the trees of a parser; here the pair with the lowest reconstruction error is merged
first (Socher et al., "Semi-Supervised Recursive Autoencoders", EMNLP 2011). Word vectors are scaled to length one and
not trained. A text's vector is the mean of its words and phrases, or its top phrase (``vector``). ``matched`` compares
two texts node by node (rae.py); ``fit pair`` uses that in addition to both vectors.

Dynamic pooling 动态池化: compare two texts of different lengths with a fixed number of features.

Socher et al., "Dynamic Pooling and Unfolding Recursive Autoencoders for Paraphrase Detection", NIPS 2011: the distances
between all words and phrases of one text and all of the other are divided into a grid of ``size`` × ``size`` cells, and
the minimum of each cell is kept; rows and columns of a smaller matrix are repeated first. Three more features compare
the numbers in both texts.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import FloatArray, Ints
from polyseme.errors import TrainingError
from polyseme.interfaces import Progress, Sentence, WordVectorsInterface, silent
from polyseme.learn.modules import Encoding, TextModule, TextTokens
from polyseme.learn.prepared import on
from polyseme.neural.batches import sized_batches
from polyseme.sentences.infersent import given_vectors
from polyseme.sentences.learned import EncoderNet, LearnedEncoder
from polyseme.sentences.options import RaeOptions
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.training.loop import fit
from polyseme.training.run import Run
from polyseme.training.task import RowsTask, Score
from polyseme.words.word2vec import Word2Vec, Word2VecOptions

if TYPE_CHECKING:
    from typing_extensions import Self

LONG = 400  # texts with more words are processed separately


class Nodes(NamedTuple):
    """The words and phrases of a batch in one table: the words of all texts, then the phrases by height."""

    vectors: Tensor  # (N + P, D)
    text: Tensor  # (N + P,) the text each belongs to
    left: Tensor  # (P,) rows of the children of each phrase
    right: Tensor
    root: Tensor  # (B,) row of the whole text; -1 if it has no words
    n_words: int  # N


class AutoEncoder(nn.Module):
    """p = tanh(W [a; b] + c), scaled to length one; its reconstruction is [a'; b'] = tanh(V p + d)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.fold, self.unfold = nn.Linear(2 * dim, dim), nn.Linear(dim, 2 * dim)

    def phrase(self, a: Tensor, b: Tensor) -> Tensor:
        """The phrase of two nodes, ``(…, D), (…, D) -> (…, D)``."""
        return F.normalize(torch.tanh(self.fold(torch.cat([a, b], dim=-1))), dim=-1)

    def parts(self, p: Tensor) -> Tensor:
        """The reconstruction of both parts, concatenated, ``(…, D) -> (…, 2D)``."""
        return torch.tanh(self.unfold(p))

    def errors(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """The phrase of two nodes, and its reconstruction error ``|a - a'|² + |b - b'|²``."""
        p = self.phrase(a, b)
        return p, (self.parts(p) - torch.cat([a, b], dim=-1)).square().sum(dim=-1)


@torch.no_grad()
def greedy_merges(net: AutoEncoder, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The left and right children of every phrase, in the order of the merges, ``(B, T - 1)`` each.

    Words are numbered by position, and the k-th phrase is T + k. A text of n words has n - 1 phrases; values after
    them are meaningless.
    """
    (n_texts, width), counts = mask.shape, mask.sum(dim=1)
    left, right = (torch.zeros(n_texts, max(width - 1, 0), dtype=torch.long, device=x.device) for _ in range(2))
    short = (counts <= LONG).nonzero()[:, 0]
    reach = int(counts[short].max()) if len(short) else 0
    for side, found in zip((left, right), _merges_together(net, x[short, :reach], counts[short]), strict=True):
        side[short, : max(reach - 1, 0)] = found + (width - reach) * (found >= reach)
    for text in (counts > LONG).nonzero()[:, 0].cpu().tolist():
        size = int(counts[text])
        for side, found in zip((left, right), _merges_of_one(net, x[text, :size]), strict=True):
            side[text, : size - 1] = found + (width - size) * (found >= size)
    return left, right


def _merges_together(net: AutoEncoder, x: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """The merges of several texts, of which the longest has T words: ``(B, T, D) -> (B, T - 1)`` twice."""
    n_texts, width = x.shape[:2]
    rows = torch.arange(n_texts, device=x.device)
    left, right = (torch.zeros(n_texts, max(width - 1, 0), dtype=torch.long, device=x.device) for _ in range(2))
    nodes, names = x, torch.arange(width, device=x.device).repeat(n_texts, 1)
    pairs, errors = net.errors(nodes[:, :-1], nodes[:, 1:])
    for step in range(width - 1):
        places = torch.arange(width - 1 - step, device=x.device)
        alive = counts > 1
        errors = errors.masked_fill(places >= (counts - 1)[:, None], torch.inf)
        best = torch.where(alive, errors.argmin(dim=1), width)  # beyond all positions: nothing moves
        here = best.clamp(max=width - 1 - step - 1)
        left[:, step], right[:, step] = names[rows, here], names[rows, here + 1]
        merged = pairs[rows, here]
        source = places + (places > best[:, None])  # (B, width - 1 - step)
        nodes = nodes.gather(1, source[:, :, None].expand(-1, -1, nodes.shape[2]))
        names = names.gather(1, source)
        nodes[rows, here] = torch.where(alive[:, None], merged, nodes[rows, here])
        names[rows, here] = torch.where(alive, width + step, names[rows, here])
        counts = counts - alive.long()
        if len(places) == 1:
            break
        shifted = source[:, :-1]  # a pair is indexed by its left node
        pairs = pairs.gather(1, shifted[:, :, None].expand(-1, -1, pairs.shape[2]))
        errors = errors.gather(1, shifted)
        for near in (here - 1, here):
            at = near.clamp(0, len(places) - 2)
            pairs[rows, at], errors[rows, at] = net.errors(nodes[rows, at], nodes[rows, at + 1])
    return left, right


def _merges_of_one(net: AutoEncoder, x: Tensor) -> tuple[Tensor, Tensor]:
    """The merges of one text, ``(n, D) -> (n - 1,)`` twice."""
    n = len(x)
    nodes = torch.cat([x, x.new_empty(n - 1, x.shape[1])])
    pairs, errors = net.errors(x[:-1], x[1:])
    phrases = dict(enumerate(pairs))  # left node -> the phrase it would form with the next node
    begins = [*range(n), *[0] * (n - 1)]  # a node's first word: of two equal errors the leftmost is taken
    before, behind = [*range(-1, 2 * n - 2)], [*range(1, n), -1, *[-1] * (n - 1)]
    heap = [(error, place, place, place + 1) for place, error in enumerate(errors.cpu().tolist())]
    heapq.heapify(heap)
    left, right = [], []
    for name in range(n, 2 * n - 1):
        _, place, a, b = heapq.heappop(heap)
        while behind[a] != b:  # one of the two is already part of a phrase
            _, place, a, b = heapq.heappop(heap)
        left.append(a)
        right.append(b)
        nodes[name], begins[name] = phrases[a], place
        first, last = before[a], behind[b]
        before[name], behind[name] = first, last
        behind[a] = behind[b] = -1
        near = [(node, following) for node, following in ((first, name), (name, last)) if min(node, following) >= 0]
        if first >= 0:
            behind[first] = name
        if last >= 0:
            before[last] = name
        if near:
            merged, errors = net.errors(nodes[[node for node, _ in near]], nodes[[follows for _, follows in near]])
            for (node, follows), phrase, error in zip(near, merged, errors.cpu().tolist(), strict=True):
                phrases[node] = phrase
                heapq.heappush(heap, (error, begins[node], node, follows))
    return torch.tensor(left, device=x.device), torch.tensor(right, device=x.device)


def folded(net: AutoEncoder, x: Tensor, mask: Tensor) -> Nodes:
    """The words and phrases of all texts, ``(B, T, D)`` and ``(B, T)``; gradients flow through the phrases."""
    n_texts, width = mask.shape
    left, right = (found.cpu() for found in greedy_merges(net, x, mask))
    sizes = mask.sum(dim=1).cpu()
    n_words = int(sizes.sum())
    real = torch.arange(max(width - 1, 0)) < (sizes - 1)[:, None]  # (B, T - 1)
    text = torch.arange(n_texts)
    height = torch.zeros(n_texts, 2 * width - 1, dtype=torch.long)
    for step in range(width - 1):
        under = torch.maximum(height[text, left[:, step]], height[text, right[:, step]])
        height[:, width + step] = torch.where(real[:, step], under + 1, 0)
    # The row of every node in the table: words by text and position, phrases by height.
    row = torch.full((n_texts, 2 * width), -1)
    row[:, :width][mask.cpu()] = torch.arange(n_words)
    of_text, step_of = real.nonzero(as_tuple=True)
    order = torch.argsort(height[of_text, width + step_of], stable=True)
    of_text, step_of = of_text[order], step_of[order]
    row[of_text, width + step_of] = n_words + torch.arange(len(order))
    children = [row[of_text, side[of_text, step_of]].to(x.device) for side in (left, right)]
    table = torch.cat([x[mask], x.new_empty(len(order), x.shape[2])])  # (N + P, D)
    end = 0
    for size in torch.bincount(height[of_text, width + step_of]).tolist()[1:]:
        level = slice(end, end + size)
        table[n_words + end : n_words + end + size] = net.phrase(table[children[0][level]], table[children[1][level]])
        end += size
    owner = torch.cat([mask.cpu().nonzero()[:, 0], of_text]).to(x.device)
    root = torch.where(sizes > 1, row[text, width + sizes.clamp(min=2) - 2], row[:, 0]).to(x.device)
    return Nodes(table, owner, children[0], children[1], root, n_words)


def unfolding_errors(net: AutoEncoder, nodes: Nodes) -> Tensor:
    """Σ over phrases of the squared distances between their words and those the phrase unfolds to."""
    asked = torch.arange(nodes.n_words, len(nodes.vectors), device=nodes.vectors.device)
    read, total = nodes.vectors[asked], nodes.vectors.new_zeros(())
    while len(asked):
        below = asked - nodes.n_words
        children = torch.cat([nodes.left[below], nodes.right[below]])
        read = torch.cat(net.parts(read).chunk(2, dim=1))
        words = children < nodes.n_words
        total = total + (read[words] - nodes.vectors[children[words]]).square().sum()
        asked, read = children[~words], read[~words]
    return total


NUMBERS = 3


def pooled_distances(first: FloatArray, second: FloatArray, size: int) -> FloatArray:
    """Pooled Euclidean distances, ``(n, D), (m, D) -> (size, size)``; zeros if one text has no nodes."""
    if not len(first) or not len(second):
        return np.zeros((size, size), dtype=np.float32)
    squares = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1) - 2 * first @ second.T
    return least_of_cells(least_of_cells(np.sqrt(np.maximum(squares, 0)), size).T, size).T


def least_of_cells(matrix: FloatArray, size: int) -> FloatArray:
    """The minimum of each of ``size`` groups of rows, the last perhaps with one row more: ``(n, m) -> (size, m)``."""
    if len(matrix) < size:
        matrix = np.repeat(matrix, -(-size // len(matrix)), axis=0)
    each, larger = divmod(len(matrix), size)
    sizes = np.full(size, each)
    sizes[size - larger :] += 1 if larger else 0
    return np.asarray(np.minimum.reduceat(matrix, np.cumsum(sizes) - sizes, axis=0), dtype=np.float32)


def number_features(first: Sequence[str], second: Sequence[str]) -> NDArray[np.float32]:
    """Whether the numbers of both texts are equal; equal and not none; one a proper subset of the other."""
    a, b = ({word for word in words if any(map(str.isdecimal, word))} for words in (first, second))
    return np.array([a == b, a == b and bool(a), a < b or b < a], dtype=np.float32)


MOST_HELD_OUT = 2000
TEXTS_AT_ONCE = 64


class RaeModule(TextModule):
    """Greedy trees over word vectors of length one."""

    def __init__(self, dim: int, vector: str) -> None:
        super().__init__()
        self.net, self.vector, self.dim = AutoEncoder(dim), vector, dim

    def nodes(self, tokens: TextTokens) -> Nodes:
        """The vectors of all words and phrases."""
        return folded(self.net, F.normalize(tokens.x, dim=2), tokens.mask)

    def forward(self, tokens: TextTokens) -> Encoding:
        nodes = self.nodes(tokens)
        found = tokens.x.new_zeros(len(tokens.x), self.dim)
        if self.vector == "root":
            some = nodes.root >= 0
            return Encoding(found.index_copy(0, some.nonzero()[:, 0], nodes.vectors[nodes.root[some]]))
        counts = torch.bincount(nodes.text, minlength=len(found)).clamp(min=1)
        return Encoding(found.index_add(0, nodes.text, nodes.vectors) / counts[:, None])


class Rae(LearnedEncoder):
    """A recursive autoencoder: gives vectors of texts and of all their phrases."""

    method: ClassVar[str] = "rae"
    Options: ClassVar[type] = RaeOptions
    options: RaeOptions
    module: RaeModule

    @classmethod
    def make_module(cls, options: RaeOptions, dim: int, beside: int) -> RaeModule:
        return RaeModule(dim, options.vector)

    @classmethod
    def train(cls, data: Corpus, options: RaeOptions, run: Run) -> Self:
        """Train to reconstruct the words of every phrase in the sentences of a corpus."""
        chosen = np.flatnonzero(np.diff(data.sentence_offsets) > 1)[: options.max_sentences]
        if not len(chosen):
            raise TrainingError("the corpus has no sentence of two words to learn from")
        texts = [data.sentence(int(number))[: options.longest] for number in chosen]
        given = given_vectors(run, options.word_vectors) or [_own_vectors(data, options)]
        encoder = cls.of(texts, given, About(data.segmentation, data.facts, run.curve), options)
        n = min(round(options.hold_out * len(texts)), MOST_HELD_OUT)
        held, training = texts[:n], texts[n:]
        fit(UnfoldingTask(encoder, training, held, run.progress), options, run)
        encoder.net.eval()
        return encoder

    # ---- pairs

    @torch.inference_mode()
    def nodes(self, texts: Sequence[Sentence]) -> list[FloatArray]:
        """The vectors of each text's words and phrases, ``(2n - 1, dim)``; ``(0, dim)`` for a text without words."""
        prepared = self.prepare(texts)
        found: list[FloatArray] = [np.zeros((0, self.dim), dtype=np.float32)] * len(texts)
        order = np.argsort(prepared.sizes, kind="stable")
        device = next(self.net.parameters()).device
        for start in range(0, len(order), TEXTS_AT_ONCE):
            rows = order[start : start + TEXTS_AT_ONCE]
            nodes = self.module.nodes(self.net.inputs(on(device, prepared.batch(rows))))
            vectors, owner = nodes.vectors.cpu().numpy(), nodes.text.cpu().numpy()
            for place, row in enumerate(rows.tolist()):
                found[row] = vectors[owner == place]
        return found

    @property
    def matched_dim(self) -> int:
        """The number of features that ``matched`` gives for a pair."""
        return self.options.grid**2 + NUMBERS

    def matched(self, pairs: Sequence[tuple[Sentence, Sentence]]) -> FloatArray:
        """The features of each pair: pooled distances of all nodes and three on numbers; ``(n, matched_dim)``."""
        first, second = zip(*pairs, strict=True) if pairs else ((), ())
        nodes = self.nodes([*first, *second])
        words = self.inputs.token_lists([*first, *second])
        n = len(first)
        rows = [
            np.concatenate([
                pooled_distances(nodes[i], nodes[n + i], self.options.grid).ravel(),
                number_features(words[i], words[n + i]),
            ])
            for i in range(n)
        ]  # fmt: skip
        return np.array(rows, dtype=np.float32).reshape(n, self.matched_dim)


def _own_vectors(corpus: Corpus, options: RaeOptions) -> WordVectorsInterface:
    """Word vectors trained on the same text, used if none are given."""
    wanted = Word2VecOptions(dim=options.word_dim, min_count=options.min_count, seed=options.seed, threads=1)
    return Word2Vec.train(corpus, wanted, Run())


class UnfoldingTask(RowsTask):
    """Training: encode sentences and reconstruct them."""

    module: EncoderNet
    unit = "sentences"

    def __init__(
        self, encoder: Rae, training: list[list[str]], held_out: list[list[str]], progress: Progress = silent
    ) -> None:
        self.texts, self.held_out = encoder.prepare(training, progress), encoder.prepare(held_out, progress)
        self.module, self.options = encoder.net, encoder.options
        self.batches = sized_batches(self.texts.sizes, self.options.batch_size, self.options.seed)

    def loss_of(self, rows: Ints) -> Tensor:
        return self._error(self.module, self.texts, rows)[0]

    def _error(self, module: Any, texts: Any, rows: Ints) -> tuple[Tensor, int]:
        encoder: RaeModule = module.encoder
        nodes = encoder.nodes(module.inputs(on(self.device, texts.batch(rows))))
        return unfolding_errors(encoder.net, nodes), len(nodes.vectors) - nodes.n_words

    def evaluate(self, module: nn.Module) -> Score | None:
        total, n = 0.0, 0
        with torch.inference_mode():
            for start in range(0, len(self.held_out.sizes), self.options.batch_size):
                rows = np.arange(start, min(start + self.options.batch_size, len(self.held_out.sizes)))
                error, phrases = self._error(module, self.held_out, rows)
                total, n = total + float(error), n + phrases
        return Score(total / n, {"held_out_error": total / n}) if n else None
