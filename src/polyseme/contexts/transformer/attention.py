"""Attention between the words of a sentence (词间注意力), in every layer and head of a Transformer.

Attention between subwords becomes attention between words as in Clark et al., "What Does BERT Look At?", 2019:
attention *to* a word is the sum over its subwords, attention *from* a word the mean over them. Special tokens are left
out, so a row sums to one minus the attention to them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch

from polyseme.contexts.transformer.network import Batch, Network
from polyseme.contexts.transformer.tokenizer import Ints
from polyseme.errors import OptionError
from polyseme.interfaces import FloatArray


@dataclass(frozen=True)
class Attention:
    """The attention weights between the words of a sentence."""

    tokens: list[str]
    weights: FloatArray  # (layers, heads, from, to)


class Attending:
    """A copy of a network that returns its attention; it shares the weights of the original."""

    def __init__(self, network: Network) -> None:
        whole = network.whole
        shared = {id(tensor): tensor for tensor in (*whole.parameters(), *whole.buffers())}
        self.network = copy.copy(network)
        self.network._modules = {"whole": copy.deepcopy(whole, shared)}
        self.network.whole.set_attn_implementation("eager")  # faster implementations do not return the weights

    @torch.inference_mode()
    def weights(self, batch: Batch, words: Ints) -> FloatArray:
        """``(layers, heads, words, words)`` for a batch of one row; ``words (W, 2)``: start and end of each word."""
        found = self.network.attentions(batch)
        known = [layer[0] for layer in found if layer is not None]
        if not known or len(known) < len(found):
            raise OptionError(f"a {self.network.whole.config.model_type} does not return its attention")
        pieces = torch.stack(known).float().numpy()  # (L, H, T, T)
        return between_words(pieces, words)


def between_words(pieces: FloatArray, words: Ints) -> FloatArray:
    """``(L, H, T, T) -> (L, H, W, W)``: sums over the subwords attended to, means over those that attend."""
    member = np.zeros((len(words), pieces.shape[-1]), dtype=np.float32)
    for word, (first, last) in enumerate(words.tolist()):
        member[word, first:last] = 1
    looking = member / np.maximum(member.sum(axis=1, keepdims=True), 1)
    return np.asarray(looking @ pieces @ member.T, dtype=np.float32)
