"""Recurrent layers over texts of different lengths (循环层): LSTM and GRU, one or two directions, any number of layers.

Weights have the names and shapes of ``nn.LSTM`` and ``nn.GRU``, so published ones load as they are; new ones start with
the forget gate open (bias 1). On the CPU an LSTM is computed by ``packed_lstm``, and a GRU in training by
``packed_gru``; everything else by torch. Padding is never read, so the result of a text does not depend on the rest of
its batch. A text without tokens has zero outputs, and its state stays as it was.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from polyseme.neural.batches import Packing
from polyseme.neural.gru import GruWeights, packed_gru
from polyseme.neural.layers import dropout as dropped
from polyseme.neural.lstm import LstmWeights, State, packed_lstm


@torch.no_grad()
def open_forget_gates(rnn: nn.Module) -> None:
    """Set the biases of an ``nn.LSTM`` or ``nn.LSTMCell`` to 0, those of the forget gates to 1."""
    for name, bias in rnn.named_parameters():
        if "bias" in name:
            bias.zero_()
        if "bias_ih" in name:
            bias[len(bias) // 4 : len(bias) // 2] = 1


class Recurrent(nn.Module):
    """Inputs ``(B, T, I)``, mask ``(B, T)`` → outputs ``(B, T, D·H)``, zero at padding, and each layer's last state."""

    def __init__(
        self,
        input_size: int,
        hidden: int,
        *,
        kind: str = "lstm",  # lstm | gru
        n_layers: int = 1,
        bidirectional: bool = True,
        dropout: float = 0.0,  # between layers
    ) -> None:
        super().__init__()
        self.kind, self.hidden, self.n_layers, self.dropout = kind, hidden, n_layers, dropout
        self.n_directions = 2 if bidirectional else 1
        self.dim = self.n_directions * hidden
        made = {"lstm": nn.LSTM, "gru": nn.GRU}[kind]
        self.rnn: nn.LSTM | nn.GRU = made(
            input_size, hidden, n_layers, batch_first=True, bidirectional=bidirectional,
            dropout=dropout if n_layers > 1 else 0.0,
        )  # fmt: skip
        if kind == "lstm":
            open_forget_gates(self.rnn)

    def forward(self, x: Tensor, mask: Tensor, states: Sequence[State] | None = None) -> tuple[Tensor, list[State]]:
        """The outputs and last states. A state is ``h`` and ``c (D, B, H)``; in a GRU ``c`` is ``h``. Default: zero."""
        lengths = mask.sum(dim=1)
        if states is None:
            zero = x.new_zeros(self.n_directions, len(x), self.hidden)
            states = [State(zero, zero)] * self.n_layers
        if x.device.type == "cpu" and (self.kind == "lstm" or torch.is_grad_enabled()):
            return self._packed(x, lengths, states)
        return self._by_torch(x, mask, lengths, states)

    @staticmethod
    def last_of(states: Sequence[State]) -> Tensor:
        """The last state of the top layer, both directions concatenated ``(B, D·H)``: one vector per text."""
        return states[-1].h.transpose(0, 1).flatten(1)

    def _packed(self, x: Tensor, lengths: Tensor, states: Sequence[State]) -> tuple[Tensor, list[State]]:
        packing = Packing.of(lengths.numpy())
        order = torch.from_numpy(packing.order)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        n_texts, longest = x.shape[:2]
        # The index of each direction's packed tokens among the B·T positions.
        flat = torch.from_numpy(packing.row * longest + packing.time[: self.n_directions])  # (D, N)
        last = []
        for number, state in enumerate(states):
            x = dropped(x, self.dropout, self.training) if number else x
            places = x.reshape(n_texts * longest, x.shape[2])
            read = torch.stack([places.index_select(0, of_direction) for of_direction in flat])  # (D, N, I)
            outputs, end = self._layer(number, read, packing.sizes, State(state.h[:, order], state.c[:, order]))
            halves = [
                outputs.new_zeros(len(places), self.hidden).index_copy(0, of_direction, half)
                for of_direction, half in zip(flat, outputs, strict=True)
            ]
            x = torch.cat(halves, dim=1).view(n_texts, longest, self.dim)
            last.append(State(end.h[:, back], end.c[:, back]))
        return x, last

    def _layer(self, number: int, read: Tensor, sizes: Sequence[int], state: State) -> tuple[Tensor, State]:
        """One layer over packed inputs ``(D, N, I)``."""
        ends = ["", "_reverse"][: self.n_directions]
        of = {name: torch.stack([getattr(self.rnn, f"{name}_l{number}{end}") for end in ends])
              for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}  # fmt: skip
        if self.kind == "lstm":
            weights = LstmWeights(of["weight_ih"], of["weight_hh"], of["bias_ih"] + of["bias_hh"])
            return packed_lstm(read, sizes, weights, state)
        outputs, h = packed_gru(read, sizes, GruWeights(*of.values()), state.h)
        return outputs, State(h, h)

    def _by_torch(
        self, x: Tensor, mask: Tensor, lengths: Tensor, states: Sequence[State]
    ) -> tuple[Tensor, list[State]]:
        if not x.shape[0] or not x.shape[1]:
            return x.new_zeros(*x.shape[:2], self.dim), list(states)
        # torch rejects texts without tokens: one step is computed for them, and undone below.
        packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        h, c = (torch.cat([state[kind] for state in states]) for kind in (0, 1))  # (L·D, B, H)
        outputs, end = self.rnn(packed, h if self.kind == "gru" else (h, c))
        padded = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])[0]
        padded = padded * mask[:, :, None]
        (last_h, last_c), c = ((end, end), h) if self.kind == "gru" else (end, c)
        read = (lengths > 0)[None, :, None]
        last_h, last_c = torch.where(read, last_h, h), torch.where(read, last_c, c)
        parts = [torch.split(whole, self.n_directions) for whole in (last_h, last_c)]
        return padded, [State(h, c) for h, c in zip(*parts, strict=True)]
