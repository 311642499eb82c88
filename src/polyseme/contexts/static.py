"""Static vectors as a context encoder 静态词向量: the word vector of each token, whatever its context."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from polyseme.arrays import FloatArray, filled_rows
from polyseme.interfaces import (
    ContextEncoder,
    EncodedSentence,
    LayerChoice,
    Layers,
    Sentence,
    WordVectorsInterface,
    pages,
)
from polyseme.store.folder import Parts
from polyseme.store.model import About, Model

if TYPE_CHECKING:
    from typing_extensions import Self

TOKENS_AT_ONCE = 4096  # looked up together


def looked_up(vectors: WordVectorsInterface, names: Sequence[str]) -> FloatArray:
    """Vectors of words, ``(n, D)``: a word without one gets that of its lowercase form, or zeros."""
    rows = vectors.lookup(names)
    missing = [place for place in np.flatnonzero(~filled_rows(rows)).tolist() if names[place] != names[place].lower()]
    rows[missing] = vectors.lookup([names[place].lower() for place in missing])
    return rows


@dataclass(frozen=True)
class StaticOptions:
    """No options: everything is in the word vectors."""


class StaticEncoder(Model, ContextEncoder):
    """One layer: the word vector of each token, or that of its lowercase form; zeros for a word with neither."""

    method: ClassVar[str] = "static"
    Options: ClassVar[type] = StaticOptions
    n_layers = 1

    def __init__(
        self, words: WordVectorsInterface, *, options: StaticOptions | None = None, about: About | None = None
    ) -> None:
        self.words = words
        self.options = options or StaticOptions()
        self.about = about or About.of(words)
        self.dim = words.vector_size

    def encode_tokens(self, sentences: Iterable[Sentence], *, layers: LayerChoice = "all") -> Iterator[EncodedSentence]:
        """Vectors ``(1, tokens, dim)``, whatever the choice of layers."""
        Layers.read(layers, self.n_layers)
        return self._encoded(self.token_lists(sentences))

    def _encoded(self, lists: Iterator[list[str]]) -> Iterator[EncodedSentence]:
        """Looks up the words of many sentences together, since one call costs as much as a hundred words."""
        for page in pages(lists, TOKENS_AT_ONCE):
            vectors = looked_up(self.words, list(chain.from_iterable(page)))[None]  # (1, T, D)
            end = 0
            for tokens in page:
                start, end = end, end + len(tokens)
                yield EncodedSentence(tokens, vectors[:, start:end].copy())

    def parts(self) -> Parts:
        """The word vectors, as a model of their own."""
        return Parts(models={"words": self.words})

    @classmethod
    def from_parts(cls, options: StaticOptions, parts: Parts, about: About) -> Self:
        return cls(parts.model("words", WordVectorsInterface), options=options, about=about)
