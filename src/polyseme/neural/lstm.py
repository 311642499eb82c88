"""A packed LSTM with hand-written gradients (打包的 LSTM 及其梯度), optionally clipped and projected.

Hochreiter & Schmidhuber 1997; the projection is Sak et al.'s, 2014. The D directions (1 or 2) are the first axis, so
one batched product computes both; tokens are packed (``Packing``): step t has the first ``sizes[t]`` rows.

    i, f, g, o = σ, σ, tanh, σ of  x W_i + h W_r + b          (torch's order of the gates)
    c' = clip(f·c + i·g)        m = o·tanh(c')        h' = clip(m W_p), or m without a projection

There are two implementations. With gradients, the values of every step are stored; the input product and the gradient
of each weight are one product for the whole sequence, and the elementwise part of a step is one compiled loop (on the
CPU in float32; elsewhere torch's own operations): 1.3 to 2.3 times as fast as a packed ``nn.LSTM`` on one core. Without
gradients nothing is stored: the inputs of as many steps as fit in the cache are multiplied at once, and the rest is
done in place, without numba. In torch, tanh(x) is computed as 2σ(2x) - 1, which is several times faster and off by less
than 1e-7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from polyseme.neural.batches import ends_of, previous_of, steps_of

_NO_CLIP = np.float32(np.inf)
# Size, in floats, of the buffer for the gates of several steps: it fits in one core's share of the cache.
_GATE_BUFFER = 1 << 21


class LstmWeights(NamedTuple):
    """The weights of D directions; P is H without a projection."""

    input: Tensor  # (D, 4H, I)
    recurrent: Tensor  # (D, 4H, P)
    bias: Tensor  # (D, 4H)
    projection: Tensor | None = None  # (D, P, H)


class State(NamedTuple):
    """The state of a layer: ``h (D, B, P)`` and ``c (D, B, H)``."""

    h: Tensor
    c: Tensor


def rows_of_states(states: Sequence[State]) -> dict[str, Tensor]:
    """The states of layers by name, with rows first ``(B, D, size)``, as training carries them from step to step."""
    return {
        f"{number}/{name}": value.transpose(0, 1).contiguous()
        for number, state in enumerate(states)
        for name, value in state._asdict().items()
    }


def states_of_rows(tensors: Mapping[str, Tensor]) -> list[State]:
    """The inverse of ``rows_of_states``."""
    n_layers = len({name.split("/")[0] for name in tensors})
    return [State(*(tensors[f"{n}/{name}"].transpose(0, 1) for name in "hc")) for n in range(n_layers)]


class Clips(NamedTuple):
    """Clipping bounds of the cell and of the projected state; 0: no clipping."""

    cell: float = 0.0
    projection: float = 0.0


NO_CLIPS = Clips()


def packed_lstm(
    inputs: Tensor, sizes: Sequence[int], weights: LstmWeights, state: State | None = None, clips: Clips = NO_CLIPS
) -> tuple[Tensor, State]:
    """Packed inputs ``(D, N, I)`` → packed states ``(D, N, P)``, and the last state of each row, in packed order.

    Without a ``state`` the rows start from zero. Gradients flow through the initial and the last states too; detach
    them to truncate backpropagation.
    """
    from_zero = state is None
    if state is None:
        n_directions, gates, size = weights.recurrent.shape
        rows = sizes[0] if sizes else 0
        state = State(inputs.new_zeros(n_directions, rows, size), inputs.new_zeros(n_directions, rows, gates // 4))
    given = (inputs, *weights, *state)
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in given):
        outputs, h, c = _PackedLstm.apply(*given, tuple(sizes), clips)  # type: ignore[no-untyped-call]
        return outputs, State(h, c)
    return _without_gradient(inputs, sizes, weights, state, clips, from_zero)


class _PackedLstm(torch.autograd.Function):
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
        clips: Clips,
    ) -> tuple[Tensor, Tensor, Tensor]:
        (n_directions, rows, hidden), n = c0.shape, x.shape[1]
        gates = torch.baddbmm(bias.unsqueeze(1), x, w_input.transpose(1, 2))  # (D, N, 4H)
        cells = x.new_empty(n_directions, rows + n, hidden)  # the first rows are the state before the first step
        states = x.new_empty(n_directions, rows + n, h0.shape[2])
        # m = o·tanh(c) is the state itself, or is projected to it
        m = states if w_projection is None else x.new_empty(n_directions, n, hidden)
        cells[:, :rows], states[:, :rows] = c0, h0
        cell = cell_of(gates, cells, x.new_empty(n_directions, n, hidden), clips.cell)
        recurrent = w_recurrent.transpose(1, 2)
        for start, size, before in steps_of(sizes, rows):
            gates[:, start : start + size].baddbmm_(states[:, before : before + size], recurrent)
            cell.forward(m, m.shape[1] - n, start, size, before)
            if w_projection is not None:
                h = torch.bmm(m[:, start : start + size], w_projection.transpose(1, 2))
                h = h.clamp_(-clips.projection, clips.projection) if clips.projection else h
                states[:, rows + start : rows + start + size] = h
        ends = ends_of(sizes, rows, x.device)
        outputs = states[:, rows:].clone()
        ctx.save_for_backward(x, w_input, w_recurrent, w_projection, gates, cells, states, cell.tanh_c, m)
        ctx.sizes, ctx.clips = sizes, clips
        ctx.set_materialize_grads(False)
        return outputs, states[:, ends], cells[:, ends]

    @staticmethod
    def backward(
        ctx: Any, grad: Tensor | None, grad_h: Tensor | None, grad_c: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        x, w_input, w_recurrent, w_projection, gates, cells, states, tanh_c, m = ctx.saved_tensors
        sizes: tuple[int, ...] = ctx.sizes
        n_directions, n, hidden = tanh_c.shape
        rows = cells.shape[1] - n
        state_open = _open(states[:, rows:], ctx.clips.projection if w_projection is not None else 0.0)
        dh = _of_the_outputs(grad, grad_h, states[:, rows:], ends_of(sizes, rows, x.device) - rows)
        dh = dh if state_open is None else dh * state_open
        dc = cells.new_zeros(n_directions, rows, hidden) if grad_c is None else grad_c.clone()
        dh0 = cells.new_zeros(n_directions, rows, states.shape[2])
        cell = cell_of(gates, cells, tanh_c, ctx.clips.cell)
        cell.prepare_backward(sizes)
        for start, size, before in reversed(list(steps_of(sizes, rows))):
            if w_projection is None:
                dz = cell.backward(dh, start, dc, start, size, before)
            else:
                dm = torch.bmm(dh[:, start : start + size], w_projection)
                dz = cell.backward(dm, 0, dc, start, size, before)
            if not start:
                if ctx.needs_input_grad[5]:
                    dh0[:, :size] = torch.bmm(dz, w_recurrent)
                continue
            earlier = dh[:, before - rows : before - rows + size]
            if state_open is None:
                earlier.baddbmm_(dz, w_recurrent)
            else:
                earlier.addcmul_(torch.bmm(dz, w_recurrent), state_open[:, before - rows : before - rows + size])
        if grad_h is not None:  # the state of rows without a token passes through unchanged
            started = sizes[0] if sizes else 0
            dh0[:, started:] = grad_h[:, started:]
        turned = cell.dz.transpose(1, 2)
        return (
            torch.bmm(cell.dz, w_input) if ctx.needs_input_grad[0] else None,
            torch.bmm(turned, x),
            torch.bmm(turned, states[:, previous_of(sizes, rows, x.device)]),
            cell.dz.sum(dim=1),
            None if w_projection is None else torch.bmm(dh.transpose(1, 2), m),
            dh0 if ctx.needs_input_grad[5] else None,
            dc if ctx.needs_input_grad[6] else None,
            None,
            None,
        )


def _of_the_outputs(grad: Tensor | None, of_last: Tensor | None, outputs: Tensor, ends: Tensor) -> Tensor:
    """The gradient of every output, with that of the last states added."""
    found = torch.zeros_like(outputs) if grad is None else grad.clone(memory_format=torch.contiguous_format)
    if of_last is not None:
        had_steps = ends >= 0
        found[:, ends[had_steps]] += of_last[:, had_steps]
    return found


class Cell:
    """The elementwise part of a step, with torch operations. ``dz`` holds the gradients of the gates after backward."""

    def __init__(self, gates: Tensor, cells: Tensor, tanh_c: Tensor, clip: float) -> None:
        self.gates, self.cells, self.tanh_c, self.clip = gates, cells, tanh_c, clip
        self.hidden, self.rows = tanh_c.shape[2], cells.shape[1] - tanh_c.shape[1]
        self.dz = tanh_c.new_empty(0)

    def forward(self, m: Tensor, m_start: int, start: int, size: int, before: int) -> None:
        """Turn the gates into activations in place; write the new cells, and m from row ``m_start + start`` on."""
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
        """Compute the local derivatives of all steps at once."""
        i, f, g, o = torch.split(self.gates, self.hidden, dim=2)
        before = self.cells[:, previous_of(sizes, self.rows, self.cells.device)]
        slopes = [g * i * (1 - i), before * f * (1 - f), i * (1 - g * g), self.tanh_c * o * (1 - o)]
        self.dz = torch.cat(slopes, dim=2)
        self.through = o * (1 - self.tanh_c.square())  # ∂m/∂c
        self.cell_open = _open(self.cells[:, self.rows :], self.clip)

    def backward(self, dm: Tensor, dm_start: int, dc: Tensor, start: int, size: int, before: int) -> Tensor:
        """The gradient of the gates of a step; ``dc`` becomes the gradient of the previous cells."""
        now, hidden = slice(start, start + size), self.hidden
        dm = dm[:, dm_start : dm_start + size]
        c = dc[:, :size].addcmul_(dm, self.through[:, now])
        if self.cell_open is not None:
            c.mul_(self.cell_open[:, now])
        z = self.dz[:, now]
        z[..., : 3 * hidden].view(len(z), size, 3, hidden).mul_(c.unsqueeze(2))
        z[..., 3 * hidden :].mul_(dm)
        c.mul_(self.gates[:, now, hidden : 2 * hidden])
        return z


class _CompiledCell(Cell):
    """The same with compiled loops."""

    def __init__(self, gates: Tensor, cells: Tensor, tanh_c: Tensor, clip: float) -> None:
        from polyseme.neural import kernels

        super().__init__(gates, cells, tanh_c, clip)
        self.kernels = kernels
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


def cell_of(gates: Tensor, cells: Tensor, tanh_c: Tensor, clip: float = 0.0) -> Cell:
    """The compiled cell for float32 on the CPU, or the one of torch operations."""
    compiled = gates.dtype == torch.float32 and gates.device.type == "cpu"
    return (_CompiledCell if compiled else Cell)(gates, cells, tanh_c, clip)


def _open(values: Tensor, clip: float) -> Tensor | None:
    """A mask of the values inside the clipping bounds, where the gradient flows; None if all are.

    The check for None is skipped on a GPU, where waiting for the maximum would cost more than it saves.
    """
    if not clip or not values.numel() or (values.device.type == "cpu" and float(values.abs().max()) < clip):
        return None
    return values.abs() < clip


# ---- without gradients


def _without_gradient(
    inputs: Tensor, sizes: Sequence[int], weights: LstmWeights, state: State, clips: Clips, from_zero: bool
) -> tuple[Tensor, State]:
    rows, hidden = sizes[0] if sizes else 0, weights.bias.shape[1] // 4
    h, c, last_h = state.h, state.c.clone(), state.h.clone()
    out = inputs.new_empty(*inputs.shape[:2], h.shape[2])
    spare = torch.empty_like(c)
    w_input, recurrent, bias = weights.input.transpose(1, 2), weights.recurrent.transpose(1, 2), weights.bias[:, None]
    projection = weights.projection.transpose(1, 2) if weights.projection is not None else None
    start = 0
    groups = stretches(sizes, _GATE_BUFFER // (8 * hidden))
    buffer = inputs.new_empty(len(inputs), max(map(sum, groups), default=0), 4 * hidden)
    for steps in groups:
        n = sum(steps)
        gates_in = torch.bmm(inputs[:, start : start + n], w_input, out=buffer[:, :n])  # (D, n, 4H)
        place = 0
        for size in steps:
            gates = gates_in[:, place : place + size].add_(bias)
            if start or not from_zero:  # the product of a zero state is zero
                gates.baddbmm_(h[:, :size], recurrent)
            to = out[:, start : start + size]
            _step(gates, c[:, :size], spare[:, :size], projection, clips, to)
            if size < rows:
                last_h[:, size:rows] = h[:, size:rows]
                rows = size
            h = to
            start, place = start + size, place + size
    if sizes:
        last_h[:, :rows] = h[:, :rows]
    return out, State(last_h, c)


def _step(gates: Tensor, c: Tensor, spare: Tensor, projection: Tensor | None, clips: Clips, to: Tensor) -> None:
    """One step in place: overwrites ``gates (D, n, 4H)``, updates ``c``, writes the new state to ``to (D, n, P)``."""
    hidden = c.shape[2]
    gates[:, :, 2 * hidden : 3 * hidden].mul_(2)
    gates.sigmoid_()
    i, f, g, o = gates.chunk(4, dim=2)
    c.mul_(f).addcmul_(i, g, value=2).sub_(i)  # f·c + i·(2σ(2g) - 1)
    if clips.cell:
        c.clamp_(-clips.cell, clips.cell)
    torch.mul(c, 2, out=spare)
    spare.sigmoid_().mul_(2).sub_(1).mul_(o)  # o·tanh(c)
    if projection is None:
        to.copy_(spare)
        return
    torch.bmm(spare, projection, out=to)
    if clips.projection:
        to.clamp_(-clips.projection, clips.projection)


def stretches(sizes: Sequence[int], room: int) -> list[list[int]]:
    """The step sizes in groups of consecutive steps with at most ``room`` tokens each, but at least one step."""
    groups: list[list[int]] = []
    held = room
    for size in sizes:
        if held + size > room:
            groups.append([])
            held = 0
        groups[-1].append(size)
        held += size
    return groups
