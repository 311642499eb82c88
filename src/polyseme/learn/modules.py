"""The common interface of trained sentence encoders: from a batch of token vectors to one vector per text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn


class TextTokens(NamedTuple):
    """The token vectors of a batch of texts. T >= 1; a text may have no tokens."""

    x: Tensor  # (B, T, D)
    mask: Tensor  # (B, T) bool, True at tokens
    beside: Tensor | None = None  # (B, T, E) concatenated to the hidden states: [h; ELMo]
    sentence: Tensor | None = None  # (B, T) number of the token's sentence, from 0


class Encoding(NamedTuple):
    """The output of an encoder for a batch."""

    vectors: Tensor  # (B, dim)
    attention: Tensor | None = None  # (B, T) weight of each token, if the encoder has attention
    penalty: Tensor | None = None  # (B,) to be added to the losses


class TextModule(nn.Module, ABC):
    """An encoder of texts."""

    dim: int  # of a text's vector
    has_states: bool = False  # has hidden states of tokens, to which other vectors can be concatenated
    attends: bool = False  # returns attention weights of tokens

    @abstractmethod
    def forward(self, tokens: TextTokens) -> Encoding:
        """One vector per text, which depends only on the tokens of that text."""


def with_beside(states: Tensor, beside: Tensor | None) -> Tensor:
    """[h; ELMo]."""
    return states if beside is None else torch.cat([states, beside], dim=2)
