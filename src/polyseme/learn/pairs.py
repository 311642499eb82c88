"""Readers of pairs of texts.

frozen     vectors of both by an encoder that stays as it is, compared
siamese    u, v = f(first), f(second);  [u; v; |u - v|; u∗v], or cos(u, v); f learns
matching   a network over the token vectors of both texts that compares them inside (``sentences/matching.py``)
cross      a Transformer that reads both texts as one input
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import FloatArray, Ints
from polyseme.contexts.transformer.encode import BATCH_PIECES, Runner
from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.contexts.transformer.tuning import PairReader
from polyseme.data.examples import Examples
from polyseme.interfaces import Progress, Sentence, SentenceEncoder, silent
from polyseme.learn.frozen import FrozenNet, StandardisedVectors, Vectors, encoded_once
from polyseme.learn.inputs import InputBatch, InputModule, Inputs
from polyseme.learn.modules import Encoding, TextTokens, weights
from polyseme.learn.pieces import FirstState, PieceBatch
from polyseme.learn.prepared import LearningTexts, PreparedInputs, Reader
from polyseme.store.folder import Parts
from polyseme.text.spacing import joined

TextPair = tuple[Sentence, Sentence]
PAIRS_AT_ONCE = 512


def pairs_of(examples: Examples) -> list[TextPair]:
    """The texts of labelled pairs."""
    rows: Any = examples
    return [(row.first, row.second) for row in rows]


def distinct(pairs: Sequence[TextPair]) -> tuple[list[Any], Ints]:
    """The different texts of pairs, which are read once each, and the places ``(n, 2)`` of every pair's two."""
    both = [first for first, _ in pairs] + [second for _, second in pairs]
    keys = [text if isinstance(text, str) else tuple(text) for text in both]
    texts = dict(zip(keys, both, strict=True))
    number = {key: n for n, key in enumerate(texts)}
    return list(texts.values()), np.array([number[key] for key in keys], dtype=np.int64).reshape(2, -1).T


class PairModule(nn.Module, ABC):
    """Two texts as token vectors → features of the pair."""

    dim: int  # of the features

    @abstractmethod
    def forward(self, first: TextTokens, second: TextTokens) -> Tensor:
        """Features ``(B, dim)``."""


def compared(u: Tensor, v: Tensor) -> Tensor:
    """[u; v; |u - v|; u∗v]: ``(B, D), (B, D) -> (B, 4D)``."""
    return torch.cat([u, v, (u - v).abs(), u * v], dim=1)


# ---- frozen vectors


@runtime_checkable
class PairMatcher(Protocol):
    """An encoder that also compares two texts itself."""

    matched_dim: int

    def matched(self, pairs: Sequence[TextPair]) -> FloatArray:
        """The features of each pair, ``(n, matched_dim)``."""
        ...


