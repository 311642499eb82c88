"""Recurrent text encoders 循环句编码器: the last hidden state of LSTM or GRU layers, or the maximum over all states."""

from __future__ import annotations

from typing import ClassVar

from polyseme.neural.layers import max_over
from polyseme.neural.recurrent import Recurrent
from polyseme.sentences.learned import LearnedEncoder
from polyseme.sentences.modules import Encoding, TextModule, Tokens, with_beside
from polyseme.sentences.options import RnnOptions


class RnnModule(TextModule):
    """The hidden state at the last real token; for the backward direction, at the first."""

    def __init__(self, states: Recurrent) -> None:
        super().__init__()
        self.states = states
        self.dim = states.dim

    def forward(self, tokens: Tokens) -> Encoding:
        return Encoding(self.states.last_of(self.states(tokens.x, tokens.mask)[1]))


class BiLstmMaxModule(TextModule):
    """The maximum of every unit over all states, as in InferSent (Conneau et al. 2017), without padding."""

    has_states = True

    def __init__(self, states: Recurrent, beside: int = 0) -> None:
        super().__init__()
        self.states = states
        self.dim = states.dim + beside

    def forward(self, tokens: Tokens) -> Encoding:
        states = with_beside(self.states(tokens.x, tokens.mask)[0], tokens.beside)
        return Encoding(max_over(states, tokens.mask))


def states_of(options: RnnOptions, dim: int) -> Recurrent:
    """The recurrent layers that the options describe."""
    return Recurrent(
        dim,
        options.hidden,
        kind=options.cell,
        n_layers=options.n_layers,
        bidirectional=options.bidirectional,
        dropout=options.dropout,
    )


class Rnn(LearnedEncoder):
    """The last state of an LSTM or GRU, trained with a task."""

    method: ClassVar[str] = "rnn"
    Options: ClassVar[type] = RnnOptions

    @classmethod
    def make_module(cls, options: RnnOptions, dim: int, beside: int) -> RnnModule:
        return RnnModule(states_of(options, dim))


class BiLstmMax(LearnedEncoder):
    """The maximum over the states of an LSTM or GRU, trained with a task."""

    method: ClassVar[str] = "bilstm-max"
    Options: ClassVar[type] = RnnOptions

    @classmethod
    def make_module(cls, options: RnnOptions, dim: int, beside: int) -> BiLstmMaxModule:
        return BiLstmMaxModule(states_of(options, dim), beside)
