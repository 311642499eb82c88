"""LSTM and highway weights that AllenNLP and ELMoForManyLangs saved, under our names."""

from __future__ import annotations

import torch
from torch import Tensor

from polyseme.neural.weights import Tensors


def lstm_tensors(tensors: Tensors, n_layers: int, hidden: int, size: int) -> dict[str, Tensor]:
    """LSTM weights of AllenNLP and ELMoForManyLangs under our names; gate order and forget bias are as in ours."""
    found: dict[str, Tensor] = {}
    for layer in range(n_layers):
        both: dict[str, list[Tensor]] = {"w_input": [], "w_recurrent": [], "bias": [], "w_projection": []}
        for name in (f"forward_layer_{layer}", f"backward_layer_{layer}"):
            both["w_input"].append(tensors.get(f"{name}.input_linearity.weight", (4 * hidden, size)))
            both["w_recurrent"].append(tensors.get(f"{name}.state_linearity.weight", (4 * hidden, size)))
            both["bias"].append(tensors.get(f"{name}.state_linearity.bias", (4 * hidden,)))
            both["w_projection"].append(tensors.get(f"{name}.state_projection.weight", (size, hidden)))
        found |= {f"layers.{layer}.{kind}": torch.stack(pair) for kind, pair in both.items()}
    return found


def highway_tensors(tensors: Tensors, prefix: str, n_highway: int, width: int) -> dict[str, Tensor]:
    """Our highway weights from theirs: one matrix [transform; gate] per layer, whose gate passes the *input*."""
    found = {}
    for number in range(n_highway):
        weight = tensors.get(f"{prefix}{number}.weight", (2 * width, width))
        bias = tensors.get(f"{prefix}{number}.bias", (2 * width,))
        for kind, half in (("transforms", slice(None, width)), ("gates", slice(width, None))):
            sign = -1 if kind == "gates" else 1  # 1 - σ(x) = σ(-x)
            found[f"encoder.{kind}.{number}.weight"] = sign * weight[half]
            found[f"encoder.{kind}.{number}.bias"] = sign * bias[half]
    return found
