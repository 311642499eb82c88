"""Several encoders as one 拼接: their vectors concatenated, [x; ELMo], [GloVe; CoVe]."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import tee
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from polyseme.errors import OptionError, altered_model
from polyseme.interfaces import ContextEncoder, EncodedSentence, LayerChoice, Layers, Sentence
from polyseme.options import option
from polyseme.store.folder import Parts
from polyseme.store.model import About, Model

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class StackOptions:
    """Which layer to take from each encoder."""

    layers: tuple[LayerChoice, ...] | None = option(
        None, "layer of each encoder (top, mean, mix or a number); default: all layers, concatenated"
    )


class Stack(Model, ContextEncoder):
    """Concatenates the vectors of several encoders; raw text is tokenised by the first of them.

    The layer of an encoder with one layer is concatenated to every layer of the others. ``layers`` chooses one layer of
    each encoder (``top``, ``mean``, ``mix`` or a number); the stack then has one layer.
    """

    method: ClassVar[str] = "stack"
    Options: ClassVar[type] = StackOptions

    def __init__(
        self,
        encoders: Sequence[ContextEncoder],
        *,
        layers: Sequence[LayerChoice] | None = None,
        about: About | None = None,
    ) -> None:
        if not encoders:
            raise OptionError("a stack needs at least one encoder")
        if layers is not None and len(layers) != len(encoders):
            raise OptionError("a stack's layers must be one choice per encoder: top, mean, mix or a number")
        for encoder, choice in zip(encoders, layers or (), strict=False):
            if Layers.read(choice, encoder.n_layers).n_planes > 1:
                raise OptionError("a stack takes one layer per encoder: top, mean, mix or a number, not 'all'")
        counts = {encoder.n_layers for encoder in encoders} - {1}
        if layers is None and len(counts) > 1:
            raise OptionError(f"encoders with {sorted(counts)} layers cannot be stacked: choose the layers of each")
        self.options = StackOptions(None if layers is None else tuple(layers))
        self.about = about or About.of(encoders[0])
        self.encoders = list(encoders)
        self.dim = sum(encoder.dim for encoder in encoders)
        self.n_layers = 1 if layers is not None else max(encoder.n_layers for encoder in encoders)

    def tokenize(self, text: str) -> list[str]:
        """Tokenise as the first encoder does."""
        return self.encoders[0].tokenize(text)

    def tokenize_all(self, texts: Sequence[Sentence]) -> list[list[str]]:
        """Tokenise as the first encoder does."""
        return self.encoders[0].tokenize_all(texts)

    def encode_tokens(self, sentences: Iterable[Sentence], *, layers: LayerChoice = "all") -> Iterator[EncodedSentence]:
        """Vectors ``(L, tokens, Σ dim)``."""
        Layers.read(layers, self.n_layers)
        # The choice applies to the encoders with several layers.
        shared = ["all" if encoder.n_layers == 1 else layers for encoder in self.encoders]
        return self._joined(self.token_lists(sentences), self.options.layers or shared)

    def _joined(self, lists: Iterator[list[str]], choices: Sequence[LayerChoice]) -> Iterator[EncodedSentence]:
        copies = tee(lists, len(self.encoders))
        streams = [e.encode_tokens(c, layers=n) for e, c, n in zip(self.encoders, copies, choices, strict=True)]
        for readings in zip(*streams, strict=True):
            planes = max(len(reading.layers) for reading in readings)
            parts = [np.broadcast_to(reading.layers, (planes, *reading.layers.shape[1:])) for reading in readings]
            yield EncodedSentence(readings[0].tokens, np.concatenate(parts, axis=2))

    def parts(self) -> Parts:
        """The encoders, in their order."""
        return Parts(models={f"encoder{number}": encoder for number, encoder in enumerate(self.encoders)})

    @classmethod
    def from_parts(cls, options: StackOptions, parts: Parts, about: About) -> Self:
        encoders = [parts.model(f"encoder{number}", ContextEncoder) for number in range(len(parts.models))]
        try:
            return cls(encoders, layers=options.layers, about=about)
        except OptionError as error:
            raise altered_model(str(error)) from None
