"""The words of a text as a biLM reads and predicts them, looked up once for the whole text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from polyseme.contexts.elmo.alphabet import Alphabet
from polyseme.contexts.elmo.bilm import TokenEncoder
from polyseme.neural.cnn import spelling_maxima
from polyseme.neural.highway import highways_with_gradient


class Reader:
    """Every word of a text by its number there; behind the words come the two boundaries of a sentence."""

    def __init__(self, words: Sequence[str], alphabet: Alphabet, classes: Sequence[str]) -> None:
        """``classes`` are the words of the softmax; unknown, begin and end follow them."""
        whole = [*words, alphabet.bos, alphabet.eos]
        self.alphabet, self.classes = alphabet, list(classes)
        number = {word: i for i, word in enumerate(classes)}
        unknown = len(classes)
        self.class_of = np.array([*(number.get(word, unknown) for word in words), unknown + 1, unknown + 2])
        if alphabet.spells:
            self.letters, self.lengths = alphabet.spell_all(whole)
        if alphabet.names:
            self.names = torch.from_numpy(alphabet.name_all(whole))

    def vectors(self, encoder: TokenEncoder, words: NDArray[np.int64]) -> Tensor:
        """Vectors ``(W, P)`` of distinct words. The table of word vectors gets a sparse gradient."""
        which = torch.from_numpy(words)
        found = []
        if self.alphabet.names:
            found.append(F.embedding(self.names[which], encoder.words, sparse=True))
        if self.alphabet.spells:
            found.append(self._spelt(encoder, words))
        x = torch.cat(found, dim=1) if len(found) > 1 else found[0]
        return x if encoder.projection is None else encoder.projection(x)

    def _spelt(self, encoder: TokenEncoder, words: NDArray[np.int64]) -> Tensor:
        lengths = self.lengths[words]
        letters = self.letters[words, : int(lengths.max(initial=0))]
        table = encoder.characters
        if table.device.type != "cpu" or table.dtype != torch.float32:
            return encoder.spelt(torch.from_numpy(letters).to(table.device), lengths)
        slots, table = encoder.config.max_characters, encoder.characters
        x = spelling_maxima(letters, lengths, slots, table, encoder.convolutions)
        x = torch.relu(x) if encoder.config.activation == "relu" else torch.tanh(x)
        return highways_with_gradient(encoder.transforms, encoder.gates, x)
