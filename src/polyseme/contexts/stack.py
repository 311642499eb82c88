"""Several encoders as one, their vectors side by side: [x; ELMo], [GloVe; CoVe]."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import tee

import numpy as np

from polyseme.errors import OptionError
from polyseme.nouns import ContextEncoder, EncodedSentence, Sentence


class Stack(ContextEncoder):
    """Concatenates encoders token by token; raw text is cut as the first of them cuts it.

    An encoder of one layer stands beside every layer of the others. ``layers`` gives each encoder its own choice
    (``top``, ``mean``, ``mix`` or a number); the stack then has one layer.
    """

    def __init__(self, encoders: Sequence[ContextEncoder], *, layers: Sequence[str | int] | None = None) -> None:
        if not encoders:
            raise OptionError("a stack needs at least one encoder")
        if layers is not None and (len(layers) != len(encoders) or "all" in layers):
            raise OptionError("a stack's layers are one choice for each encoder: top, mean, mix or a number")
        counts = {encoder.n_layers for encoder in encoders} - {1}
        if layers is None and len(counts) > 1:
            raise OptionError(f"encoders of {sorted(counts)} layers do not stack: give each its layers")
        self.encoders, self.layers = list(encoders), layers
        self.dim = sum(encoder.dim for encoder in encoders)
        self.n_layers = 1 if layers is not None else max(encoder.n_layers for encoder in encoders)

    def tokenize(self, text: str) -> list[str]:
        """As the first encoder does."""
        return self.encoders[0].tokenize(text)

    def encode_tokens(self, sentences: Iterable[Sentence], *, layers: str | int = "all") -> Iterator[EncodedSentence]:
        """Vectors ``(L, tokens, Σ dim)``."""
        if self.layers is not None:
            if layers not in ("all", "top", "mean", "mix", 0, "0"):
                raise OptionError(f"this stack has one layer, 0; not {layers!r}")
            choices: Sequence[str | int] = self.layers
        else:  # a number means that layer of those that have it
            choices = ["all" if encoder.n_layers == 1 else layers for encoder in self.encoders]
        lists = (self.tokenize(s) if isinstance(s, str) else list(s) for s in sentences)
        copies = tee(lists, len(self.encoders))
        streams = [e.encode_tokens(c, layers=n) for e, c, n in zip(self.encoders, copies, choices, strict=True)]
        for found in zip(*streams, strict=True):
            planes = max(len(one.layers) for one in found)
            parts = [np.broadcast_to(one.layers, (planes, *one.layers.shape[1:])) for one in found]
            yield EncodedSentence(found[0].tokens, np.concatenate(parts, axis=2))
