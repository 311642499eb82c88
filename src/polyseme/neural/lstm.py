"""The clipped, projected LSTM of a biLM with gradients of its own (带截断与投影的 LSTM 及其梯度).

Both directions stand on a leading axis of 2, tokens are packed (``Packing``): step t holds the first ``sizes[t]`` rows.

    i, f, g, o = σ, σ, tanh, σ of  x W_i + h W_r + b
    c' = clip(f·c + i·g)        m = o·tanh(c')        h' = clip(m W_p)

Against automatic differentiation of the same loop: the input product and each weight's gradient are one product for the
whole sequence, and what lies between two products of a step is one compiled loop (on the CPU in float32; elsewhere
torch's own operations, where tanh(x) is taken as 2σ(2x)-1, which is several times faster).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

_NO_CLIP = np.float32(np.inf)


def lstm_with_gradient(
    inputs: Tensor,
    sizes: Sequence[int],
    state: tuple[Tensor, Tensor],
    weights: tuple[Tensor, Tensor, Tensor, Tensor | None],
    cell_clip: float = 0.0,
    projection_clip: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Packed inputs ``(2, N, P)`` → packed states ``(2, N, P)``, and each row's last ``h (2, B, P)``, ``c (2, B, H)``.

    ``weights`` are input ``(2, 4H, P)``, recurrent ``(2, 4H, P)``, bias ``(2, 4H)`` and projection ``(2, P, H)`` or
    None. The last states carry no gradient, nor does the first ``state``: training cuts the past off there.
    """
    found: tuple[Tensor, Tensor, Tensor] = _ProjectedLstm.apply(  # type: ignore[no-untyped-call]
        inputs, *weights, *state, tuple(sizes), cell_clip, projection_clip
    )
    return found


class _ProjectedLstm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        w_input: Tensor,
        w_recurrent: Tensor,
        bias: Tensor,
        w_projection: Tensor | None,
        h0: Tensor,
        c0: Tensor,
        sizes: tuple[int, ...],
        cell_clip: float,
        projection_clip: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        hidden, rows, n = c0.shape[2], c0.shape[1], x.shape[1]
        gates = torch.baddbmm(bias.unsqueeze(1), x, w_input.transpose(1, 2))  # (2, N, 4H)
        cells = x.new_empty(2, rows + n, hidden)  # the first rows are the state before the first step
        states = x.new_empty(2, rows + n, h0.shape[2])
        m = (
            states if w_projection is None else x.new_empty(2, n, hidden)
        )  # m = o·tanh(c): the state, or projected to it
        cells[:, :rows], states[:, :rows] = c0, h0
        cell = _cell(gates, cells, x.new_empty(2, n, hidden), cell_clip)
        recurrent = w_recurrent.transpose(1, 2)
        for start, size, before in _steps(sizes, rows):
            gates[:, start : start + size].baddbmm_(states[:, before : before + size], recurrent)
            cell.forward(m, m.shape[1] - n, start, size, before)
            if w_projection is not None:
                h = torch.bmm(m[:, start : start + size], w_projection.transpose(1, 2))
                h = h.clamp_(-projection_clip, projection_clip) if projection_clip else h
                states[:, rows + start : rows + start + size] = h
        ends = _ends(sizes, rows)
        last_h, last_c = states[:, ends], cells[:, ends]
        outputs = states[:, rows:].clone()
        ctx.save_for_backward(x, w_input, w_recurrent, w_projection, gates, cells, states, cell.tanh_c, m)
        ctx.sizes, ctx.clips = sizes, (cell_clip, projection_clip)
        ctx.mark_non_differentiable(last_h, last_c)
        return outputs, last_h, last_c

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, w_input, w_recurrent, w_projection, gates, cells, states, tanh_c, m = ctx.saved_tensors
        sizes: tuple[int, ...] = ctx.sizes
        cell_clip, projection_clip = ctx.clips
        n, hidden = tanh_c.shape[1:]
        rows = cells.shape[1] - n
        state_open = _open(states[:, rows:], projection_clip if w_projection is not None else 0.0)
        dh = grad.clone(memory_format=torch.contiguous_format) if state_open is None else grad * state_open
        cell, dc = _cell(gates, cells, tanh_c, cell_clip), cells.new_zeros(2, rows, hidden)
        cell.prepare_backward(sizes)
        for start, size, before in reversed(list(_steps(sizes, rows))):
            if w_projection is None:
                dz = cell.backward(dh, start, dc, start, size, before)
            else:
                dm = torch.bmm(dh[:, start : start + size], w_projection)
                dz = cell.backward(dm, 0, dc, start, size, before)
            if start:
                earlier = dh[:, before - rows : before - rows + size]
                if state_open is None:
                    earlier.baddbmm_(dz, w_recurrent)
                else:
                    earlier.addcmul_(torch.bmm(dz, w_recurrent), state_open[:, before - rows : before - rows + size])
        turned = cell.dz.transpose(1, 2)
        return (
            torch.bmm(cell.dz, w_input),
            torch.bmm(turned, x),
            torch.bmm(turned, states[:, _previous(sizes, rows)]),
            cell.dz.sum(dim=1),
            None if w_projection is None else torch.bmm(dh.transpose(1, 2), m),
            *(None,) * 5,
        )


