"""The attentional translation model behind CoVe (注意力翻译模型), as torch modules.

McCann et al., "Learned in Translation: Contextualized Word Vectors", NIPS 2017; after Luong et al. 2015.

    H = biLSTM(x_1 … x_n)                                    the MT-LSTM; its layers are the vectors
    h_t = LSTM([z_{t-1}; h̃_{t-1}], h_{t-1})                  input feeding, h̃_0 = 0
    α_t = softmax(H W_1 h_t)      h̃_t = tanh(W_2 [Hᵀα_t; h_t])      p(z_t) = softmax(W h̃_t + b)

The decoder starts from the last states of the encoder, both directions concatenated. As in the authors' program, the
linear layers of the attention have no bias.

Beam search 束搜索: the most likely translation, generated word by word.

A finished translation is scored by its mean log probability, so that short ones are not preferred. The unknown word is
never generated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import FloatArray
from polyseme.contexts.cove.options import CoveOptions
from polyseme.contexts.cove.target_vocabulary import BOUNDARY, SPECIALS, UNKNOWN
from polyseme.neural.batches import Packing, mask_of
from polyseme.neural.decoder import AttendedStates, LayerWeights, packed_decoder
from polyseme.neural.layers import dropout, softmax_over
from polyseme.neural.lstm import State
from polyseme.neural.recurrent import Recurrent, open_forget_gates


class Memory(NamedTuple):
    """What the decoder attends to: the top layer of the encoder, its keys, and the mask of the words."""

    states: Tensor  # (B, S, 2H)
    keys: Tensor  # (B, S, 2H): H W_1
    mask: Tensor  # (B, S)

    def rows(self, which: Tensor) -> Memory:
        """The same for a selection of the sentences, with repeats allowed."""
        return Memory(self.states[which], self.keys[which], self.mask[which])


class Cursor(NamedTuple):
    """The state of the decoder: h and c of its layers, and the last h̃."""

    h: Tensor  # (L, B, 2H)
    c: Tensor  # (L, B, 2H)
    fed: Tensor  # (B, 2H)

    def rows(self, which: Tensor) -> Cursor:
        """The same for a selection of the sentences."""
        return Cursor(self.h[:, which], self.c[:, which], self.fed[which])


class Encoder(nn.Module):
    """The MT-LSTM. Its weights are named as in the published file."""

    def __init__(self, dim: int, options: CoveOptions) -> None:
        super().__init__()
        self.dim, self.n_layers = 2 * options.hidden, options.n_layers
        self.layers = nn.ModuleList(
            Recurrent(dim if number == 0 else self.dim, options.hidden) for number in range(options.n_layers)
        )
        self.dropout = options.dropout

    def forward(self, x: Tensor, mask: Tensor) -> tuple[list[Tensor], list[State]]:
        """Inputs ``(B, S, D)``, mask ``(B, S)`` → the layers ``(B, S, 2H)``, and their last states."""
        planes, last = [], []
        for number, layer in enumerate(self.layers):
            x, states = layer(dropout(x, self.dropout, self.training) if number else x, mask)
            planes.append(x)
            last += states
        return planes, last


class Decoder(nn.Module):
    """LSTM layers with input feeding, attention, and a softmax over the target words."""

    def __init__(self, n_words: int, options: CoveOptions) -> None:
        super().__init__()
        size = 2 * options.hidden
        self.table = nn.Parameter(torch.empty(n_words, options.dim).uniform_(-0.1, 0.1))
        inputs = [options.dim + size, *[size] * (options.n_layers - 1)]
        self.cells = nn.ModuleList(nn.LSTMCell(n, size) for n in inputs)
        self.key = nn.Linear(size, size, bias=False)
        self.join = nn.Linear(2 * size, size, bias=False)
        self.softmax_weight = nn.Parameter(torch.empty(n_words, size).uniform_(-0.1, 0.1))
        self.softmax_bias = nn.Parameter(torch.zeros(n_words))
        self.dropout = options.dropout
        for cell in self.cells:
            open_forget_gates(cell)

    def begin(self, top: Tensor, mask: Tensor, last: list[State]) -> tuple[Memory, Cursor]:
        """The memory to attend to, and the initial state of the decoder."""
        memory = Memory(top, self.key(top), mask)
        h, c = (torch.stack([state[kind].transpose(0, 1).flatten(1) for state in last]) for kind in (0, 1))
        return memory, Cursor(h, c, top.new_zeros(len(top), top.shape[2]))

    def step(self, words: Tensor, memory: Memory, cursor: Cursor) -> tuple[Tensor, Cursor, Tensor]:
        """Words ``(B,)`` → h̃ ``(B, 2H)``, the next cursor, and the attention weights ``(B, S)``."""
        x = torch.cat([F.embedding(words, self.table, sparse=True), cursor.fed], dim=1)
        hs, cs = [], []
        for number, cell in enumerate(self.cells):
            x = dropout(x, self.dropout, self.training) if number else x
            x, c = cell(x, (cursor.h[number], cursor.c[number]))
            hs.append(x)
            cs.append(c)
        weights = softmax_over(torch.einsum("bsd,bd->bs", memory.keys, x), memory.mask)
        context = torch.einsum("bs,bsd->bd", weights, memory.states)
        fed = torch.tanh(self.join(torch.cat([context, x], dim=1)))
        return fed, Cursor(torch.stack(hs), torch.stack(cs), fed), weights

    def outputs(self, words: Tensor, sizes: Sequence[int], memory: Memory, cursor: Cursor) -> Tensor:
        """h̃ ``(N, 2H)`` of all steps at once, for packed words ``(N,)`` that are known beforehand."""
        x = F.embedding(words, self.table, sparse=True)
        of_cells = (cell.parameters() for cell in self.cells)
        layers = [
            LayerWeights(w_input, recurrent, input_bias + recurrent_bias)
            for w_input, recurrent, input_bias, recurrent_bias in of_cells
        ]
        kept = None
        if self.training and self.dropout and len(layers) > 1:
            kept = dropout(x.new_ones(len(layers) - 1, len(words), len(self.join.weight)), self.dropout)
        return packed_decoder(x, sizes, AttendedStates(*memory), cursor.h, cursor.c, layers, self.join.weight, kept)

    def log_probabilities(self, fed: Tensor) -> Tensor:
        """Log probabilities of the next word: h̃ ``(M, 2H) -> (M, words)``."""
        return torch.log_softmax(torch.addmm(self.softmax_bias, fed, self.softmax_weight.t()), dim=1)


class Translator(nn.Module):
    """Source word vectors (if they are learned), encoder and decoder."""

    def __init__(self, options: CoveOptions, *, n_source: int, n_target: int, dim: int) -> None:
        """``n_source`` is 0 if word vectors (of dimension ``dim``) are given, ``n_target`` if there is no decoder."""
        super().__init__()
        self.table = nn.Parameter(torch.empty(n_source, dim).uniform_(-0.1, 0.1)) if n_source else None
        self.encoder = Encoder(dim, options)
        self.decoder = Decoder(n_target, options) if n_target else None

    def outputs(self, x: Tensor, lengths: Tensor, read: Tensor, packing: Packing) -> Tensor:
        """h̃ ``(N, 2H)`` of each packed target word, from source vectors ``x (B, S, D)`` and target words ``(N,)``."""
        assert self.decoder is not None
        mask = mask_of(lengths, x.shape[1], x.device)
        planes, last = self.encoder(x, mask)
        memory, cursor = self.decoder.begin(planes[-1], mask, last)
        order = torch.from_numpy(packing.order).to(x.device)
        return self.decoder.outputs(read, packing.sizes, memory.rows(order), cursor.rows(order))


@dataclass(frozen=True)
class Translation:
    """The translation of a text."""

    text: str
    words: list[str]
    source: list[str]  # the words that were translated
    attention: FloatArray  # (words, source): attention weights of each word
    score: float  # mean log probability of its words


@torch.inference_mode()
def translated(
    network: Translator, x: Tensor, lengths: Tensor, *, beam: int, longest: int
) -> tuple[list[int], FloatArray, float]:
    """For one sentence ``(1, S, D)``: indices of the generated words, their attention weights, and the score."""
    decoder = network.decoder
    assert decoder is not None
    n = int(lengths[0])
    if not n:
        return [], np.zeros((0, 0), dtype=np.float32), 0.0
    mask = torch.ones(1, n, dtype=torch.bool)
    planes, last = network.encoder(x, mask)
    memory, cursor = decoder.begin(planes[-1], mask, last)
    scores, words = torch.zeros(1), torch.tensor([BOUNDARY])
    written: list[list[int]] = [[]]
    attention: list[list[Tensor]] = [[]]
    best: tuple[float, list[int], list[Tensor]] | None = None
    for step in range(1, min(longest, 3 * n + 10) + 1):
        fed, cursor, weights = decoder.step(words, memory.rows(torch.zeros(len(words), dtype=torch.int64)), cursor)
        chances = decoder.log_probabilities(fed)
        chances[:, UNKNOWN] = -torch.inf
        total = (scores[:, None] + chances).reshape(-1)
        top = torch.topk(total, min(2 * beam, len(total)))
        kept: list[tuple[int, int, float]] = []
        for score, place in zip(top.values.tolist(), top.indices.tolist(), strict=True):
            row, word = divmod(place, chances.shape[1])
            if word == BOUNDARY:
                if best is None or score / step > best[0]:
                    best = (score / step, written[row], attention[row])
            elif len(kept) < beam and np.isfinite(score):
                kept.append((row, word, score))
        if not kept or (best is not None and kept[0][2] / step < best[0]):
            break
        rows = torch.tensor([row for row, _, _ in kept])
        written = [[*written[row], word] for row, word, _ in kept]
        attention = [[*attention[row], weights[row]] for row, _, _ in kept]
        scores, words = torch.tensor([score for *_, score in kept]), torch.tensor([word for _, word, _ in kept])
        cursor = cursor.rows(rows)
    if best is None:
        best = (float(scores[0]) / max(len(written[0]), 1), written[0], attention[0])
    score, numbers, weights_of = best
    table = torch.stack(weights_of).numpy() if weights_of else np.zeros((0, n), dtype=np.float32)
    return [number - SPECIALS for number in numbers], table, score
