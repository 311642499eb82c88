"""ELMo's sum over the layers, learned by the task: γ · Σ_j softmax(s)_j · h_j  (标量混合)

Peters et al. 2018, equation 1. Three things differ between the programs, and each is a named choice here:
``layer_norm`` before the sum, and the form of the regulariser.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

LAYER_NORMS = ("none", "bilm", "allennlp")
_EPSILON = {"bilm": 1e-12, "allennlp": 1e-13}


class ScalarMix(nn.Module):
    """A weighted sum of ``n_layers`` layers.

    ``layer_norm`` subtracts a layer's mean and divides by its deviation, both over *all real tokens of the batch and
    all dimensions*: ``bilm`` counts the tokens of the text, ``allennlp`` the sentence boundaries too, so give it layers
    and mask with the boundaries still in. Its result depends on the batch; the default is ``none``.
    """

    def __init__(
        self,
        n_layers: int,
        *,
        layer_norm: str = "none",
        initial: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        if layer_norm not in LAYER_NORMS:
            raise ValueError(f"layer_norm is one of {', '.join(LAYER_NORMS)}; not {layer_norm!r}")
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
        if self.layer_norm != "none":
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
        return (layer - mean) / torch.sqrt(variance + _EPSILON[self.layer_norm])

    def penalty(self, strength: float, form: str = "paper") -> Tensor:
        """To be added to the loss. ``paper``: λ‖softmax(s) - 1/(L+1)‖². ``bilm``: λ Σ s², on the raw scalars."""
        if form == "paper":
            return strength * ((self.weights() - 1 / len(self.scalars)) ** 2).sum()
        if form == "bilm":
            return strength * (self.scalars**2).sum()
        raise ValueError(f"the penalty's form is paper or bilm, not {form!r}")
