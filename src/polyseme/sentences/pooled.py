"""Vectors of texts from vectors of their words in context 池化: the mean, the maximum, the first or the last token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from polyseme.errors import FormatError, OptionError
from polyseme.nouns import ContextEncoder, FloatArray, LayerChoice, Layers, Sentence, SentenceEncoder, several
from polyseme.options import make_options, option
from polyseme.store.folder import Parts
from polyseme.store.model import About, Model

if TYPE_CHECKING:
    from typing_extensions import Self

POOLS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "mean": lambda plane: plane.mean(axis=0, dtype=np.float64).astype(np.float32),
    "max": lambda plane: plane.max(axis=0),
    "first": lambda plane: plane[0],
    "last": lambda plane: plane[-1],
}  # each (tokens, dim) → (dim,)


@dataclass(frozen=True)
class PooledOptions:
    """How the vectors of tokens become one."""

    pool: str = option("mean", "how the vectors of the tokens become one", choices=tuple(POOLS))
    layers: str = option("mean", "the layer that is pooled: top, mean, mix or a number")


class Pooled(Model, SentenceEncoder):
    """A context encoder as a sentence encoder. A text without a single token gets the zero vector."""

    method: ClassVar[str] = "pooled"
    Options: ClassVar[type] = PooledOptions
    options: PooledOptions

    def __init__(
        self,
        encoder: ContextEncoder,
        pool: str = "mean",
        *,
        layers: LayerChoice = "mean",
        about: About | None = None,
    ) -> None:
        self.options = make_options(PooledOptions, {"pool": pool, "layers": str(layers)})
        if layers == "all":
            raise OptionError("a sentence vector is made of one layer: top, mean, mix or a number")
        Layers.read(layers, encoder.n_layers)
        self.about = about or About.of(encoder)
        self.encoder = encoder
        self.dim = encoder.dim

    def tokenize(self, text: str) -> list[str]:
        """As the encoder does."""
        return self.encoder.tokenize(text)

    def encode_batch(self, texts: list[Sentence]) -> FloatArray:
        """Vectors of the texts, ``(n, dim)``."""
        return np.stack(list(self.stream(texts)))

    def stream(self, texts: Iterable[Sentence]) -> Iterator[FloatArray]:
        """The same one by one, for texts without end."""
        pool, encoded = POOLS[self.options.pool], self.encoder.encode_tokens(several(texts), layers=self.options.layers)
        for sentence in encoded:
            plane = sentence.layers[0]
            yield pool(plane) if len(plane) else np.zeros(self.dim, dtype=np.float32)

    def parts(self) -> Parts:
        """The encoder, as a model of its own."""
        return Parts(models={"encoder": self.encoder})

    @classmethod
    def from_parts(cls, options: PooledOptions, parts: Parts, about: About) -> Self:
        encoder = parts.models.get("encoder")
        if not isinstance(encoder, ContextEncoder):
            raise FormatError("the model folder was altered: it has no context encoder in encoder/")
        try:
            return cls(encoder, options.pool, layers=options.layers, about=about)
        except OptionError as error:
            raise FormatError(f"the model folder was altered: {error}") from None
