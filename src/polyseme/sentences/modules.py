"""What the learned sentence encoders have in common: a batch of token vectors in, a vector per text out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Tokens(NamedTuple):
    """The vectors of a batch of texts. T >= 1; a text may have no token at all."""

    x: Tensor  # (B, T, D)
    mask: Tensor  # (B, T) bool, True at tokens
    beside: Tensor | None = None  # (B, T, E) what joins the hidden states: [h; ELMo]
    sentence: Tensor | None = None  # (B, T) number of the sentence a token stands in, from 0


class Encoding(NamedTuple):
    """What an encoder makes of a batch."""

    vectors: Tensor  # (B, dim)
    attention: Tensor | None = None  # (B, T) how much each token counted, where the encoder says so
    penalty: Tensor | None = None  # (B,) to be added to the losses


class TextModule(nn.Module, ABC):
    """An encoder of texts."""

    dim: int  # of a text's vector
    has_states: bool = False  # hidden states of tokens, which others can be next to
    attends: bool = False  # it says how much each token counted

    @abstractmethod
    def forward(self, tokens: Tokens) -> Encoding:
        """One vector per text; it depends on nothing but the text's own tokens."""


def with_beside(states: Tensor, beside: Tensor | None) -> Tensor:
    """[h; ELMo]."""
    return states if beside is None else torch.cat([states, beside], dim=2)
