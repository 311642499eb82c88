"""Convolutional encoders of texts 卷积句编码器: TextCNN and DCNN."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.contexts.elmo.options import parse_filters
from polyseme.neural.convolution import window_maxima
from polyseme.neural.layers import k_max
from polyseme.sentences.learned import LearnedEncoder
from polyseme.sentences.modules import Encoding, TextModule, Tokens
from polyseme.sentences.options import DcnnOptions, TextCnnOptions

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "identity": lambda x: x,
}


class TextCnnModule(TextModule):
    """TextCNN 卷积神经网络句分类: Kim, "Convolutional Neural Networks for Sentence Classification", EMNLP 2014.

        c_i = relu(w · [x_i; …; x_i+h-1] + b),   ĉ = max_i c_i,   vector = all ĉ

    A text is padded with h_max - 1 zeros on both sides. The multichannel form (the same filters on fixed and tuned
    vectors, results added) is computed on the sum of the two inputs, since a convolution is linear. k-max and mean
    pooling are from Zhang and Wallace's sensitivity analysis (2015).
    """

    def __init__(
        self,
        dim: int,
        filters: Sequence[tuple[int, int]],
        activation: str = "relu",
        pooling: str = "max",
        k: int = 1,
    ) -> None:
        """``filters``: ``(width, number of filters)`` for each width."""
        super().__init__()
        self.activation, self.pooling, self.k = ACTIVATIONS[activation], pooling, k
        self.dim = sum(number for _, number in filters) * (k if pooling == "k-max" else 1)
        self.weights = nn.ParameterList()
        for width, number in filters:
            bound = math.sqrt(6 / (width * dim + number))
            self.weights.append(nn.Parameter(torch.empty(number, width, dim).uniform_(-bound, bound)))
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(number)) for _, number in filters)

    def forward(self, tokens: Tokens) -> Encoding:
        if self.pooling == "max":  # every activation is monotonic, so it can be applied after the maximum
            maxima = window_maxima(tokens.x, tokens.mask, list(self.weights), list(self.biases))
            return Encoding(self.activation(maxima))
        margin = max(weight.shape[1] for weight in self.weights) - 1
        padded = F.pad(tokens.x * tokens.mask.unsqueeze(-1), (0, 0, margin, margin)).transpose(1, 2)
        lengths = tokens.mask.sum(dim=1).clamp_min(1)
        parts = []
        for weight, bias in zip(self.weights, self.biases, strict=True):
            scores = self.activation(F.conv1d(padded, weight.transpose(1, 2), bias))  # (B, maps, windows)
            parts.append(self._pooled(scores, lengths + 2 * margin - weight.shape[1] + 1))
        return Encoding(torch.cat(parts, dim=1))

    def _pooled(self, scores: Tensor, windows: Tensor) -> Tensor:
        if self.pooling == "k-max":
            return k_max(scores, windows, torch.full_like(windows, self.k))[0].flatten(1)
        real = torch.arange(scores.shape[2], device=scores.device) < windows.unsqueeze(1)
        return (scores * real.unsqueeze(1)).sum(dim=2) / windows.unsqueeze(1)


class DcnnModule(TextModule):
    """DCNN 动态卷积网络: Kalchbrenner et al., "A Convolutional Neural Network for Modelling Sentences", ACL 2014.

        wide convolution of each row (dimension) separately (s + m - 1 positions)  →  rows added in pairs (folding)
        →  the k_l greatest of each row in their order, k_l = max(k_top, ⌈(L - l)/L · s⌉)  →  tanh(· + b)

    s is the length of the text. Rows do not interact before folding.
    """

    def __init__(self, dim: int, filters: Sequence[tuple[int, int]], k_top: int) -> None:
        """``filters``: ``(width, number of feature maps)`` for each layer."""
        super().__init__()
        self.k_top, rows, into = k_top, dim, 1
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for width, out in filters:
            bound = math.sqrt(6 / (width * (into + out)))
            self.weights.append(nn.Parameter(torch.empty(rows, out, into, width).uniform_(-bound, bound)))
            rows = folded_rows(rows)
            self.biases.append(nn.Parameter(torch.zeros(out, rows)))
            into = out
        self.dim = rows * into * k_top

    def forward(self, tokens: Tokens) -> Encoding:
        lengths = tokens.mask.sum(dim=1)
        x = (tokens.x * tokens.mask.unsqueeze(-1)).transpose(1, 2).unsqueeze(2)  # (B, rows, maps, T)
        places = lengths
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True), start=1):
            x, places = wide_convolution(x, weight, places)
            x = folded(x)
            k = dynamic_k(lengths, layer, len(self.weights), self.k_top)
            x, places = k_max(x, places, k)
            real = torch.arange(x.shape[3], device=x.device) < places.view(-1, 1, 1, 1)
            x = torch.tanh(x + bias.t()[None, :, :, None]) * real
        return Encoding(x.flatten(1))


def dynamic_k(lengths: Tensor, layer: int, n_layers: int, k_top: int) -> Tensor:
    """How many values of a row are kept by layer ``layer`` (from 1): max(k_top, ⌈(L - l)/L · s⌉)."""
    share = -(-(n_layers - layer) * lengths // n_layers)
    return share.clamp_min(k_top)


def wide_convolution(x: Tensor, weight: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Each row with its own filters, summed over the input maps: ``(B, R, M, T), (R, M', M, m) -> (B, R, M', T+m-1)``.

    Also returns how many positions of the result are real, not padding. An empty text stays empty.
    """
    rows, out, into, width = weight.shape
    padded = F.pad(x.flatten(1, 2), (width - 1, width - 1))
    found = F.conv1d(padded, weight.reshape(rows * out, into, width), groups=rows)
    return found.view(len(x), rows, out, -1), torch.where(places > 0, places + width - 1, places)


def folded(x: Tensor) -> Tensor:
    """Rows 2i and 2i + 1 added: ``(B, R, M, T) -> (B, ⌈R/2⌉, M, T)``; an odd last row stays as it is."""
    if x.shape[1] % 2:
        x = torch.cat([x, x.new_zeros(len(x), 1, *x.shape[2:])], dim=1)
    return x[:, 0::2] + x[:, 1::2]


def folded_rows(rows: int) -> int:
    """The number of rows after folding."""
    return -(-rows // 2)


class TextCnn(LearnedEncoder):
    """A TextCNN, trained with a task."""

    method: ClassVar[str] = "textcnn"
    Options: ClassVar[type] = TextCnnOptions

    @classmethod
    def make_module(cls, options: TextCnnOptions, dim: int, beside: int) -> TextCnnModule:
        filters = parse_filters(options.filters)
        return TextCnnModule(dim, filters, options.activation, options.pooling, options.k)


class Dcnn(LearnedEncoder):
    """A DCNN, trained with a task."""

    method: ClassVar[str] = "dcnn"
    Options: ClassVar[type] = DcnnOptions

    @classmethod
    def make_module(cls, options: DcnnOptions, dim: int, beside: int) -> DcnnModule:
        return DcnnModule(dim, parse_filters(options.filters), options.k_top)
