"""A learned weighted sum of the layers of an encoder: γ · Σ_j softmax(s)_j · h_j  (标量混合)

Peters et al., "Deep contextualized word representations", NAACL 2018, equation 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


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
