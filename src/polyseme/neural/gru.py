"""A packed GRU with hand-written gradients (打包的 GRU 及其梯度).

Cho et al., "Learning Phrase Representations using RNN Encoder–Decoder", EMNLP 2014, in torch's form. The D directions
are the first axis, tokens are packed (``Packing``). With  x' = x W_i + b_i + context  and  a = h W_r + b_r

    r = σ(x'_r + a_r)      z = σ(x'_z + a_z)      n = tanh(x'_n + r·a_n)      h' = n + z·(h - n)

``context`` adds one row to the gates of each text, the same at every step: a decoder's condition costs one product per
text. As in ``packed_lstm``, the gradient of each weight is one product for the whole sequence, and the elementwise part
of a step is one compiled loop (on the CPU in float32; elsewhere torch's own operations).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from polyseme.neural.batches import ends_of, previous_of, steps_of


class GruWeights(NamedTuple):
    """The weights of D directions, gates in torch's order: r, z, n."""

    input: Tensor  # (D, 3H, I)
    recurrent: Tensor  # (D, 3H, H)
    input_bias: Tensor  # (D, 3H)
    recurrent_bias: Tensor  # (D, 3H)


def packed_gru(
    inputs: Tensor, sizes: Sequence[int], weights: GruWeights, h: Tensor, context: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Packed inputs ``(D, N, I)`` → packed states ``(D, N, H)``, and the last state of each row, in packed order.

    ``h (D, B, H)`` is the state before the first step; ``context (D, B, 3H)`` is added to the gates at every step.
    """
    states: tuple[Tensor, Tensor] = _PackedGru.apply(  # type: ignore[no-untyped-call]
        inputs, *weights, h, context, tuple(sizes)
    )
    return states


class _PackedGru(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        w_input: Tensor,
        w_recurrent: Tensor,
        input_bias: Tensor,
        recurrent_bias: Tensor,
        h0: Tensor,
        context: Tensor | None,
        sizes: tuple[int, ...],
    ) -> tuple[Tensor, Tensor]:
        (n_directions, rows, hidden), n = h0.shape, x.shape[1]
        gates = torch.baddbmm(input_bias.unsqueeze(1), x, w_input.transpose(1, 2))  # (D, N, 3H)
        states = x.new_empty(n_directions, rows + n, hidden)  # the first rows are the state before the first step
        states[:, :rows] = h0
        cell = _cell(gates, states, x.new_empty(n_directions, n, hidden))
        products = x.new_empty(n_directions, rows, 3 * hidden)
        recurrent, bias = w_recurrent.transpose(1, 2), recurrent_bias.unsqueeze(1)
        for start, size, before in steps_of(sizes, rows):
            if context is not None:
                gates[:, start : start + size] += context[:, :size]
            torch.baddbmm(bias, states[:, before : before + size], recurrent, out=products[:, :size])
            cell.forward(products, start, size, before)
        ctx.save_for_backward(x, w_input, w_recurrent, gates, states, cell.a_n)
        ctx.sizes, ctx.has_context = sizes, context is not None
        ctx.set_materialize_grads(False)
        return states[:, rows:].clone(), states[:, ends_of(sizes, rows, x.device)]

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_h: Tensor | None) -> tuple[Tensor | None, ...]:
        x, w_input, w_recurrent, gates, states, a_n = ctx.saved_tensors
        sizes: tuple[int, ...] = ctx.sizes
        rows = states.shape[1] - x.shape[1]
        dh = torch.zeros_like(states)
        if grad is not None:
            dh[:, rows:] = grad
        if grad_h is not None:
            dh[:, ends_of(sizes, rows, x.device)] += grad_h
        cell = _cell(gates, states, a_n)
        d_input, d_recurrent = torch.empty_like(gates), torch.empty_like(gates)
        d_context = gates.new_zeros(len(gates), rows, gates.shape[2]) if ctx.has_context else None
        for start, size, before in reversed(list(steps_of(sizes, rows))):
            cell.backward(dh, d_input, d_recurrent, start, size, before)
            dh[:, before : before + size].baddbmm_(d_recurrent[:, start : start + size], w_recurrent)
            if d_context is not None:
                d_context[:, :size] += d_input[:, start : start + size]
        return (
            torch.bmm(d_input, w_input) if ctx.needs_input_grad[0] else None,
            torch.bmm(d_input.transpose(1, 2), x),
            torch.bmm(d_recurrent.transpose(1, 2), states[:, previous_of(sizes, rows, x.device)]),
            d_input.sum(dim=1),
            d_recurrent.sum(dim=1),
            dh[:, :rows] if ctx.needs_input_grad[5] else None,
            d_context,
            None,
        )


class _Cell:
    """The elementwise part of a step, with torch operations."""

    def __init__(self, gates: Tensor, states: Tensor, a_n: Tensor) -> None:
        self.gates, self.states, self.a_n = gates, states, a_n
        self.hidden, self.rows = a_n.shape[2], states.shape[1] - a_n.shape[1]

    def forward(self, products: Tensor, start: int, size: int, before: int) -> None:
        """Turn the gates into activations in place; write ``a_n`` and the new states."""
        gates, a, edge = self.gates[:, start : start + size], products[:, :size], 2 * self.hidden
        gates[..., :edge].add_(a[..., :edge]).sigmoid_()
        r, z, n = gates.chunk(3, dim=2)
        self.a_n[:, start : start + size] = a[..., edge:]
        n.addcmul_(r, a[..., edge:]).tanh_()
        old = self.states[:, before : before + size]
        self.states[:, self.rows + start : self.rows + start + size] = n + z * (old - n)

    def backward(self, dh: Tensor, d_input: Tensor, d_recurrent: Tensor, start: int, size: int, before: int) -> None:
        """Write the gradients of the gates; add the part that skips the matrix products to ``dh`` at ``before``."""
        now, old = slice(start, start + size), slice(before, before + size)
        r, z, n = self.gates[:, now].chunk(3, dim=2)
        slope = dh[:, self.rows + start : self.rows + start + size]
        d_n = slope * (1 - z) * (1 - n * n)
        d_z = slope * (self.states[:, old] - n) * z * (1 - z)
        d_r = d_n * self.a_n[:, now] * r * (1 - r)
        d_input[:, now] = torch.cat([d_r, d_z, d_n], dim=2)
        d_recurrent[:, now] = torch.cat([d_r, d_z, d_n * r], dim=2)
        dh[:, old] += slope * z


class _CompiledCell(_Cell):
    """The same with compiled loops."""

    def __init__(self, gates: Tensor, states: Tensor, a_n: Tensor) -> None:
        from polyseme.neural import kernels

        super().__init__(gates, states, a_n)
        self.kernels, self.arrays = kernels, (gates.numpy(), states.numpy(), a_n.numpy())

    def forward(self, products: Tensor, start: int, size: int, before: int) -> None:
        self.kernels.gru_forward(*self.arrays, products.numpy(), start, size, before)

    def backward(self, dh: Tensor, d_input: Tensor, d_recurrent: Tensor, start: int, size: int, before: int) -> None:
        of_gates = d_input.numpy(), d_recurrent.numpy()
        self.kernels.gru_backward(*self.arrays, dh.numpy(), *of_gates, start, size, before)


def _cell(gates: Tensor, states: Tensor, a_n: Tensor) -> _Cell:
    compiled = gates.dtype == torch.float32 and gates.device.type == "cpu"
    return (_CompiledCell if compiled else _Cell)(gates, states, a_n)
