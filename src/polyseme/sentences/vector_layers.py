"""Layers after the pooling in sentence encoders 池化之后的层: dense, layer norm, scaling to unit length, truncation.

v = truncate(normalise(f(W u + b)))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

# Activations without weights, with torch's default settings.
STEP_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    name: getattr(nn, name)
    for name in (
        *("Identity", "Tanh", "ReLU", "GELU", "Sigmoid", "SiLU", "LeakyReLU", "ELU", "SELU", "CELU", "Mish", "ReLU6"),
        *("Softplus", "Softsign", "LogSigmoid", "Hardtanh", "Hardsigmoid", "Hardswish", "Tanhshrink"),
    )
}


class Dense(nn.Module):
    """A linear layer and an activation."""

    def __init__(self, size: int, out: int, activation: str = "Tanh", *, bias: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(size, out, bias=bias)
        self.activation, self.out = activation, out
        self.follows = STEP_ACTIVATIONS[activation]()

    def forward(self, x: Tensor) -> Tensor:
        """``(n, size) -> (n, out)``"""
        found: Tensor = self.follows(self.linear(x))
        return found


class Norm(nn.Module):
    """Layer normalisation of sentence vectors."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(size), size

    def forward(self, x: Tensor) -> Tensor:
        """``(n, size) -> (n, size)``"""
        found: Tensor = self.norm(x)
        return found


class Normalise(nn.Module):
    """Scales vectors to length one."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.out = size

    def forward(self, x: Tensor) -> Tensor:
        """``(n, size) -> (n, size)``"""
        return nn.functional.normalize(x, dim=-1)


class Truncate(nn.Module):
    """Keeps only the first numbers of each vector, for models trained to put most information there."""

    def __init__(self, size: int, out: int) -> None:
        super().__init__()
        self.out = min(size, out)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, size) -> (n, out)``"""
        return x[:, : self.out]


Step = Dense | Norm | Normalise | Truncate


def describe(step: Step) -> dict[str, Any]:
    """The settings of a step as plain values, without its weights."""
    if isinstance(step, Dense):
        bias = step.linear.bias is not None
        return {"kind": "dense", "out": step.out, "activation": step.activation, "bias": bias}
    if isinstance(step, Truncate):
        return {"kind": "truncate", "out": step.out}
    return {"kind": "norm" if isinstance(step, Norm) else "normalise"}


def make_step(described: dict[str, Any], size: int, tensors: dict[str, Tensor]) -> Step:
    """The step that ``describe`` described, with its weights, whose shapes are checked before memory is allocated."""
    kind = described["kind"]
    if kind == "normalise":
        return Normalise(size)
    if kind == "truncate":
        return Truncate(size, int(described["out"]))
    with torch.device("meta"):
        step: Step = (
            Dense(size, int(described["out"]), described["activation"], bias=bool(described["bias"]))
            if kind == "dense"
            else Norm(size)
        )
    for name, wanted in step.state_dict().items():
        if name not in tensors or tensors[name].shape != wanted.shape:
            raise ValueError(f"{name!r} is missing or not of the shape {tuple(wanted.shape)}")
        if not bool(torch.isfinite(tensors[name]).all()):
            raise ValueError(f"{name!r} holds numbers that are not finite")
    step.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, assign=True)
    return step.eval()


def steps_of(described: Sequence[Mapping[str, Any]], size: int, tensors: Mapping[str, Tensor]) -> list[Step]:
    """The steps for vectors of this size; the names of their weights begin with the number of the step."""
    steps: list[Step] = []
    for number, one in enumerate(described):
        prefix = f"{number}."
        own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        steps.append(make_step(dict(one), size, own))
        size = steps[-1].out
    return steps
