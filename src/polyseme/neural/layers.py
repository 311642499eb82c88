"""Layers of more than one method: attention, pooling, dropout, Transformer, answer network, scalar mix. 网络层

Attention (注意力): learned weights of tokens.

Masks are True at real tokens. If a row has none, its weights and its result are zero.

Pooling 池化: one vector from the token vectors of a text, without padding.

A text may have no tokens, but a batch must have T >= 1.

Fast dropout (随机失活) on the CPU, where torch draws a double for every number, slower than an embedding lookup.

    dropped = x ⊙ m / (1 - p),   m = 1 where 16 random bits are at least p · 2¹⁶

The bits come from a fast generator seeded by torch's, so training stays reproducible. p is rounded to 1/65,536.

Transformer layers (Transformer 层) for encoders trained here; published models use ``transformers``.

Vaswani et al., "Attention Is All You Need", NeurIPS 2017. With the norm first (pre) training needs less warm-up:

    post   x = norm(x + attend(x));  x = norm(x + feed(x))
    pre    x = x + attend(norm(x));  x = x + feed(norm(x)),  and a norm after the last layer

The stochastic answer network 随机多步推理网络: classifies a pair of texts in several steps and averages them.

Liu, Duh and Gao, "Stochastic Answer Networks for Natural Language Inference", 2018; the head of MT-DNN for pairs. With
M^p and M^h the hidden states of the premise and the hypothesis

    s_0 = Σ α_j M^h_j,  α = softmax(w·M^h_j)            x_k = Σ β_j M^p_j,  β = softmax(s_k W M^p_j)
    P_k = softmax(V [s_k; x_k; |s_k - x_k|; s_k ⊙ x_k])    s_k+1 = GRU(s_k, x_k)        P = mean of P_k

In training the prediction of each step is dropped with probability ``dropout``, but never all of them. Probabilities
are averaged, not their logarithms.

Scalar mix (标量混合), a learned weighted sum of the layers of an encoder:  γ · Σ_j softmax(s)_j · h_j

Peters et al., "Deep contextualized word representations", NAACL 2018, equation 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.errors import OptionError


def mean_over(x: Tensor, mask: Tensor) -> Tensor:
    """Mean of the token vectors, ``(B, T, D), (B, T) -> (B, D)``; zeros for a text without tokens."""
    real = mask.unsqueeze(-1).to(x.dtype)
    return (x * real).sum(dim=1) / real.sum(dim=1).clamp_min(1)


def max_over(x: Tensor, mask: Tensor) -> Tensor:
    """Maximum of the token vectors, ``(B, T, D), (B, T) -> (B, D)``; zeros for a text without tokens."""
    highest = x.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(dim=1)
    return highest.masked_fill(~mask.any(dim=1, keepdim=True), 0.0)


def softmax_over(scores: Tensor, mask: Tensor, dim: int = -1) -> Tensor:
    """Softmax over the unmasked positions; all zeros if there are none."""
    weights = torch.softmax(scores.masked_fill(~mask, -1e30), dim=dim)
    return weights * mask


def k_max(x: Tensor, lengths: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """k-max pooling: the ``k[b]`` greatest of the first ``lengths[b]`` values of every row, in their original order.

    ``(B, …, T) -> (B, …, K)`` with K the greatest k; zeros after the first ``min(k, length)`` values. Also returns
    these numbers of values, ``(B,)``.
    """
    widest, places = int(k.max()), x.shape[-1]
    shape = (len(x), *(1,) * (x.dim() - 1))
    kept = torch.minimum(k, lengths)
    real = torch.arange(places, device=x.device) < lengths.view(shape)
    ranked = x.masked_fill(~real, -torch.inf).sort(dim=-1, descending=True, stable=True)  # ties: the first
    order = ranked.indices[..., : min(widest, places)]
    inside = torch.arange(order.shape[-1], device=x.device) < kept.view(shape)
    order = order.masked_fill(~inside, places).sort(dim=-1).values  # those that are not kept go to the end
    padded = torch.cat([x, x.new_zeros(*x.shape[:-1], 1)], dim=-1)
    values = padded.gather(-1, order)
    if order.shape[-1] < widest:
        values = torch.cat([values, values.new_zeros(*values.shape[:-1], widest - values.shape[-1])], dim=-1)
    return values, kept


def grid_bounds(lengths: Tensor, cells: int) -> tuple[Tensor, Tensor]:
    """The start and end ``(B, cells)`` of ``cells`` equal segments of each row; in short rows segments overlap.

    Segment i of n positions is ⌊i·n/cells⌋ … ⌈(i+1)·n/cells⌉, so that none is empty and every position is covered.
    """
    number = torch.arange(cells, device=lengths.device)
    n = lengths.clamp_min(1).unsqueeze(1)
    return n * number // cells, -(-n * (number + 1) // cells)


def dynamic_max(x: Tensor, lengths: Tensor, cells: int) -> Tensor:
    """Dynamic pooling: maxima over ``cells`` segments of the first ``lengths[b]`` values of each row.

    ``(B, …, T) -> (B, …, cells)``. Socher et al. 2011. An empty row gives zeros.
    """
    starts, ends = grid_bounds(lengths, cells)
    places = torch.arange(x.shape[-1], device=x.device)
    inside = (places >= starts.unsqueeze(2)) & (places < ends.unsqueeze(2))  # (B, cells, T)
    inside &= (places < lengths.unsqueeze(1)).unsqueeze(1)
    middle = (1,) * (x.dim() - 2)
    masked = x.unsqueeze(-2).masked_fill(~inside.view(len(x), *middle, cells, -1), -torch.inf)
    maxima = masked.amax(dim=-1)
    return maxima.masked_fill(maxima == -torch.inf, 0.0)


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


class AttentionLayer(nn.Module):
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


BITS = 1 << 16


def dropout(x: Tensor, share: float, training: bool = True) -> Tensor:
    """``x`` with a ``share`` of its numbers set to zero and the others scaled up; ``x`` itself when not training."""
    if not training or not share:
        return x
    if x.device.type != "cpu" or share >= 1:
        return F.dropout(x, share)
    bits = np.random.SFC64(int(torch.randint(1 << 62, ()))).random_raw(-(-x.numel() // 4))  # 64 bits for 4 numbers
    kept = torch.from_numpy(bits.view(np.uint16)[: x.numel()] >= round(share * BITS)).view(x.shape)
    return x * kept.to(x.dtype).mul_(1 / (1 - share))


class Dropout(nn.Dropout):
    """``dropout`` as a module."""

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p, self.training)


NORMS = ("pre", "post")


def sinusoids(n: int, dim: int, device: torch.device | None = None) -> Tensor:
    """Sinusoidal position embeddings ``(n, dim)``: sin(p / 10000^(2i/dim)) at 2i, cos of the same at 2i + 1."""
    place = torch.arange(n, device=device, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, dim, 2, device=device) * (-math.log(10000.0) / dim))
    positions = torch.zeros(n, dim, device=device)
    positions[:, 0::2] = torch.sin(place * rate)
    positions[:, 1::2] = torch.cos(place * rate)[:, : dim // 2]
    return positions


class Transformer(nn.Module):
    """``n_layers`` layers over ``(B, T, D)``. Inputs are scaled by √D, and position embeddings are added."""

    def __init__(
        self,
        dim: int,
        *,
        n_layers: int,
        n_heads: int,
        inner: int,
        dropout: float = 0.1,
        norm: str = "pre",
        activation: str = "relu",  # relu | gelu
        causal: bool = False,  # whether a token sees only itself and the tokens before it
    ) -> None:
        super().__init__()
        if dim % n_heads:
            raise OptionError(f"{n_heads} attention heads do not divide the dimension {dim}")
        if norm not in NORMS:
            raise OptionError(f"norm is pre or post, not {norm!r}")
        self.dim, self.causal = dim, causal
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                dim, n_heads, inner, dropout, activation, batch_first=True, norm_first=norm == "pre"
            )
            for _ in range(n_layers)
        )
        self.last_norm = nn.LayerNorm(dim) if norm == "pre" else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor) -> list[Tensor]:
        """Inputs ``(B, T, D)``, mask ``(B, T)`` → the inputs with positions, then the output of every layer.

        All are ``(B, T, D)``, zero at padding.
        """
        x = self.dropout(x * math.sqrt(self.dim) + sinusoids(x.shape[1], self.dim, x.device))
        hidden = ~mask
        hidden[:, :1] = False  # attention over nothing is NaN: an empty text attends to its first position
        later = None
        if self.causal:
            later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        real = mask[:, :, None].to(x.dtype)
        found = [x]
        for layer in self.layers:
            x = layer(x, src_mask=later, src_key_padding_mask=hidden, is_causal=self.causal)
            found.append(x)
        found[-1] = self.last_norm(x)
        return [plane * real for plane in found]


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


class ScalarMix(nn.Module):
    """A weighted sum of ``n_layers`` layers.

    ``layer_norm`` is the ε added to the variance (1e-12 in bilm-tf, 1e-13 in AllenNLP; 0: no normalisation). Each layer
    is normalised by its mean and deviation over *all unmasked tokens and all dimensions*, so the result depends on the
    batch. bilm-tf leaves out the sentence boundaries, AllenNLP includes them.
    """

    def __init__(
        self,
        n_layers: int,
        *,
        layer_norm: float = 0.0,
        initial: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        if initial is not None and len(initial) != n_layers:
            raise ValueError(f"{len(initial)} initial weights for {n_layers} layers")
        self.layer_norm = layer_norm
        start = torch.zeros(n_layers) if initial is None else torch.tensor(initial, dtype=torch.float32)
        self.scalars = nn.Parameter(start, requires_grad=trainable)
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=trainable)

    def weights(self) -> Tensor:
        """softmax(s), ``(n_layers,)``."""
        return torch.softmax(self.scalars, dim=0)

    def forward(self, layers: Tensor, mask: Tensor | None = None) -> Tensor:
        """``(L, …, D)`` → ``(…, D)``; the layer norm needs the mask ``(…)``."""
        if len(layers) != len(self.scalars):
            raise ValueError(f"{len(layers)} layers given to a mix of {len(self.scalars)}")
        if self.layer_norm:
            if mask is None:
                raise ValueError("layer normalisation needs the mask")
            layers = torch.stack([self._normalised(layer, mask) for layer in layers])
        mixed: Tensor = self.gamma * torch.einsum("l,l...->...", self.weights(), layers)
        return mixed

    def _normalised(self, layer: Tensor, mask: Tensor) -> Tensor:
        real = mask.to(layer.dtype).unsqueeze(-1)
        count = real.sum() * layer.shape[-1]
        mean = (layer * real).sum() / count
        variance = (((layer - mean) * real) ** 2).sum() / count
        return (layer - mean) / torch.sqrt(variance + self.layer_norm)

    def penalty(self, strength: float, towards: str = "uniform") -> Tensor:
        """A penalty to add to the loss. ``uniform``: λ‖softmax(s) - 1/n‖² (the paper); ``zero``: λ Σ s² (bilm-tf)."""
        if towards == "uniform":
            return strength * ((self.weights() - 1 / len(self.scalars)) ** 2).sum()
        if towards == "zero":
            return strength * (self.scalars**2).sum()
        raise ValueError(f"the penalty pulls towards uniform or zero, not {towards!r}")
