"""Readers: what turns inputs into batches, and the network below the output layer that learns with a task.

frozen     vectors of texts by an encoder that stays as it is and runs once
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
from polyseme.data.examples import Examples
from polyseme.interfaces import Progress, Sentence, SentenceEncoder, silent
from polyseme.learn.inputs import InputBatch, InputModule, Inputs
from polyseme.learn.modules import Encoding, PairModule, compared, weights
from polyseme.learn.prepared import PreparedInputs
from polyseme.store.folder import Parts

TextPair = tuple[Sentence, Sentence]
PAIRS_AT_ONCE = 512


class InputReader(Protocol):
    """Inputs → batches."""

    def prepare(self, inputs: Sequence[Any], progress: Progress = silent, /) -> PreparedInputs:
        """Look at all inputs once."""
        ...

    def parts(self) -> Parts:
        """What a task's folder keeps of it."""
        ...


class Reader(ABC):
    """Inputs → batches; ``net`` learns with the task, where anything below the output layer does."""

    dim: int  # of the vectors that the net gives
    net: nn.Module  # from a batch to an ``Encoding``

    @abstractmethod
    def prepare(self, inputs: Sequence[Any], progress: Progress = silent) -> PreparedInputs:
        """Look at all inputs once."""

    @abstractmethod
    def parts(self) -> Parts:
        """What a task's folder keeps of it."""


class TextLearner(Protocol):
    """An encoder of texts that learns with a task."""

    dim: int

    @property
    def net(self) -> nn.Module:
        """The network from a batch to an ``Encoding``."""
        ...

    def prepare(self, texts: Sequence[Sentence], progress: Progress = silent) -> PreparedInputs:
        """Look at all texts once."""
        ...


class Learner(Reader):
    """Texts by an encoder that learns; the folder keeps the ``encoder``."""

    def __init__(self, learner: TextLearner, encoder: Any = None) -> None:
        """``encoder`` is the model to keep, if it is not the learner itself."""
        self.learner, self.encoder = learner, learner if encoder is None else encoder
        self.dim, self.net = learner.dim, learner.net

    def prepare(self, inputs: Sequence[Sentence], progress: Progress = silent) -> PreparedInputs:
        return self.learner.prepare(inputs, progress)

    def parts(self) -> Parts:
        return Parts({}, {}, {}, {"encoder": self.encoder})


# ---- frozen vectors


class Vectors(PreparedInputs):
    """Vectors that do not learn."""

    def __init__(self, vectors: FloatArray) -> None:
        self.vectors: FloatArray = vectors
        self.sizes = np.ones(len(vectors), dtype=np.int64)

    def batch(self, rows: Ints, *, learning: bool = False) -> Tensor:
        return torch.from_numpy(self.vectors[rows])


class StandardisedVectors(nn.Module):
    """Vectors of a frozen encoder, each number less its mean and over its deviation in the training texts."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("deviation", torch.ones(dim))
        self.mean: Tensor
        self.deviation: Tensor

    def measure(self, vectors: FloatArray) -> None:
        """Take mean and deviation from these vectors; a constant number stays what it is."""
        deviation = vectors.std(axis=0)
        self.mean.copy_(torch.from_numpy(vectors.mean(axis=0)))
        self.deviation.copy_(torch.from_numpy(np.where(deviation > 1e-6, deviation, 1).astype(np.float32)))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.deviation


def standardise(net: nn.Module, prepared: PreparedInputs) -> None:
    """Let frozen vectors have the mean 0 and the deviation 1 in these inputs, where a net standardises any."""
    for module in net.modules():
        if isinstance(module, StandardisedVectors) and prepared.vectors is not None:
            module.measure(prepared.vectors)


class FrozenNet(nn.Module):
    """Vectors as they are, or standardised."""

    def __init__(self, standardised: StandardisedVectors | None) -> None:
        super().__init__()
        self.standardised = standardised

    def forward(self, vectors: Tensor) -> Encoding:
        return Encoding(vectors if self.standardised is None else self.standardised(vectors))


class FrozenTexts(Reader):
    """Texts by an encoder that stays as it is; the layer above standardises their vectors."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder, self.dim, self.net = encoder, encoder.dim, FrozenNet(None)

    def prepare(self, inputs: Sequence[Sentence], progress: Progress = silent) -> Vectors:
        return Vectors(encoded_once(self.encoder, inputs, progress))

    def parts(self) -> Parts:
        return Parts({}, {}, {}, {"encoder": self.encoder})


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


def encoded_once(encoder: SentenceEncoder, texts: Sequence[Sentence], progress: Progress) -> FloatArray:
    """Vectors of texts by a frozen encoder, ``(n, dim)``."""
    vectors = np.empty((len(texts), encoder.dim), dtype=np.float32)
    for number, vector in enumerate(encoder.stream(texts)):
        vectors[number] = vector
        progress("encoding", number + 1, len(texts))
    return vectors


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


class Siamese(Reader):
    """Both texts of a pair by one encoder that learns: [u; v; |u - v|; u∗v], or what else ``join`` makes of u and v."""

    def __init__(self, learner: Learner, join: Callable[[Tensor, Tensor], Tensor] = compared) -> None:
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
