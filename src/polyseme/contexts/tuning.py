"""Fine-tuning 微调 context encoders with a task: how they read sentences, and the module that is trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor, nn


class Tuned(NamedTuple):
    """``read`` turns tokenised sentences into tensors, and ``network`` turns these into the layers ``(B, T, L, D)``.

    T is the length of the longest sentence; values after the end of a shorter one are undefined.
    """

    read: Callable[[Sequence[Sequence[str]]], tuple[Tensor, ...]]
    network: nn.Module


@runtime_checkable
class Tunable(Protocol):
    """An encoder that can be fine-tuned with a task."""

    def tuned(self, layers: Sequence[int] | None = None) -> Tuned:
        """The reader and the network, for some or all layers. Training the network changes the encoder itself."""
        ...
