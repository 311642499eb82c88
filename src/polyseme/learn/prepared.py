"""Inputs that were looked at once, what looks at them, and the one loop that runs a network over all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.arrays import FloatArray, Ints
from polyseme.interfaces import Progress, Sentence, silent
from polyseme.neural.batches import BudgetBatches
from polyseme.store.folder import Parts

CPU = torch.device("cpu")
BATCH_TOKENS = 4096  # per batch when no gradients are needed, including padding


class PreparedInputs(ABC):
    """Inputs that a reader has looked at: segmented, looked up, or encoded by what does not learn."""

    sizes: Ints  # (N,) tokens of each input, so that inputs of similar length share a batch
    budget: int = BATCH_TOKENS  # tokens of a batch when no gradients are needed, including padding
    most: int = 0  # inputs of such a batch; 0: any number
    vectors: FloatArray | None = None  # the inputs themselves, where they are vectors that do not learn

    @abstractmethod
    def batch(self, rows: Ints, *, learning: bool = False) -> Any:
        """Tensors of these inputs in (named) tuples and lists; to learn from, torch's generator may draw them."""


def on(device: torch.device, batch: Any) -> Any:
    """The batch with its tensors on this device."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if not isinstance(batch, (tuple, list)):
        return batch
    parts = [on(device, part) for part in batch]
    return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)


def run(net: nn.Module, prepared: PreparedInputs) -> Iterator[tuple[Ints, Any]]:
    """What the net says to all inputs, on the CPU: the rows of each batch, and its output. Longest inputs first."""
    weight = next(net.parameters(), None)
    device = CPU if weight is None else weight.device
    sizes, budget, most = prepared.sizes, prepared.budget, prepared.most
    for rows in BudgetBatches(sizes, tokens=budget, seed=0, padded=True, most=most).in_order():
        with torch.inference_mode():
            output = on(CPU, net(on(device, prepared.batch(rows))))
        yield rows, output


def in_order(parts: Iterable[tuple[Ints, Tensor]], n: int) -> FloatArray:
    """The rows of all batches in the order of their inputs, ``(n, …)``; ``(0, 0)`` if there are none."""
    whole = np.zeros((0, 0), dtype=np.float32)
    for rows, part in parts:
        if whole.shape[0] != n or whole.shape[1:] != part.shape[1:]:
            whole = np.empty((n, *part.shape[1:]), dtype=np.float32)
        whole[rows] = part.numpy()
    return whole


# ---- readers


class InputReader(Protocol):
    """Inputs → batches."""

    def prepare(self, inputs: Sequence[Any], progress: Progress = silent, /) -> PreparedInputs:
        """Look at all inputs once."""
        ...

    def parts(self) -> Parts:
        """What a task's folder keeps of it."""
        ...


class Reader(ABC):
    """Inputs → batches; ``net`` learns with the task, where anything below the output layer does."""

    dim: int  # of the vectors that the net gives
    net: nn.Module  # from a batch to an ``Encoding``

    @abstractmethod
    def prepare(self, inputs: Sequence[Any], progress: Progress = silent) -> PreparedInputs:
        """Look at all inputs once."""

    @abstractmethod
    def parts(self) -> Parts:
        """What a task's folder keeps of it."""


class TextLearner(Protocol):
    """An encoder of texts that learns with a task."""

    dim: int

    @property
    def net(self) -> nn.Module:
        """The network from a batch to an ``Encoding``."""
        ...

    def prepare(self, texts: Sequence[Sentence], progress: Progress = silent) -> PreparedInputs:
        """Look at all texts once."""
        ...


class LearningTexts(Reader):
    """Texts by an encoder that learns; the folder keeps the ``encoder``."""

    def __init__(self, learner: TextLearner, encoder: Any = None) -> None:
        """``encoder`` is the model to keep, if it is not the learner itself."""
        self.learner, self.encoder = learner, learner if encoder is None else encoder
        self.dim, self.net = learner.dim, learner.net

    def prepare(self, inputs: Sequence[Sentence], progress: Progress = silent) -> PreparedInputs:
        return self.learner.prepare(inputs, progress)

    def parts(self) -> Parts:
        return Parts({}, {}, {}, {"encoder": self.encoder})
