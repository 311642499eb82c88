"""Transformers that learn on whole inputs (微调 Transformer): texts, pairs as one input, passages with their questions.

A causal language model also goes on predicting the next token, as in Radford et al., "Improving Language Understanding
by Generative Pre-Training" (2018):

    loss = loss of the task - λ mean_t log p(w_t+1 | w_1 … w_t),   λ = ``lm_weight``
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from polyseme.contexts.fine_tuning import GivenEncoder
from polyseme.contexts.transformer.network import Network, TokenBatch
from polyseme.learn.modules import Encoding


class PieceBatch(NamedTuple):
    """Inputs in tokens ``(B, P)``."""

    ids: Tensor
    mask: Tensor  # 0 at padding
    types: Tensor | None = None  # 0 in the first text of a pair, 1 in the second


class States(NamedTuple):
    """What a Transformer makes of a batch."""

    top: Tensor  # (B, P, D) of the top layer
    lengths: Tensor  # (B,)
    first: Tensor  # (B, D) at the first token; of a causal network, at the last
    added: Tensor | None  # (B,) to be added to the losses


class PieceNet(GivenEncoder):
    """A Transformer that learns; a causal language model with its own loss beside the task's."""

    network: Network

    def __init__(self, network: Network, *, lm_weight: float = 0.0) -> None:
        super().__init__(network, network.layer_names)
        self.lm_weight = lm_weight if network.is_causal_lm and network.reads_head else 0.0

    def states(self, batch: PieceBatch, *, first_only: bool = False) -> States:
        """The states of the top layer; with ``first_only`` those of other tokens may be wrong, which saves time."""
        network, rows = self.network, torch.arange(len(batch.ids), device=batch.ids.device)
        lengths = batch.mask.sum(dim=1)  # (B,)
        places = lengths - 1 if network.causal else torch.zeros_like(rows)
        mask = None if bool(batch.mask.all()) else batch.mask
        types = batch.types if batch.types is not None and bool(batch.types.any()) else None
        tokens = TokenBatch(batch.ids, mask, types)
        expects = self.training and bool(self.lm_weight)
        if first_only and self.training and not expects:
            top = network.top_at(tokens, rows, places)  # (B, P, D)
        else:
            top = network.top(tokens)
        added = self.lm_weight * surprise(network, top, batch.ids, lengths) if expects else None
        return States(top, lengths, top[rows, places], added)


def surprise(network: Network, top: Tensor, ids: Tensor, lengths: Tensor) -> Tensor:
    """The mean -log p(next token) of each input, from its top layer: ``(B, P, D) -> (B,)``."""
    behind = lengths - 1  # number of predictions
    real = torch.arange(top.shape[1] - 1, device=top.device) < behind.unsqueeze(1)  # (B, P - 1)
    losses = F.cross_entropy(network.head(top[:, :-1][real]), ids[:, 1:][real], reduction="none")
    return losses.new_zeros(len(top)).index_add(0, real.nonzero()[:, 0], losses) / behind.clamp_min(1)


class FirstState(PieceNet):
    """The top state at the first token of each input, through the network's pooler; of a causal one, at the last."""

    def __init__(self, network: Network, *, lm_weight: float = 0.0, pooled: bool = False) -> None:
        super().__init__(network, lm_weight=lm_weight)
        self.pooled = pooled

    def forward(self, batch: PieceBatch) -> Encoding:
        states = self.states(batch, first_only=True)
        return Encoding(self.network.pooled(states.first) if self.pooled else states.first, penalty=states.added)
