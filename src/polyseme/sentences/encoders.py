"""Convolutional encoders of texts 卷积句编码器: TextCNN and DCNN.

DAN 深度平均网络: the mean of a text's word vectors, passed through several layers.

Iyyer, Manjunatha, Boyd-Graber and Daumé III, "Deep Unordered Composition Rivals Syntactic Methods for Text
Classification", ACL 2015.

    z_0 = mean of the kept words,   z_i = relu(W_i z_i-1 + b_i);   in training a word is kept with probability 1 - p

If every word of a text would be dropped, all are kept. With no layers this is the plain mean.

Recurrent text encoders 循环句编码器: the last hidden state of LSTM or GRU layers, or the maximum over all states.

Encoders with attention over words 注意力句编码器: structured self-attention and hierarchical attention (HAN).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.contexts.elmo.options import parse_filters
from polyseme.learn.modules import Encoding, TextModule, TextTokens, with_beside
from polyseme.neural.convolution import window_maxima
from polyseme.neural.layers import AttentionPooling, Dropout, k_max, max_over, mean_over
from polyseme.neural.recurrent import Recurrent
from polyseme.sentences.learned import LearnedEncoder
from polyseme.sentences.options import (
    DanOptions,
    DcnnOptions,
    HanOptions,
    RnnOptions,
    SelfAttentionOptions,
    TextCnnOptions,
)

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

    def forward(self, tokens: TextTokens) -> Encoding:
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

    def forward(self, tokens: TextTokens) -> Encoding:
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


class DanModule(TextModule):
    """``(B, T, D) -> (B, hidden)``."""

    def __init__(self, dim: int, layers: int, hidden: int, word_dropout: float, dropout: float = 0.0) -> None:
        super().__init__()
        self.word_dropout = word_dropout
        widths = [dim, *[hidden] * layers]
        self.dim = widths[-1]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.dropout = Dropout(dropout)

    def forward(self, tokens: TextTokens) -> Encoding:
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


class RnnModule(TextModule):
    """The hidden state at the last real token; for the backward direction, at the first."""

    def __init__(self, states: Recurrent) -> None:
        super().__init__()
        self.states = states
        self.dim = states.dim

    def forward(self, tokens: TextTokens) -> Encoding:
        return Encoding(self.states.last_of(self.states(tokens.x, tokens.mask)[1]))


class BiLstmMaxModule(TextModule):
    """The maximum of every unit over all states, as in InferSent (Conneau et al. 2017), without padding."""

    has_states = True

    def __init__(self, states: Recurrent, beside: int = 0) -> None:
        super().__init__()
        self.states = states
        self.dim = states.dim + beside

    def forward(self, tokens: TextTokens) -> Encoding:
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


class SelfAttentionModule(TextModule):
    """Structured self-attention 结构化自注意力: Lin et al., "A Structured Self-attentive Sentence Embedding", 2017.

    A = softmax(W_2 tanh(W_1 Hᵀ)) over the tokens (r × n),   vector = the rows of A H, concatenated
    penalty = c ‖AAᵀ - I‖²  (the squared Frobenius norm)
    """

    has_states = attends = True

    def __init__(self, states: Recurrent, rows: int, units: int, penalty: float, beside: int = 0) -> None:
        super().__init__()
        self.states, self.weight = states, penalty
        width = states.dim + beside
        self.pooling = AttentionPooling(width, units, n_queries=rows, bias=False)
        self.dim = rows * width

    def forward(self, tokens: TextTokens) -> Encoding:
        states = with_beside(self.states(tokens.x, tokens.mask)[0], tokens.beside)  # (B, T, H)
        vectors, weights = self.pooling(states, tokens.mask)  # (B, r, H), (B, r, T)
        return Encoding(vectors.flatten(1), weights.mean(dim=1), self.weight * self.pooling.redundancy(weights))


class HanModule(TextModule):
    """HAN 层次注意力网络: Yang et al., "Hierarchical Attention Networks for Document Classification", NAACL 2016.

    Attention over words gives sentence vectors, attention over these the document's. A token's weight is the product.
    """

    has_states = attends = True

    def __init__(self, words: Recurrent, sentences: Recurrent, units: int, beside: int = 0) -> None:
        super().__init__()
        self.words, self.sentences = words, sentences
        self.of_words = AttentionPooling(words.dim + beside, units)
        self.of_sentences = AttentionPooling(sentences.dim, units)
        self.dim = sentences.dim

    def forward(self, tokens: TextTokens) -> Encoding:
        numbers = torch.zeros_like(tokens.mask, dtype=torch.long) if tokens.sentence is None else tokens.sentence
        document, token, row, place, n_rows = _grid(numbers, tokens.mask)
        width = int(place.max()) + 1 if len(place) else 1
        x = tokens.x.new_zeros(n_rows, width, tokens.x.shape[2]).index_put((row, place), tokens.x[document, token])
        mask = tokens.mask.new_zeros(n_rows, width).index_put((row, place), tokens.mask.new_ones(()))
        states, _ = self.words(x, mask)
        if tokens.beside is not None:
            more = tokens.beside.new_zeros(n_rows, width, tokens.beside.shape[2])
            states = with_beside(states, more.index_put((row, place), tokens.beside[document, token]))
        sentences, within = (found.squeeze(1) for found in self.of_words(states, mask))  # (S, H), (S, W)
        batch, most = len(tokens.x), max(int(numbers.max()) + 1, 1)
        owner = torch.zeros(n_rows, dtype=torch.long, device=row.device).index_put((row,), document)
        number = torch.zeros_like(owner).index_put((row,), numbers[document, token])
        above = sentences.new_zeros(batch, most, sentences.shape[1]).index_put((owner, number), sentences)
        there = tokens.mask.new_zeros(batch, most).index_put((document, numbers[document, token]), mask.new_ones(()))
        vectors, between = (found.squeeze(1) for found in self.of_sentences(self.sentences(above, there)[0], there))
        attention = torch.zeros_like(tokens.x[..., 0]).index_put(
            (document, token), within[row, place] * between[document, numbers[document, token]]
        )
        return Encoding(vectors, attention)


def _grid(numbers: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """For every real token: its document and position there, its sentence's row and its position in it; all rows."""
    document, token = mask.nonzero(as_tuple=True)
    if not len(document):
        return document, token, document, token, 1
    key = document * (int(numbers.max()) + 1) + numbers[document, token]
    row = torch.cat([key.new_zeros(1), (key[1:] != key[:-1]).long()]).cumsum(0)
    first = torch.searchsorted(row, row)  # where the token's row begins
    return document, token, row, torch.arange(len(row), device=row.device) - first, int(row[-1]) + 1


class SelfAttention(LearnedEncoder):
    """Structured self-attention, trained with a task."""

    method: ClassVar[str] = "self-attention"
    Options: ClassVar[type] = SelfAttentionOptions

    @classmethod
    def make_module(cls, options: SelfAttentionOptions, dim: int, beside: int) -> SelfAttentionModule:
        states = states_of(options, dim)
        return SelfAttentionModule(states, options.rows, options.attention_units, options.penalty, beside)


class Han(LearnedEncoder):
    """HAN, trained with a task."""

    method: ClassVar[str] = "han"
    Options: ClassVar[type] = HanOptions
    numbered = True

    @classmethod
    def make_module(cls, options: HanOptions, dim: int, beside: int) -> HanModule:
        words = states_of(options, dim)
        sentences = states_of(options, words.dim + beside)
        return HanModule(words, sentences, options.attention_units, beside)