class _Cell:
    """What happens between a step's products, by torch. Backward leaves the gates' gradients in ``dz``."""

    def __init__(self, gates: Tensor, cells: Tensor, tanh_c: Tensor, clip: float) -> None:
        self.gates, self.cells, self.tanh_c, self.clip = gates, cells, tanh_c, clip
        self.hidden, self.rows = tanh_c.shape[2], cells.shape[1] - tanh_c.shape[1]
        self.dz = tanh_c.new_empty(0)

    def forward(self, m: Tensor, m_start: int, start: int, size: int, before: int) -> None:
        """Gates to activations, in place; the new cells; m into rows ``m_start + start`` … of ``m``."""
        z, c = self.gates[:, start : start + size], self.cells[:, self.rows + start : self.rows + start + size]
        i, f, g, o = torch.split(z, self.hidden, dim=2)
        g.mul_(2)
        z.sigmoid_()
        g.mul_(2).sub_(1)
        torch.mul(f, self.cells[:, before : before + size], out=c).addcmul_(i, g)
        if self.clip:
            c.clamp_(-self.clip, self.clip)
        t = torch.mul(c, 2, out=self.tanh_c[:, start : start + size]).sigmoid_().mul_(2).sub_(1)
        torch.mul(o, t, out=m[:, m_start + start : m_start + start + size])

    def prepare_backward(self, sizes: tuple[int, ...]) -> None:
        """The local derivatives of every step at once."""
        i, f, g, o = torch.split(self.gates, self.hidden, dim=2)
        before = self.cells[:, _previous(sizes, self.rows)]
        slopes = [g * i * (1 - i), before * f * (1 - f), i * (1 - g * g), self.tanh_c * o * (1 - o)]
        self.dz = torch.cat(slopes, dim=2)
        self.through = o * (1 - self.tanh_c.square())  # ∂m/∂c
        self.cell_open = _open(self.cells[:, self.rows :], self.clip)

    def backward(self, dm: Tensor, dm_start: int, dc: Tensor, start: int, size: int, before: int) -> Tensor:
        """The gradient of a step's gates; ``dc`` becomes that of the cells before it."""
        now, hidden = slice(start, start + size), self.hidden
        dm = dm[:, dm_start : dm_start + size]
        c = dc[:, :size].addcmul_(dm, self.through[:, now])
        if self.cell_open is not None:
            c.mul_(self.cell_open[:, now])
        z = self.dz[:, now]
        z[..., : 3 * hidden].view(2, size, 3, hidden).mul_(c.unsqueeze(2))
        z[..., 3 * hidden :].mul_(dm)
        c.mul_(self.gates[:, now, hidden : 2 * hidden])
        return z


class _CompiledCell(_Cell):
    """The same in compiled loops."""

    def __init__(self, gates: Tensor, cells: Tensor, tanh_c: Tensor, clip: float) -> None:
        from polyseme.neural import kernels as kernels_bilm

        super().__init__(gates, cells, tanh_c, clip)
        self.kernels = kernels_bilm
        self.arrays = gates.numpy(), cells.numpy(), tanh_c.numpy()
        self.bound = np.float32(clip) if clip else _NO_CLIP

    def forward(self, m: Tensor, m_start: int, start: int, size: int, before: int) -> None:
        self.kernels.cell_forward(*self.arrays, m.numpy(), m_start, start, size, before, self.bound)

    def prepare_backward(self, sizes: tuple[int, ...]) -> None:
        self.dz = torch.empty_like(self.gates)

    def backward(self, dm: Tensor, dm_start: int, dc: Tensor, start: int, size: int, before: int) -> Tensor:
        self.kernels.cell_backward(
            *self.arrays, dm.numpy(), dm_start, dc.numpy(), self.dz.numpy(), start, size, before, self.bound
        )
        return self.dz[:, start : start + size]


def _cell(gates: Tensor, cells: Tensor, tanh_c: Tensor, clip: float) -> _Cell:
    compiled = gates.dtype == torch.float32 and gates.device.type == "cpu"
    return (_CompiledCell if compiled else _Cell)(gates, cells, tanh_c, clip)


def _steps(sizes: Sequence[int], rows: int) -> Iterator[tuple[int, int, int]]:
    """Of each step: its first packed row, its number of rows, and where the states before it begin."""
    start, before = 0, 0
    for size in sizes:
        yield start, size, before
        before, start = rows + start, start + size


def _open(values: Tensor, clip: float) -> Tensor | None:
    """Where a clipped value was inside its bounds, so that gradient flows; None where all were."""
    if not clip or float(values.abs().max() if values.numel() else 0) < clip:
        return None
    return values.abs() < clip


def _previous(sizes: Sequence[int], rows: int) -> slice | Tensor:
    """For each packed token, where the state before it lies behind the ``rows`` first states."""
    if not sizes or sizes[-1] == rows:  # no row ends early
        return slice(0, sum(sizes))
    return torch.from_numpy(np.concatenate([before + np.arange(size) for _, size, before in _steps(sizes, rows)]))


def _ends(sizes: Sequence[int], rows: int) -> Tensor:
    """For each row, where its last state lies."""
    ends = np.arange(rows)
    for start, size, _ in _steps(sizes, rows):
        ends[:size] = rows + start + np.arange(size)
    return torch.from_numpy(ends)
