"""Sentence vectors from word vectors in context (池化): the mean, the maximum, the first or the last token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from polyseme.errors import OptionError
from polyseme.nouns import ContextEncoder, FloatArray, Sentence, SentenceEncoder

POOLINGS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "mean": lambda plane: plane.mean(axis=0, dtype=np.float64).astype(np.float32),
    "max": lambda plane: plane.max(axis=0),
    "first": lambda plane: plane[0],
    "last": lambda plane: plane[-1],
}  # each (tokens, dim) → (dim,)


class Pooled(SentenceEncoder):
    """A context encoder as a sentence encoder. A text without a single token gets the zero vector."""

    def __init__(self, encoder: ContextEncoder, pooling: str = "mean", *, layers: str | int = "mean") -> None:
        if pooling not in POOLINGS:
            raise OptionError(f"pooling is one of {', '.join(POOLINGS)}; not {pooling!r}")
        if layers == "all":
            raise OptionError("a sentence vector is made of one layer: top, mean, mix or a number")
        self.encoder, self.pooling, self.layers = encoder, pooling, layers
        self.dim = encoder.dim

    def encode(self, texts: Iterable[Sentence]) -> FloatArray:
        """Vectors of the texts, ``(n, dim)``."""
        rows = list(self.stream(texts))
        return np.stack(rows) if rows else np.zeros((0, self.dim), dtype=np.float32)

    def stream(self, texts: Iterable[Sentence]) -> Iterator[FloatArray]:
        """The same one by one, for texts without end."""
        pool = POOLINGS[self.pooling]
        for sentence in self.encoder.encode_tokens(texts, layers=self.layers):
            plane = sentence.layers[0]
            yield pool(plane) if len(plane) else np.zeros(self.dim, dtype=np.float32)
