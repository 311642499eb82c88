"""Recurrent encoders of texts 循环句编码器: the last state, or the maximum over all states, of LSTM or GRU layers."""

from __future__ import annotations

from torch import Tensor, nn

from polyseme.neural.pooling import max_over
from polyseme.neural.recurrent import last_states, recurrent_layer
from polyseme.sentences.modules import Encoding, TextModule, Tokens, with_beside


class States(nn.Module):
    """Recurrent layers one over the other: ``(B, T, D) -> (B, T, dim)``."""

    def __init__(
        self, dim: int, units: int, *, cell: str = "lstm", depth: int = 1, bidirectional: bool = True,
        dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.bidirectional = bidirectional
        self.dim = units * (1 + bidirectional)
        widths = [dim, *[self.dim] * (depth - 1)]
        self.layers = nn.ModuleList(recurrent_layer(cell, d, units, bidirectional=bidirectional) for d in widths)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(self.dropout(x) if number else x, mask)
        return x


class RnnModule(TextModule):
    """The state at the last real token; of the backward direction, that at the first."""

    def __init__(self, states: States) -> None:
        super().__init__()
        self.states = states
        self.dim = states.dim

    def forward(self, tokens: Tokens) -> Encoding:
        states = self.states(tokens.x, tokens.mask)
        return Encoding(last_states(states, tokens.mask, bidirectional=self.states.bidirectional))


class BiLstmMaxModule(TextModule):
    """The maximum of every unit over all states, as in InferSent (Conneau et al. 2017); padding takes no part."""

    has_states = True

    def __init__(self, states: States, beside: int = 0) -> None:
        super().__init__()
        self.states = states
        self.dim = states.dim + beside

    def forward(self, tokens: Tokens) -> Encoding:
        states = with_beside(self.states(tokens.x, tokens.mask), tokens.beside)
        return Encoding(max_over(states, tokens.mask))
