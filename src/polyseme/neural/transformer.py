"""Transformer layers (Transformer 层) for encoders trained here; published models use ``transformers``.

Vaswani et al., "Attention Is All You Need", NeurIPS 2017. With the norm first (pre) training needs less warm-up:

    post   x = norm(x + attend(x));  x = norm(x + feed(x))
    pre    x = x + attend(norm(x));  x = x + feed(norm(x)),  and a norm after the last layer
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from polyseme.errors import OptionError

NORMS = ("pre", "post")


def sinusoids(n: int, dim: int, device: torch.device | None = None) -> Tensor:
    """Sinusoidal position embeddings ``(n, dim)``: sin(p / 10000^(2i/dim)) at 2i, cos of the same at 2i + 1."""
    place = torch.arange(n, device=device, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, dim, 2, device=device) * (-math.log(10000.0) / dim))
    found = torch.zeros(n, dim, device=device)
    found[:, 0::2] = torch.sin(place * rate)
    found[:, 1::2] = torch.cos(place * rate)[:, : dim // 2]
    return found


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
