"""Encoders with attention over words 注意力句编码器: structured self-attention and hierarchical attention (HAN)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from polyseme.neural.layers import AttentionPooling
from polyseme.neural.recurrent import Recurrent
from polyseme.sentences.learned import LearnedEncoder
from polyseme.sentences.modules import Encoding, TextModule, Tokens, with_beside
from polyseme.sentences.options import HanOptions, SelfAttentionOptions
from polyseme.sentences.recurrent import states_of


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

    def forward(self, tokens: Tokens) -> Encoding:
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

    def forward(self, tokens: Tokens) -> Encoding:
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
