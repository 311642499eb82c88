"""Word vectors as a context encoder whose vectors do not depend on the context."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from polyseme.errors import OptionError
from polyseme.nouns import ContextEncoder, EncodedSentence, Sentence, WordLookup


class StaticEncoder(ContextEncoder):
    """One layer: each token's word vector; zeros for a word that has none."""

    n_layers = 1

    def __init__(self, words: WordLookup) -> None:
        self.words = words
        self.dim = words.vector_size

    def tokenize(self, text: str) -> list[str]:
        """As the word vectors' own text was cut."""
        return self.words.tokenize(text)

    def encode_tokens(self, sentences: Iterable[Sentence], *, layers: str | int = "all") -> Iterator[EncodedSentence]:
        """Vectors ``(1, tokens, dim)``; every choice of layers is the same one."""
        if layers not in ("all", "top", "mean", "mix", 0, "0"):
            raise OptionError(f"word vectors have one layer, 0; not {layers!r}")
        return map(self._encoded, sentences)

    def _encoded(self, sentence: Sentence) -> EncodedSentence:
        tokens = self.tokenize(sentence) if isinstance(sentence, str) else list(sentence)
        plane = np.zeros((1, len(tokens), self.dim), dtype=np.float32)
        for place, token in enumerate(tokens):
            if token in self.words:
                plane[0, place] = self.words[token]
        return EncodedSentence(tokens, plane)
