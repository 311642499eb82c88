"""AWD-LSTM (权重丢弃 LSTM 语言模型), as a torch module.

Merity, Keskar and Socher, "Regularizing and Optimizing LSTM Language Models", ICLR 2018.

    x_t = E[w_t]        h^l = LSTM_l(h^{l-1}; W_l, U_l ⊙ m_l)        p(w_{t+1}) = softmax(E h^L_t + b)

m_l drops recurrent weights, the same ones at every step of a batch. Embedding dropout drops whole units. Variational
dropout draws one mask for each row of a batch and keeps it over time. Two penalties on the output of the last layer are
added to the loss: AR, α·mean((m ⊙ h_t)²), after dropout, and TAR, β·mean((h_t - h_{t-1})²), before it.

Tokens are packed (``neural/batches.py``), so the same forward pass serves streams, sentences and fine-tuning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.contexts.ulmfit.options import UlmfitOptions
from polyseme.neural.layers import dropout
from polyseme.neural.lstm import LstmWeights, State, packed_lstm


class Layer(nn.Module):
    """The weights of one LSTM layer."""

    def __init__(self, n_inputs: int, n_cells: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(n_cells)
        self.input = nn.Parameter(torch.empty(1, 4 * n_cells, n_inputs).uniform_(-bound, bound))
        self.recurrent = nn.Parameter(torch.empty(1, 4 * n_cells, n_cells).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(1, 4 * n_cells))

    def dropped(self, share: float) -> LstmWeights:
        """The weights for a batch, with dropout on the recurrent ones."""
        return LstmWeights(self.input, dropout(self.recurrent, share), self.bias)


@dataclass(frozen=True)
class LanguageStates:
    """The output of the network for a batch."""

    planes: list[Tensor]  # each (N, width): the embeddings, then the output of every layer
    dropped: Tensor  # (N, dim): the last output after dropout, the input of the softmax
    states: list[State]  # of every layer, at the end of each row


class AwdLstm(nn.Module):
    """An embedding table, LSTM layers, and a softmax that shares the table."""

    def __init__(self, n_units: int, options: UlmfitOptions) -> None:
        super().__init__()
        self.options = options
        self.table = nn.Parameter(torch.empty(n_units, options.dim).uniform_(-0.1, 0.1))
        self.bias = nn.Parameter(torch.zeros(n_units))
        self.layers = nn.ModuleList(Layer(*sizes) for sizes in options.layer_sizes())

    def forward(self, units: Tensor, sizes: Sequence[int], states: Sequence[State] | None = None) -> LanguageStates:
        """Read packed units ``(N,)``, of which step t has ``sizes[t]``, from ``states`` on (default: zero)."""
        options, training = self.options, self.training
        rows = torch.cat([torch.arange(size) for size in sizes]).to(units.device) if sizes else units.new_zeros(0)
        x = self.vectors(units)
        planes, last = [x], []
        x = self._variational(x, rows, sizes, options.dropout_input)
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            weights = layer.dropped(options.dropout_weight if training else 0.0)
            out, state = packed_lstm(x[None], sizes, weights, states[number] if states else None)
            planes.append(out[0])
            last.append(state)
            share = options.dropout_output if number == len(self.layers) - 1 else options.dropout_hidden
            x = self._variational(out[0], rows, sizes, share)
        return LanguageStates(planes, x, last)

    def vectors(self, units: Tensor) -> Tensor:
        """Embeddings ``(N,) -> (N, dim)``, in training with whole units dropped. The table has a sparse gradient."""
        embeddings = F.embedding(units, self.table, sparse=True)
        if not self.training or not self.options.dropout_embedding:
            return embeddings
        distinct, place = torch.unique(units, return_inverse=True)
        kept = F.dropout(torch.ones(len(distinct), device=units.device), self.options.dropout_embedding)
        return embeddings * kept[place].unsqueeze(1)

    def _variational(self, x: Tensor, rows: Tensor, sizes: Sequence[int], share: float) -> Tensor:
        """Variational dropout on ``x (N, D)``: one mask for all steps of a row; ``rows`` is the row of each token."""
        if not self.training or not share or not sizes:
            return x
        return x * F.dropout(x.new_ones(sizes[0], x.shape[1]), share)[rows]

    def penalty(self, read: LanguageStates, sizes: Sequence[int]) -> Tensor:
        """The AR and TAR penalties of a batch, to be added to its mean loss."""
        raw, options = read.planes[-1], self.options
        penalty = options.activation_penalty * read.dropped.square().mean()
        if options.change_penalty and len(sizes) > 1:
            steps = torch.split(raw, list(sizes))
            changes = torch.cat([later - earlier[: len(later)] for earlier, later in pairwise(steps)])
            penalty = penalty + options.change_penalty * changes.square().mean()
        return penalty

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        """Log probabilities of the next unit, ``(M, dim) -> (M, units)``."""
        return torch.log_softmax(torch.addmm(self.bias, outputs, self.table.t()), dim=1)
