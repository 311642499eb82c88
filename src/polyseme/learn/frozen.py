"""Texts by an encoder that does not learn: it runs once, and the layers above read its vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.arrays import FloatArray, Ints
from polyseme.interfaces import Progress, Sentence, SentenceEncoder, silent
from polyseme.learn.modules import Encoding
from polyseme.learn.prepared import PreparedInputs, Reader
from polyseme.store.folder import Parts


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


def standardise(net: nn.Module, vectors: FloatArray) -> None:
    """Let these vectors, of the training inputs, have the mean 0 and the deviation 1 where a net standardises any."""
    for module in net.modules():
        if isinstance(module, StandardisedVectors):
            module.measure(vectors)


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


def encoded_once(encoder: SentenceEncoder, texts: Sequence[Sentence], progress: Progress) -> FloatArray:
    """Vectors of texts by a frozen encoder, ``(n, dim)``."""
    vectors = np.empty((len(texts), encoder.dim), dtype=np.float32)
    for number, vector in enumerate(encoder.stream(texts)):
        vectors[number] = vector
        progress("encoding", number + 1, len(texts))
    return vectors