class FrozenPairs(Reader):
    """Pairs by the vectors of an encoder that stays as it is, compared; some encoders also match texts themselves."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder = encoder
        self.dim = 4 * encoder.dim + (encoder.matched_dim if isinstance(encoder, PairMatcher) else 0)
        self.standardised = StandardisedVectors(self.dim)
        self.net = FrozenNet(self.standardised)

    def prepare(self, inputs: Sequence[TextPair], progress: Progress = silent) -> Vectors:
        texts, places = distinct(inputs)
        vectors = torch.from_numpy(encoded_once(self.encoder, texts, progress))
        features = compared(vectors[places[:, 0]], vectors[places[:, 1]]).numpy()
        if isinstance(self.encoder, PairMatcher):
            features = np.concatenate([features, self.encoder.matched(inputs)], axis=1)
        return Vectors(features)

    def parts(self) -> Parts:
        return Parts(weights(self.standardised, "net."), {}, {}, {"encoder": self.encoder})


# ---- two texts, each read by itself


class PairBatch(NamedTuple):
    """The batches of the first and of the second texts."""

    first: Any
    second: Any


class TwoTexts(PreparedInputs):
    """Pairs as places among texts, of which each is there once."""

    most = PAIRS_AT_ONCE

    def __init__(self, texts: PreparedInputs, places: Ints) -> None:
        """``places (n, 2)`` are the numbers of the first and the second text of every pair."""
        self.texts, self.places, self.budget = texts, places, texts.budget
        self.sizes = texts.sizes[places].max(axis=1, initial=0)

    def batch(self, rows: Ints, *, learning: bool = False) -> PairBatch:
        return PairBatch(*(self.texts.batch(self.places[rows, side], learning=learning) for side in (0, 1)))


class Siamese(Reader):
    """Both texts of a pair by one encoder that learns: [u; v; |u - v|; u∗v], or what else ``join`` makes of u and v."""

    def __init__(self, learner: LearningTexts, join: Callable[[Tensor, Tensor], Tensor] = compared) -> None:
        self.learner, self.net = learner, SiameseNet(learner.net, join)
        self.dim = 1 if join is cosine else 4 * learner.dim

    def prepare(self, inputs: Sequence[TextPair], progress: Progress = silent) -> TwoTexts:
        texts, places = distinct(inputs)
        return TwoTexts(self.learner.prepare(texts, progress), places)

    def parts(self) -> Parts:
        return self.learner.parts()


class SiameseNet(nn.Module):
    """One net for both texts of a pair."""

    def __init__(self, net: nn.Module, join: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.net, self.join = net, join

    def forward(self, pair: PairBatch) -> Encoding:
        first, second = (self.net(batch) for batch in pair)
        added = [encoding.penalty for encoding in (first, second) if encoding.penalty is not None]
        return Encoding(self.join(first.vectors, second.vectors), penalty=sum(added) if added else None)


def cosine(u: Tensor, v: Tensor) -> Tensor:
    """cos(u, v): ``(B, D), (B, D) -> (B, 1)``."""
    return F.cosine_similarity(u, v)[:, None]


class Matching(Reader):
    """A matching network over the token vectors of both texts."""

    def __init__(self, inputs: Inputs, matcher: PairModule) -> None:
        self.inputs, self.dim, self.matcher = inputs, matcher.dim, matcher
        self.net = MatchingNet(inputs.module, matcher)

    def prepare(self, inputs: Sequence[TextPair], progress: Progress = silent) -> TwoTexts:
        texts, places = distinct(inputs)
        return TwoTexts(self.inputs.prepare(self.inputs.token_lists(texts), progress), places)

    def parts(self) -> Parts:
        below = self.inputs.parts()
        return Parts({**below.tensors, **weights(self.matcher, "net.")}, below.tables, {}, below.models)


class MatchingNet(nn.Module):
    """Inputs and a matching network."""

    def __init__(self, inputs: InputModule, matcher: PairModule) -> None:
        super().__init__()
        self.inputs, self.matcher = inputs, matcher

    def forward(self, pair: tuple[InputBatch, InputBatch]) -> Encoding:
        return Encoding(self.matcher(*(self.inputs(batch) for batch in pair)))


# ---- pairs as one input


class Cross(Reader):
    """A Transformer that reads both texts as one input and learns with the task: the state of the first token.

    Likeness has no order: a causal Transformer that learns scores reads a pair in both, and the states are added. Any
    Transformer can learn from pairs in a random order, which costs nothing, and give the mean of both.
    """

    def __init__(
        self,
        encoder: TransformerEncoder,
        options: Any,
        *,
        pooled: bool,
        scored: bool = False,
        keeps: str = "start",
    ) -> None:
        """``pooled``: through the pooler. ``keeps`` is the end of a first text that stays if it is too long."""
        self.encoder, self.dim, self.keeps, self.orders = encoder, encoder.dim, keeps, options.orders
        if self.orders == "auto":
            self.orders = "both" if scored and encoder.network.causal else "one"
        self.runner = Runner(encoder.network, encoder.pieces, limit=options.max_pieces)
        self.pooled = pooled
        first = FirstState(encoder.network, lm_weight=options.lm_weight, pooled=pooled)
        self.net = CrossNet(first, mean=self.orders == "random")

    def prepare(self, inputs: Sequence[TextPair], progress: Progress = silent) -> CrossPairs:
        normalised = self.encoder.segmentation.normalised
        pairs = [(normalised(_raw(first)), normalised(_raw(second))) for first, second in inputs]
        return CrossPairs(PairReader(self.runner, self.keeps), pairs, self.orders)

    def parts(self) -> Parts:
        tensors = {"pooled": np.ones(1, dtype=np.int64)} if self.pooled else {}
        return Parts(tensors, {}, {}, {"encoder": self.encoder})


def _raw(text: Sentence) -> str:
    return text if isinstance(text, str) else joined(text)


class CrossPairs(PreparedInputs):
    """Pairs cut into tokens once, in one order or in both."""

    budget, most = BATCH_PIECES, 512

    def __init__(self, reader: PairReader, pairs: Sequence[tuple[str, str]], orders: str) -> None:
        self.reader, self.orders, self.random = reader, [reader.cut(pairs)], orders == "random"
        if orders in ("both", "random"):
            self.orders.append(reader.cut([(second, first) for first, second in pairs]))
        self.sizes: Ints = np.array([len(ids) for ids, _ in self.orders[0]], dtype=np.int64)

    def batch(self, rows: Ints, *, learning: bool = False) -> list[PieceBatch]:
        """A batch for every order; to learn from pairs in a random order, one that is drawn."""
        if not (learning and self.random):
            return [self._together([pairs[row] for row in rows.tolist()]) for pairs in self.orders]
        drawn = torch.randint(2, (len(rows),)).tolist()
        return [self._together([self.orders[n][row] for n, row in zip(drawn, rows.tolist(), strict=True)])]

    def _together(self, cut: Sequence[Any]) -> PieceBatch:
        return PieceBatch(*self.reader.together(cut))


class CrossNet(nn.Module):
    """The states of a pair in all its orders, added or their mean."""

    def __init__(self, network: FirstState, *, mean: bool) -> None:
        super().__init__()
        self.network, self.mean = network, mean

    def forward(self, batch: list[PieceBatch]) -> Encoding:
        orders = [self.network(order) for order in batch]
        states = torch.stack([order.vectors for order in orders]).sum(dim=0) / (len(orders) if self.mean else 1)
        added = [order.penalty for order in orders if order.penalty is not None]
        return Encoding(states, penalty=torch.stack(added).mean(dim=0) if added else None)
