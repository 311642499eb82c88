"""Context encoders that learn with a task (微调): how they read sentences, and the module whose weights then move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor, nn


class Tuned(NamedTuple):
    """``read`` turns sentences of tokens into tensors, ``network`` these into the layers requested, ``(B, T, L, D)``.

    T is the longest sentence's; what follows a shorter one is of no account.
    """

    read: Callable[[Sequence[Sequence[str]]], tuple[Tensor, ...]]
    network: nn.Module


@runtime_checkable
class Tunable(Protocol):
    """An encoder that can learn with a task."""

    def tuned(self, layers: Sequence[int] | None = None) -> Tuned:
        """Its reader and its own network, of some layers or all: what the network learns, the encoder has learned."""
        ...
