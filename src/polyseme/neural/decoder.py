"""A packed LSTM decoder with attention and input feeding, with hand-written gradients (注意力解码器及其梯度).

Luong et al., "Effective Approaches to Attention-based Neural Machine Translation", EMNLP 2015. With the source states
H, their keys K (H times a matrix, for the general score) and the target words x_t, which are known in training:

    h_t = LSTM([x_t; h̃_{t-1}], h_{t-1})        h̃_0 = 0, layers with dropout between them
    α_t = softmax(K h_t)        h̃_t = tanh(W [Hᵀα_t; h_t])

Tokens are packed (``Packing``): step t has the first ``sizes[t]`` rows. As in ``packed_lstm``, the product with x and
the gradient of each weight are one product for the whole sequence, and the elementwise part of a step and the attention
are compiled loops (on the CPU in float32; elsewhere torch's own operations).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from polyseme.neural.batches import previous_of, steps_of
from polyseme.neural.layers import softmax_over
from polyseme.neural.lstm import cell_of


class LayerWeights(NamedTuple):
    """The weights of an LSTM layer, gates in torch's order; the first layer reads ``[x; h̃]``."""

    input: Tensor  # (4H, E + H), in upper layers (4H, H)
    recurrent: Tensor  # (4H, H)
    bias: Tensor  # (4H,)


class AttendedStates(NamedTuple):
    """What the decoder attends to, rows in packed order."""

    states: Tensor  # (B, S, H)
    keys: Tensor  # (B, S, H)
    mask: Tensor  # (B, S), True at the first words of each row


def packed_decoder(
    x: Tensor,
    sizes: Sequence[int],
    source: AttendedStates,
    h: Tensor,
    c: Tensor,
    layers: Sequence[LayerWeights],
    join: Tensor,
    kept: Tensor | None = None,
) -> Tensor:
    """Packed inputs ``x (N, E)`` → h̃ of every token ``(N, H)``.

    ``h`` and ``c (L, B, H)`` are the states before the first step, ``join (H, 2H)`` is W, and ``kept (L - 1, N, H)``
    are the dropout factors between the layers. Every row has at least one token.
    """
    flat = [weight for layer in layers for weight in layer]
    outputs: Tensor = _PackedDecoder.apply(  # type: ignore[no-untyped-call]
        x, *source, h, c, join, kept, tuple(sizes), *flat
    )
    return outputs


