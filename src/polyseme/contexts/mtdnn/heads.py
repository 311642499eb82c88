"""The heads of MT-DNN 任务头: the output layers over the top hidden states, one for each kind of task.

texts        softmax(W x)                      x: the hidden state of the first token
pairs        the stochastic answer network over the hidden states of both texts
scores       w·x, squared error; scores are scaled to 0 … 1
ranking      Rel = σ(w·x),  p(the right candidate | all candidates) = softmax(Rel)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.contexts.transformer.encode import Runner
from polyseme.contexts.transformer.network import Batch, Network
from polyseme.contexts.transformer.tuning import PairReader, filled, padded_pieces
from polyseme.neural.layers import StochasticAnswer
from polyseme.text.strings import well_formed

FIRST, SECOND, NEITHER = 0, 1, -1
Text = str | tuple[str, str]


class Pieces(NamedTuple):
    """A batch of texts or pairs as input of the network, ``(B, T)`` each."""

    ids: Tensor
    mask: Tensor
    types: Tensor
    owner: Tensor  # FIRST or SECOND text; NEITHER at special tokens and padding

    def to(self, device: torch.device) -> Pieces:
        """A copy on the device."""
        return Pieces(*(tensor.to(device) for tensor in self))


class Reader:
    """Turns texts, or pairs of them, into subwords; inputs too long for the network are truncated."""

    def __init__(self, runner: Runner) -> None:
        self.runner, self.pairs = runner, PairReader(runner)

    def __call__(self, texts: Sequence[Text]) -> Pieces:
        found = [self._one(text) if isinstance(text, str) else self._two(*text) for text in texts]
        ids, mask = padded_pieces([one[0] for one in found], self.runner.padding)
        return Pieces(ids, mask, filled([one[1] for one in found], 0), filled([one[2] for one in found], NEITHER))

    def _one(self, text: str) -> tuple[list[int], list[int], list[int]]:
        pieces = self.runner.pieces
        inside = pieces.ids([well_formed(text)])[0].tolist()[: self.runner.room]
        owner = [*[NEITHER] * len(pieces.before), *[FIRST] * len(inside), *[NEITHER] * len(pieces.behind)]
        return [*pieces.before, *inside, *pieces.behind], [0] * len(owner), owner

    def _two(self, first: str, second: str) -> tuple[list[int], list[int], list[int]]:
        found = self.pairs.fitted(first, second)
        return found.ids, found.type_ids, [NEITHER if n is None else n for n in found.sequence_ids]


class Head(nn.Module, ABC):
    """The output layer, loss and score of one kind of task."""

    figure: str  # the name of its held-out score; higher is better

    @abstractmethod
    def forward(self, states: Tensor, first: Tensor, owner: Tensor) -> Tensor:
        """Outputs ``(B, K)`` from hidden states ``(B, T, D)``, that of the first token ``(B, D)``, and ``owner``."""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The sum of the losses."""

    @abstractmethod
    def score(self, outputs: NDArray[Any], targets: NDArray[Any]) -> float:
        """The held-out score of the outputs."""


class Classes(Head):
    """Classifies texts."""

    figure = "accuracy"

    def __init__(self, dim: int, n_classes: int) -> None:
        super().__init__()
        self.output = nn.Linear(dim, n_classes)

    def forward(self, states: Tensor, first: Tensor, owner: Tensor) -> Tensor:
        return torch.log_softmax(self.output(first), dim=1)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.nll_loss(outputs, targets, reduction="sum")

    def score(self, outputs: NDArray[Any], targets: NDArray[Any]) -> float:
        return float((outputs.argmax(axis=1) == targets).mean())


class PairClasses(Classes):
    """Classifies pairs of texts."""

    def __init__(self, dim: int, n_classes: int, *, n_steps: int, dropout: float) -> None:
        nn.Module.__init__(self)
        self.answer = StochasticAnswer(dim, n_classes, n_steps=n_steps, dropout=dropout)

    def forward(self, states: Tensor, first: Tensor, owner: Tensor) -> Tensor:
        found: Tensor = self.answer(states, owner == FIRST, owner == SECOND)
        return found


class Scores(Head):
    """Predicts the scores of pairs, or of texts."""

    figure = "pearson"

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.output = nn.Linear(dim, 1)

    def forward(self, states: Tensor, first: Tensor, owner: Tensor) -> Tensor:
        found: Tensor = self.output(first)
        return found

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(outputs[:, 0], targets, reduction="sum")

    def score(self, outputs: NDArray[Any], targets: NDArray[Any]) -> float:
        spread = outputs[:, 0].std() * targets.std()
        return float(((outputs[:, 0] - outputs.mean()) * (targets - targets.mean())).mean() / spread) if spread else 0.0


class Ranks(Head):
    """Ranks the candidates for each first text: outputs are ``(queries, candidates)``, with the right one first."""

    figure = "found"

    def __init__(self, dim: int, n_candidates: int) -> None:
        super().__init__()
        self.output, self.n_candidates = nn.Linear(dim, 1), n_candidates

    def forward(self, states: Tensor, first: Tensor, owner: Tensor) -> Tensor:
        return torch.sigmoid(self.output(first)).view(-1, self.n_candidates)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -torch.log_softmax(outputs, dim=1)[:, 0].sum()

    def score(self, outputs: NDArray[Any], targets: NDArray[Any]) -> float:
        return float((outputs.argmax(axis=1) == 0).mean())


class HeadedNet(nn.Module):
    """A Transformer, shared with other tasks, and a head."""

    def __init__(self, network: Network, head: Head, dropout: float) -> None:
        super().__init__()
        self.network, self.head, self.dropout = network, head, nn.Dropout(dropout)

    def forward(self, pieces: Pieces) -> Tensor:
        """The output of the head, ``(B, K)``."""
        types = pieces.types if bool(pieces.types.any()) else None
        top = self.dropout(self.network.top(Batch(pieces.ids, pieces.mask, types)))
        rows = torch.arange(len(top), device=top.device)
        place = pieces.mask.sum(dim=1) - 1 if self.network.causal else torch.zeros_like(rows)
        found: Tensor = self.head(top, top[rows, place], pieces.owner)
        return found
