"""The stochastic answer network 随机多步推理网络: classifies a pair of texts in several steps and averages them.

Liu, Duh and Gao, "Stochastic Answer Networks for Natural Language Inference", 2018; the head of MT-DNN for pairs. With
M^p and M^h the hidden states of the premise and the hypothesis

    s_0 = Σ α_j M^h_j,  α = softmax(w·M^h_j)            x_k = Σ β_j M^p_j,  β = softmax(s_k W M^p_j)
    P_k = softmax(V [s_k; x_k; |s_k - x_k|; s_k ⊙ x_k])    s_k+1 = GRU(s_k, x_k)        P = mean of P_k

In training the prediction of each step is dropped with probability ``dropout``, but never all of them. Probabilities
are averaged, not their logarithms.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from polyseme.neural.pooling import softmax_over


class StochasticAnswer(nn.Module):
    """Hidden states of two texts → log p of each class."""

    def __init__(self, dim: int, n_classes: int, *, n_steps: int = 5, dropout: float = 0.1) -> None:
        super().__init__()
        self.n_steps, self.dropout = n_steps, dropout
        self.first = nn.Linear(dim, 1, bias=False)
        self.attend = nn.Linear(dim, dim, bias=False)
        self.judge = nn.Linear(4 * dim, n_classes)
        self.cell = nn.GRUCell(dim, dim)

    def forward(self, states: Tensor, premise: Tensor, hypothesis: Tensor) -> Tensor:
        """Hidden states ``(B, T, D)`` and the masks of the two texts ``(B, T)`` → log p ``(B, classes)``."""
        s = _weighed(self.first(states).squeeze(2), states, hypothesis)
        found = []
        for step in range(self.n_steps):
            x = _weighed((states @ self.attend(s)[:, :, None]).squeeze(2), states, premise)
            found.append(torch.softmax(self.judge(torch.cat([s, x, (s - x).abs(), s * x], dim=1)), dim=1))
            s = self.cell(x, s) if step + 1 < self.n_steps else s
        judgements = torch.stack(found, dim=1)  # (B, steps, classes)
        kept = self._kept(len(states), states.device)[:, :, None]
        return ((judgements * kept).sum(dim=1) / kept.sum(dim=1)).clamp_min(1e-12).log()

    def _kept(self, n: int, device: torch.device) -> Tensor:
        """Which steps are averaged, ``(n, steps)``: at least one in each row."""
        kept = torch.ones(n, self.n_steps, device=device)
        if self.training and self.dropout:
            drawn = (torch.rand(n, self.n_steps, device=device) >= self.dropout).to(kept.dtype)
            kept = torch.where(drawn.any(dim=1, keepdim=True), drawn, kept)
        return kept


def _weighed(scores: Tensor, states: Tensor, where: Tensor) -> Tensor:
    """Σ softmax(scores) · states over the positions of the mask ``where``, ``(B, D)``; zeros if there are none."""
    return (softmax_over(scores, where)[:, None] @ states).squeeze(1)
