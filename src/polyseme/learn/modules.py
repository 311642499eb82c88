"""The interface of networks from token vectors to one vector per text; weights as arrays; copies of models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polyseme.neural.weights import arrays_of, load_arrays
from polyseme.store.folder import Parts
from polyseme.store.model import Model
from polyseme.text.segment import Segmentation

NETWORK = ".network."  # in the names of weights that belong to a given encoder and are saved with it


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


# ---- on disk


def weights(module: nn.Module, prefix: str, *, but: str = "/") -> dict[str, NDArray[Any]]:
    """A module's weights by name, except those of given encoders and those whose names begin with ``but``."""
    return arrays_of(module, prefix, lambda name: not name.startswith(but) and NETWORK not in name)


def fill(module: nn.Module, parts: Parts, prefix: str, *, but: str = "/") -> None:
    """Load what ``weights`` returned."""
    load_arrays(module, parts.tensors, prefix, lambda name: not name.startswith(but) and NETWORK not in name)


# ---- models


def copied(model: Model) -> Any:
    """A copy of the model with its own weights."""
    parts = model.parts()
    tensors = {name: np.array(array) for name, array in parts.tensors.items()}
    models = {name: copied(below) for name, below in parts.models.items()}
    return type(model).from_parts(model.options, Parts(tensors, parts.tables, parts.files, models), model.about)


def segmentation_of(encoders: Sequence[Any], examples: Segmentation) -> Segmentation:
    """The segmentation of the first encoder that has one, otherwise that of the examples."""
    for encoder in encoders:
        if isinstance(encoder, Model) and encoder.about.segmentation is not None:
            return encoder.about.segmentation
    return examples
