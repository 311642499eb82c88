"""Fine-tuning a biLM with a task."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.contexts.elmo.alphabet import Alphabet
from polyseme.contexts.elmo.bilm import BiLM, Tokens


class ElmoReader:
    """Turns sentences into the input of a biLM: the distinct words of a batch, and the word at each position."""

    def __init__(self, alphabet: Alphabet) -> None:
        self.alphabet = alphabet

    def __call__(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, ...]:
        """Character ids and lengths of the distinct words, word ids, word index ``(B, T + 2)``, sentence lengths."""
        bos, eos = self.alphabet.bos, self.alphabet.eos
        number: dict[str, int] = {}
        lengths = [len(sentence) + 2 for sentence in sentences]
        index = np.zeros((len(sentences), max(lengths)), dtype=np.int64)
        for row, sentence in enumerate(sentences):
            words = chain((bos,), sentence, (eos,))
            index[row, : lengths[row]] = [number.setdefault(word, len(number)) for word in words]
        tokens = Tokens.of(self.alphabet, list(number))
        none = torch.empty(0, dtype=torch.int64)
        return (
            none if tokens.characters is None else tokens.characters,
            none if tokens.lengths is None else torch.from_numpy(tokens.lengths),
            none if tokens.words is None else tokens.words,
            torch.from_numpy(index),
            torch.tensor(lengths),
        )


class ElmoLayers(nn.Module):
    """The chosen layers of a biLM, without sentence boundaries."""

    def __init__(self, bilm: BiLM, wanted: Sequence[int]) -> None:
        super().__init__()
        self.bilm, self.wanted = bilm, list(wanted)

    def forward(self, letters: Tensor, sizes: Tensor, names: Tensor, index: Tensor, lengths: Tensor) -> Tensor:
        """The layers, ``(B, T, L, D)``."""
        tokens = Tokens(
            letters if len(letters) else None,
            sizes.cpu().numpy() if len(sizes) else None,
            names if len(names) else None,
        )
        layers, _ = self.bilm(tokens, index, lengths.tolist())  # (L, B, T + 2, D)
        found: Tensor = layers[self.wanted, :, 1:-1].permute(1, 2, 0, 3)
        return found
