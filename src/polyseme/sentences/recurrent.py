"""Recurrent encoders of texts 循环句编码器: the last state, or the maximum over all states, of LSTM or GRU layers."""

from __future__ import annotations

from polyseme.neural.pooling import max_over
from polyseme.neural.recurrent import Recurrent
from polyseme.sentences.modules import Encoding, TextModule, Tokens, with_beside


class RnnModule(TextModule):
    """The state at the last real token; of the backward direction, that at the first."""

    def __init__(self, states: Recurrent) -> None:
        super().__init__()
        self.states = states
        self.dim = states.dim

    def forward(self, tokens: Tokens) -> Encoding:
        return Encoding(self.states.last_of(self.states(tokens.x, tokens.mask)[1]))


class BiLstmMaxModule(TextModule):
    """The maximum of every unit over all states, as in InferSent (Conneau et al. 2017); padding takes no part."""

    has_states = True

    def __init__(self, states: Recurrent, beside: int = 0) -> None:
        super().__init__()
        self.states = states
        self.dim = states.dim + beside

    def forward(self, tokens: Tokens) -> Encoding:
        states = with_beside(self.states(tokens.x, tokens.mask)[0], tokens.beside)
        return Encoding(max_over(states, tokens.mask))