class _PackedDecoder(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        states: Tensor,
        keys: Tensor,
        mask: Tensor,
        h0: Tensor,
        c0: Tensor,
        join: Tensor,
        kept: Tensor | None,
        sizes: tuple[int, ...],
        *weights: Tensor,
    ) -> Tensor:
        (n, rows), size_of = (len(x), h0.shape[1]), h0.shape[2]
        layers = _layers(weights)
        fed = x.new_empty(rows + n, size_of)  # the first rows are h̃ before the first step
        fed[:rows] = 0
        gates = x.new_empty(len(layers), n, 4 * size_of)
        cells, hs = (x.new_empty(len(layers), rows + n, size_of) for _ in range(2))
        cells[:, :rows], hs[:, :rows] = c0, h0
        tanh_c = x.new_empty(len(layers), n, size_of)
        torch.addmm(layers[0].bias, x, layers[0].input[:, : x.shape[1]].t(), out=gates[0])
        steps = _cells(gates, cells, tanh_c)
        attention = _attention(states, keys, mask, n)
        w_fed, join_turned = layers[0].input[:, x.shape[1] :].t(), join.t()
        for start, size, before in steps_of(sizes, rows):
            now, old = slice(start, start + size), slice(before, before + size)
            for number, layer in enumerate(layers):
                z = gates[number, now]
                if number:
                    below = hs[number - 1, rows + start : rows + start + size]
                    below = below if kept is None else below * kept[number - 1, now]
                    torch.addmm(layer.bias, below, layer.input.t(), out=z)
                else:
                    z.addmm_(fed[old], w_fed)
                z.addmm_(hs[number, old], layer.recurrent.t())
                steps[number].forward(hs[number : number + 1], rows, start, size, before)
            attention.forward(hs[-1, rows + start : rows + start + size], start, size)
            torch.mm(attention.joined[now], join_turned, out=fed[rows + start : rows + start + size]).tanh_()
        ctx.save_for_backward(
            x, states, keys, mask, join, kept, gates, cells, hs, tanh_c, fed, attention.weights, attention.joined,
            *weights,
        )  # fmt: skip
        ctx.sizes = sizes
        return fed[rows:].clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (x, states, keys, mask, join, kept, gates, cells, hs, tanh_c, fed, of_words, joined, *weights) = (
            ctx.saved_tensors
        )
        layers, sizes, n = _layers(weights), ctx.sizes, len(x)
        rows = len(fed) - n
        steps, attention = _cells(gates, cells, tanh_c), _attention(states, keys, mask, n)
        attention.weights, attention.joined = of_words, joined
        for step in steps:
            step.prepare_backward(sizes)
        d_fed = torch.zeros_like(fed)  # rows of the states before the first step first, as in ``fed``
        d_fed[rows:] = grad
        dh, dc = torch.zeros_like(hs), cells.new_zeros(len(layers), rows, cells.shape[2])
        w_fed, slopes = layers[0].input[:, x.shape[1] :], torch.empty_like(grad)
        for start, size, before in reversed(list(steps_of(sizes, rows))):
            now, old, own = (slice(first, first + size) for first in (start, before, rows + start))
            torch.mul(fed[own], fed[own], out=slopes[now]).neg_().add_(1).mul_(d_fed[own])
            torch.mm(slopes[now], join, out=attention.d_joined[now])
            attention.backward(dh[-1, own], start, size)
            for number in reversed(range(len(layers))):
                dz = steps[number].backward(
                    dh[number : number + 1], rows + start, dc[number : number + 1], start, size, before
                )[0]
                dh[number, old].addmm_(dz, layers[number].recurrent)
                if not number:
                    d_fed[old].addmm_(dz, w_fed)
                elif kept is None:
                    dh[number - 1, own].addmm_(dz, layers[number].input)
                else:
                    dh[number - 1, own].addcmul_(dz @ layers[number].input, kept[number - 1, now])
        previous = previous_of(sizes, rows, x.device)
        of_weights: list[Tensor] = []
        for number, step in enumerate(steps):
            turned = step.dz[0].t()
            if number:
                read = hs[number - 1, rows:] if kept is None else hs[number - 1, rows:] * kept[number - 1]
            else:
                read = torch.cat([x, fed[previous]], dim=1)
            of_weights += [turned @ read, turned @ hs[number, previous], step.dz[0].sum(dim=0)]
        d_states, d_keys = attention.gradients(hs[-1, rows:], sizes)
        d_x = steps[0].dz[0] @ layers[0].input[:, : x.shape[1]]
        return d_x, d_states, d_keys, None, dh[:, :rows], dc, slopes.t() @ joined, None, None, *of_weights


def _layers(weights: Sequence[Tensor]) -> list[LayerWeights]:
    return [LayerWeights(*weights[first : first + 3]) for first in range(0, len(weights), 3)]


def _cells(gates: Tensor, cells: Tensor, tanh_c: Tensor) -> list[Any]:
    """The elementwise part of the steps of each layer, which is the only direction of its own LSTM."""
    parts = (torch.split(tensor, 1) for tensor in (gates, cells, tanh_c))
    return [cell_of(*of_layer) for of_layer in zip(*parts, strict=True)]


