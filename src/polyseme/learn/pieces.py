"""Transformers that learn on whole inputs (微调 Transformer): texts, pairs as one input, passages with their questions.

A causal language model also goes on predicting the next token, as in Radford et al., "Improving Language Understanding
by Generative Pre-Training" (2018):

    loss = loss of the task - λ mean_t log p(w_t+1 | w_1 … w_t),   λ = ``lm_weight``
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import Ints
from polyseme.contexts.fine_tuning import GivenEncoder
from polyseme.contexts.transformer.encode import BATCH_PIECES, Runner
from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.contexts.transformer.network import Network, TokenBatch
from polyseme.contexts.transformer.tuning import PairReader
from polyseme.interfaces import Progress, Sentence, silent
from polyseme.learn.modules import Encoding
from polyseme.learn.prepared import PreparedInputs
from polyseme.learn.readers import Reader, TextPair
from polyseme.store.folder import Parts
from polyseme.text.spacing import joined


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
    """The top state at the first token of each input; of a causal network, at the last."""

    def forward(self, batch: PieceBatch) -> Encoding:
        states = self.states(batch, first_only=True)
        return Encoding(states.first, penalty=states.added)


# ---- pairs as one input


class Cross(Reader):
    """A Transformer that reads both texts as one input and learns with the task: the state of the first token.

    Likeness has no order: a causal Transformer that learns scores reads a pair in both, and the states are added. Any
    Transformer can learn from pairs in a random order, which costs nothing, and give the mean of both.
    """

    def __init__(
        self, encoder: TransformerEncoder, options: Any, *, scored: bool = False, keeps: str = "start"
    ) -> None:
        """``keeps`` is the end of a first text that stays if it is too long."""
        self.encoder, self.dim, self.keeps, self.orders = encoder, encoder.dim, keeps, options.orders
        if self.orders == "auto":
            self.orders = "both" if scored and encoder.network.causal else "one"
        self.runner = Runner(encoder.network, encoder.pieces, limit=options.max_pieces)
        self.net = CrossNet(FirstState(encoder.network, lm_weight=options.lm_weight), mean=self.orders == "random")

    def prepare(self, inputs: Sequence[TextPair], progress: Progress = silent) -> CrossPairs:
        normalised = self.encoder.segmentation.normalised
        pairs = [(normalised(_raw(first)), normalised(_raw(second))) for first, second in inputs]
        return CrossPairs(PairReader(self.runner, self.keeps), pairs, self.orders)

    def parts(self) -> Parts:
        return Parts({}, {}, {}, {"encoder": self.encoder})


def _raw(text: Sentence) -> str:
    return text if isinstance(text, str) else joined(text)


class CrossPairs(PreparedInputs):
    """Pairs cut into tokens once, in one order or in both."""

    budget, most = BATCH_PIECES, 512

    def __init__(self, reader: PairReader, pairs: Sequence[tuple[str, str]], orders: str) -> None:
        self.reader, self.orders, self.random = reader, [reader.cut(pairs)], orders == "random"
        if orders in ("both", "random"):
            self.orders.append(reader.cut([(second, first) for first, second in pairs]))
        self.sizes: Ints = np.array([len(ids) for ids, _ in self.orders[0]], dtype=np.int64)

    def batch(self, rows: Ints, *, learning: bool = False) -> list[PieceBatch]:
        """A batch for every order; to learn from pairs in a random order, one that is drawn."""
        if not (learning and self.random):
            return [self._together([pairs[row] for row in rows.tolist()]) for pairs in self.orders]
        drawn = torch.randint(2, (len(rows),)).tolist()
        return [self._together([self.orders[n][row] for n, row in zip(drawn, rows.tolist(), strict=True)])]

    def _together(self, cut: Sequence[Any]) -> PieceBatch:
        return PieceBatch(*self.reader.together(cut))


class CrossNet(nn.Module):
    """The states of a pair in all its orders, added or their mean."""

    def __init__(self, network: FirstState, *, mean: bool) -> None:
        super().__init__()
        self.network, self.mean = network, mean

    def forward(self, batch: list[PieceBatch]) -> Encoding:
        orders = [self.network(order) for order in batch]
        states = torch.stack([order.vectors for order in orders]).sum(dim=0) / (len(orders) if self.mean else 1)
        added = [order.penalty for order in orders if order.penalty is not None]
        return Encoding(states, penalty=torch.stack(added).mean(dim=0) if added else None)
