"""Fine-tuning 微调 context encoders with a task: how they read sentences, and the modules that are trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor, nn

LayerNames = Sequence[tuple[str, ...]]  # of every layer, lowest first: what the names of its weights begin with


class Tuned(NamedTuple):
    """``read`` turns tokenised sentences into tensors, and ``network`` turns these into the layers ``(B, T, L, D)``.

    T is the length of the longest sentence; values after the end of a shorter one are undefined. ``layers`` says which
    weights of the network are those of each layer; all others are below the first.
    """

    read: Callable[[Sequence[Sequence[str]]], tuple[Tensor, ...]]
    network: nn.Module
    layers: LayerNames


class Given(nn.Module):
    """Holds a given encoder that learns with a task, at learning rates of its own: they go by this class."""

    def __init__(self, network: nn.Module, layers: LayerNames) -> None:
        super().__init__()
        self.network, self.layers = network, layers


@runtime_checkable
class Tunable(Protocol):
    """An encoder that can be fine-tuned with a task."""

    def tuned(self, layers: Sequence[int] | None = None) -> Tuned:
        """The reader and the network, for some or all layers. Training the network changes the encoder itself."""
        ...
