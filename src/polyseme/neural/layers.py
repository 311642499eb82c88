"""Attention (注意力): learned weights of tokens.

Masks are True at real tokens. If a row has none, its weights and its result are zero.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from polyseme.neural.pooling import softmax_over

SCORES = ("dot", "scaled", "general", "additive")


class AttentionPooling(nn.Module):
    """Pools a text into one vector per learned query (自注意力池化):  A = softmax(V tanh(W xᵀ + b)),  result A x.

    One query is the word attention of Yang et al., "Hierarchical Attention Networks", NAACL 2016; several are the
    structured self-attention of Lin et al., ICLR 2017 (which has no b).
    """

    def __init__(self, dim: int, hidden: int, *, n_queries: int = 1, bias: bool = True) -> None:
        super().__init__()
        self.inner = nn.Linear(dim, hidden, bias=bias)
        self.queries = nn.Linear(hidden, n_queries, bias=False)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """``(B, T, D), (B, T)`` → ``(B, n_queries, D)`` and the weights ``(B, n_queries, T)``."""
        scores = self.queries(torch.tanh(self.inner(x))).transpose(1, 2)  # (B, n_queries, T)
        weights = softmax_over(scores, mask[:, None])
        return weights @ x, weights

    @staticmethod
    def redundancy(weights: Tensor) -> Tensor:
        """‖A Aᵀ - I‖² of each text ``(B,)``: a penalty that keeps several queries apart (Lin et al. 2017)."""
        overlap = weights @ weights.transpose(1, 2)
        return (overlap - torch.eye(overlap.shape[1], device=overlap.device)).square().sum(dim=(1, 2))


class Attention(nn.Module):
    """Attention of queries over keys:  softmax(score(q, k)) · values.

    dot q·k      scaled q·k / √d      general qᵀW k (Luong et al. 2015)      additive vᵀtanh(W q + U k)  (Bahdanau 2015)
    """

    def __init__(self, query_dim: int, key_dim: int, *, score: str = "dot", hidden: int | None = None) -> None:
        super().__init__()
        if score not in SCORES:
            raise ValueError(f"score must be one of {', '.join(SCORES)}, not {score!r}")
        if score in ("dot", "scaled") and query_dim != key_dim:
            raise ValueError(f"queries of {query_dim} and keys of {key_dim} have no dot product: use general, additive")
        self.score = score
        if score == "general":
            self.turn = nn.Linear(query_dim, key_dim, bias=False)
        elif score == "additive":
            hidden = hidden or key_dim
            self.of_query = nn.Linear(query_dim, hidden)
            self.of_key = nn.Linear(key_dim, hidden, bias=False)
            self.weigh = nn.Linear(hidden, 1, bias=False)

    def forward(
        self, queries: Tensor, keys: Tensor, mask: Tensor, values: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """``(B, Q, Dq), (B, K, Dk)``, the keys' mask ``(B, K)`` → ``(B, Q, Dv)`` and the weights ``(B, Q, K)``.

        Without ``values`` the keys serve as values.
        """
        weights = softmax_over(self._scores(queries, keys), mask[:, None])
        return weights @ (keys if values is None else values), weights

    def _scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        if self.score == "additive":
            both = self.of_query(queries)[:, :, None] + self.of_key(keys)[:, None]  # (B, Q, K, hidden)
            found: Tensor = self.weigh(torch.tanh(both))
            return found.squeeze(3)
        if self.score == "general":
            queries = self.turn(queries)
        scores = queries @ keys.transpose(1, 2)
        return scores / math.sqrt(keys.shape[2]) if self.score == "scaled" else scores
