"""A Transformer fine-tuned with a task as a sentence encoder (微调): its own pooling and layers, on whole batches.

    v = f(W · pool_t h_t + b),   the encoder's steps after the pooling, but without a normalisation at their end

A causal language model reads ``<start> text <end>``; v is its last state, and it is also trained to predict the next
token, as in Radford et al., "Improving Language Understanding by Generative Pre-Training" (2018):

    loss = -log p(label | v) - λ mean_t log p(w_t+1 | w_1 … w_t),   λ = ``lm_weight``

A layer above vectors of length one would learn slowly, so the last normalisation is omitted. Texts are tokenized once;
if a text has more than ``max_pieces`` subwords, its middle is omitted (Sun et al., "How to Fine-Tune BERT for Text
Classification?", 2019, found both ends more informative than the beginning alone).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from polyseme.contexts.fine_tuning import Given
from polyseme.contexts.transformer.encode import BATCH_PIECES
from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.contexts.transformer.network import Network, TokenBatch
from polyseme.contexts.transformer.tuning import learns_to_expect, surprise
from polyseme.interfaces import Progress, Sentence, silent
from polyseme.learn.inputs import copied
from polyseme.learn.modules import Encoding
from polyseme.learn.token_vectors import Ints
from polyseme.sentences.transformer import Normalise, SentenceTransformer, SentenceTransformerOptions, Step
from polyseme.store.model import About


def encoder_to_tune(
    given: SentenceTransformer | TransformerEncoder, max_pieces: int, about: About
) -> SentenceTransformer:
    """A copy of a Transformer as an encoder with one vector per text; training it does not change the given one."""
    one: Any = copied(given)
    steps: list[Step] = []
    options = SentenceTransformerOptions()
    if isinstance(one, SentenceTransformer):
        inner, modes, steps, options = one.encoder, one.pooling.modes, list(one.steps), one.options
        while steps and isinstance(steps[-1], Normalise):
            steps.pop()
    else:
        inner, modes = one, ("lasttoken",) if one.network.causal else ("mean",)
    most = min(max_pieces, options.max_pieces or max_pieces)
    options = dataclasses.replace(options, max_pieces=most, long_texts="ends", marks=inner.network.causal)
    return SentenceTransformer(inner, modes, steps, options=options, about=about)


@dataclass(frozen=True)
class PieceBatch:
    """A batch of texts for the network, and the number of tokens of each."""

    batch: TokenBatch
    lengths: list[int]

    def to(self, device: torch.device) -> PieceBatch:
        """The batch on this device."""
        if device.type == "cpu":
            return self
        mask = self.batch.mask
        return PieceBatch(
            TokenBatch(self.batch.ids.to(device), None if mask is None else mask.to(device)), self.lengths
        )


class PieceTexts:
    """Texts as subword ids, from which batches are made."""

    def __init__(self, encoder: SentenceTransformer, texts: Sequence[Sentence]) -> None:
        self.runner, self.sequences = encoder.runner, encoder.sequences(texts)
        around = len(self.runner.pieces.before) + len(self.runner.pieces.behind)
        self.sizes: Ints = np.array([len(ids) + around for ids in self.sequences], dtype=np.int64)

    def batch(self, rows: Ints) -> PieceBatch:
        """A batch of some of the texts."""
        return PieceBatch(self.runner.together([self.sequences[row] for row in rows]), self.sizes[rows].tolist())


class TextNet(Given):
    """The network, the pooling and the steps of an encoder."""

    network: Network

    def __init__(self, encoder: SentenceTransformer, lm_weight: float = 0.0) -> None:
        network = encoder.encoder.network
        super().__init__(network, network.layer_names)
        self.pooling = encoder.pooling
        self.steps = nn.Sequential(*encoder.steps)
        self.lm_weight = lm_weight if learns_to_expect(self.network) else 0.0

    def forward(self, texts: PieceBatch) -> Encoding:
        top = self.network(texts.batch)[-1]  # (B, T, D)
        nothing = top.new_zeros(self.pooling.out)
        rows = zip(top, texts.lengths, strict=True)
        pooled = torch.stack([self.pooling(states[:length]) if length else nothing for states, length in rows])
        penalty = None
        if self.training and self.lm_weight:
            lengths = torch.tensor(texts.lengths, device=top.device)
            penalty = self.lm_weight * surprise(self.network, top, texts.batch.ids, lengths)
        return Encoding(self.steps(pooled), penalty=penalty)

    def penalty(self) -> float:
        """Always 0: nothing is added to the loss."""
        return 0.0


class TunedTexts:
    """An encoder to fine-tune, with the interface that training on examples needs."""

    at_once = BATCH_PIECES

    def __init__(self, encoder: SentenceTransformer, options: Any, lm_weight: float = 0.0) -> None:
        self.encoder, self.options, self.dim = encoder, options, encoder.dim
        self.net = TextNet(encoder, lm_weight)

    def prepare(self, texts: Sequence[Sentence], progress: Progress = silent) -> PieceTexts:
        """Texts as subword ids, ready for batches."""
        return PieceTexts(self.encoder, texts)