class _Attention:
    """The attention of each step, with torch operations; ``weights``, ``joined`` and gradients are of packed tokens."""

    def __init__(self, states: Tensor, keys: Tensor, mask: Tensor, n: int) -> None:
        self.states, self.keys, self.mask = states, keys, mask
        self.dim = states.shape[2]
        self.weights = states.new_zeros(n, states.shape[1])
        self.joined = states.new_empty(n, 2 * self.dim)  # [Hᵀα; h]
        self.d_joined, self.d_scores = torch.empty_like(self.joined), torch.zeros_like(self.weights)

    def forward(self, h: Tensor, start: int, size: int) -> None:
        """Write the weights and ``joined`` of a step with the queries ``h (size, H)``."""
        now = slice(start, start + size)
        scores = torch.bmm(self.keys[:size], h.unsqueeze(2)).squeeze(2)
        self.weights[now] = softmax_over(scores, self.mask[:size])
        self.joined[now, : self.dim] = torch.bmm(self.weights[now].unsqueeze(1), self.states[:size]).squeeze(1)
        self.joined[now, self.dim :] = h

    def backward(self, dh: Tensor, start: int, size: int) -> None:
        """From ``d_joined`` of a step: write ``d_scores``, and add the gradient of the queries to ``dh (size, H)``."""
        now = slice(start, start + size)
        d_found, d_own = torch.split(self.d_joined[now], self.dim, dim=1)
        slopes = torch.bmm(self.states[:size], d_found.unsqueeze(2)).squeeze(2)
        w = self.weights[now]
        d_scores = w * (slopes - (w * slopes).sum(dim=1, keepdim=True))
        self.d_scores[now] = d_scores
        dh += d_own + torch.bmm(d_scores.unsqueeze(1), self.keys[:size]).squeeze(1)

    def gradients(self, h: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The gradients of the states and of the keys, both ``(B, S, H)``, from those of all steps."""
        d_states, d_keys = torch.zeros_like(self.states), torch.zeros_like(self.keys)
        for start, size, _ in steps_of(sizes, len(self.states)):
            now = slice(start, start + size)
            d_states[:size] += self.weights[now].unsqueeze(2) * self.d_joined[now, : self.dim].unsqueeze(1)
            d_keys[:size] += self.d_scores[now].unsqueeze(2) * h[now].unsqueeze(1)
        return d_states, d_keys


class _CompiledAttention(_Attention):
    """The same with compiled loops."""

    def __init__(self, states: Tensor, keys: Tensor, mask: Tensor, n: int) -> None:
        from polyseme.neural import kernels

        super().__init__(states, keys, mask, n)
        self.kernels, self.lengths = kernels, mask.sum(dim=1).numpy()
        of_states, of_keys = (tensor.detach().contiguous().numpy() for tensor in (states, keys))
        self.source = of_states, of_keys, self.lengths

    def forward(self, h: Tensor, start: int, size: int) -> None:
        self.kernels.attend_forward(
            *self.source, h.numpy(), self.weights.numpy(), self.joined.numpy(), start, size
        )  # fmt: skip

    def backward(self, dh: Tensor, start: int, size: int) -> None:
        self.kernels.attend_backward(
            *self.source, self.weights.numpy(), self.d_joined.numpy(), self.d_scores.numpy(), dh.numpy(), start, size
        )

    def gradients(self, h: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        d_states, d_keys = torch.zeros_like(self.states), torch.zeros_like(self.keys)
        steps, d_found = np.asarray(sizes), self.d_joined[:, : self.dim].contiguous()
        self.kernels.add_outer(self.weights.numpy(), d_found.numpy(), steps, self.lengths, d_states.numpy())
        self.kernels.add_outer(self.d_scores.numpy(), h.numpy(), steps, self.lengths, d_keys.numpy())
        return d_states, d_keys


def _attention(states: Tensor, keys: Tensor, mask: Tensor, n: int) -> _Attention:
    compiled = states.dtype == torch.float32 and states.device.type == "cpu"
    return (_CompiledAttention if compiled else _Attention)(states, keys, mask, n)
