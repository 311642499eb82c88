"""Fine-tuning 微调 context encoders with a task: how they read sentences, and the modules that are trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor, nn

if TYPE_CHECKING:
    from polyseme.contexts.transformer.model import TransformerEncoder

OTHER_RATE = 0.1  # of encoders that do not say how fast they learn, as a share of the new layers' learning rate

LayerNames = Sequence[tuple[str, ...]]  # of every layer, lowest first: what the names of its weights begin with


class TunableEncoder(NamedTuple):
    """``read`` turns tokenised sentences into tensors, and ``network`` turns these into the layers ``(B, T, L, D)``.

    T is the length of the longest sentence; values after the end of a shorter one are undefined. ``layers`` says which
    weights of the network are those of each layer; all others are below the first.
    """

    read: Callable[[Sequence[Sequence[str]]], tuple[Tensor, ...]]
    network: nn.Module
    layers: LayerNames


class GivenEncoder(nn.Module):
    """Holds a given encoder that learns with a task, at learning rates of its own: they go by this class."""

    def __init__(self, network: nn.Module, layers: LayerNames) -> None:
        super().__init__()
        self.network, self.layers = network, layers


@runtime_checkable
class Tunable(Protocol):
    """An encoder that can be fine-tuned with a task."""

    def tuned(self, layers: Sequence[int] | None = None) -> TunableEncoder:
        """The reader and the network, for some or all layers. Training the network changes the encoder itself."""
        ...


class TunableNetwork(nn.Module):
    """A network that says how it is fine-tuned."""

    @property
    def tuning_rate(self) -> float:
        """Its learning rate as a share of the new layers', unless one is given."""
        return OTHER_RATE

    def begin_tuning(self, dropout: float, *, sparse: bool, lm_weight: float) -> None:
        """Set the dropout inside and, with ``sparse``, sparse gradients where few rows of a table are read."""


def usual_rate(module: nn.Module) -> float:
    """The learning rate of the encoder in a module as a share of the new layers', unless one is given."""
    return next((part.tuning_rate for part in module.modules() if isinstance(part, TunableNetwork)), OTHER_RATE)


def begin_tuning(module: nn.Module, dropout: float, *, sparse: bool, lm_weight: float = 0.0) -> None:
    """Prepare all networks in a module for fine-tuning."""
    for part in [part for part in module.modules() if isinstance(part, TunableNetwork)]:
        part.begin_tuning(dropout, sparse=sparse, lm_weight=lm_weight)


@runtime_checkable
class HoldsTransformer(Protocol):
    """A model that reads by a Transformer, which can learn with a task."""

    @property
    def transformer(self) -> TransformerEncoder:
        """The Transformer in it."""
        ...


def transformer_of(model: Any) -> TransformerEncoder | None:
    """The Transformer that a model is, or that it reads by; None if there is none."""
    return model.transformer if isinstance(model, HoldsTransformer) else None
