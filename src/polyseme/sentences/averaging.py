"""DAN 深度平均网络: the mean of a text's word vectors, passed through several layers.

Iyyer, Manjunatha, Boyd-Graber and Daumé III, "Deep Unordered Composition Rivals Syntactic Methods for Text
Classification", ACL 2015.

    z_0 = mean of the kept words,   z_i = relu(W_i z_i-1 + b_i);   in training a word is kept with probability 1 - p

If every word of a text would be dropped, all are kept. With no layers this is the plain mean.
"""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn

from polyseme.neural.layers import Dropout, mean_over
from polyseme.sentences.learned import LearnedEncoder
from polyseme.sentences.modules import Encoding, TextModule, Tokens
from polyseme.sentences.options import DanOptions


class DanModule(TextModule):
    """``(B, T, D) -> (B, hidden)``."""

    def __init__(self, dim: int, layers: int, hidden: int, word_dropout: float, dropout: float = 0.0) -> None:
        super().__init__()
        self.word_dropout = word_dropout
        widths = [dim, *[hidden] * layers]
        self.dim = widths[-1]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tokens) -> Encoding:
        mask = self._kept(tokens.mask) if self.training and self.word_dropout else tokens.mask
        z = mean_over(tokens.x, mask)
        for layer in self.layers:
            z = torch.relu(layer(self.dropout(z)))
        return Encoding(z)

    def _kept(self, mask: Tensor) -> Tensor:
        kept = mask & (torch.rand(mask.shape, device=mask.device) >= self.word_dropout)
        return torch.where(kept.any(dim=1, keepdim=True), kept, mask)


class Dan(LearnedEncoder):
    """A DAN, trained with a task."""

    method: ClassVar[str] = "dan"
    Options: ClassVar[type] = DanOptions

    @classmethod
    def make_module(cls, options: DanOptions, dim: int, beside: int) -> DanModule:
        return DanModule(dim, options.n_layers, options.hidden, options.word_dropout, options.dropout)
