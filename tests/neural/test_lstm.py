"""The packed LSTM, with and without gradients, by torch and compiled, against a plain loop and autograd."""

from __future__ import annotations

import pytest
import torch

from polyseme.neural.lstm import Clips, LstmWeights, State, packed_lstm


def plain(x, sizes, state, weights, clips):
    """The same recurrence, one row and one step at a time; returns packed outputs, last h and last c."""
    starts = [sum(sizes[:t]) for t in range(len(sizes))]
    out = [[None] * x.shape[1] for _ in range(len(x))]
    last = State([], [])
    for d in range(len(x)):
        for row in range(state.h.shape[1]):
            h, c = state.h[d, row], state.c[d, row]
            for start, size in zip(starts, sizes, strict=True):
                if row >= size:
                    break
                z = weights.input[d] @ x[d, start + row] + weights.recurrent[d] @ h + weights.bias[d]
                i, f, g, o = z.chunk(4)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                c = c.clamp(-clips.cell, clips.cell) if clips.cell else c
                h = torch.sigmoid(o) * torch.tanh(c)
                if weights.projection is not None:
                    h = weights.projection[d] @ h
                    h = h.clamp(-clips.projection, clips.projection) if clips.projection else h
                out[d][start + row] = h
            last.h.append(h)
            last.c.append(c)
    h, c = (torch.stack(states).view(len(x), -1, states[0].shape[0]) for states in last)
    return torch.stack([torch.stack(rows) for rows in out]), h, c


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-11), (torch.float32, 2e-5)])
@pytest.mark.parametrize(("projected", "n_directions"), [(True, 2), (False, 2), (False, 1)])
@pytest.mark.parametrize("clip", [0.0, 0.4])
@pytest.mark.parametrize("sizes", [[4, 4, 4], [5, 3, 3, 1], [2], [3, 1, 1, 1, 1]])
@pytest.mark.parametrize("idle", [0, 2], ids=["", "rows without a step"])
def test_values_and_gradients_are_those_of_the_plain_recurrence(
    projected, n_directions, clip, sizes, idle, dtype, error
):
    torch.manual_seed(len(sizes))
    hidden, size, read = 5, (3 if projected else 5), 4
    rows, n = sizes[0] + idle, sum(sizes)

    def leaf(*shape):
        return (torch.randn(n_directions, *shape, dtype=dtype) * 0.9).requires_grad_()

    x, state = leaf(n, read), State(leaf(rows, size), leaf(rows, hidden))
    weights = LstmWeights(
        leaf(4 * hidden, read), leaf(4 * hidden, size), leaf(4 * hidden), leaf(size, hidden) if projected else None
    )
    clips = Clips(clip, clip / 2)
    leaves = [tensor for tensor in (x, *state, *weights) if tensor is not None]

    expected = plain(x, sizes, state, weights, clips)
    outputs, last = packed_lstm(x, sizes, weights, state, clips)
    with torch.no_grad():
        unkept, unkept_last = packed_lstm(x, sizes, weights, state, clips)
    for found in ((outputs, *last), (unkept, *unkept_last)):
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b.detach() if not a.requires_grad else b, rtol=error, atol=error)

    directions = [torch.randn_like(tensor) for tensor in expected]
    for chosen in ([0], [1], [2], [0, 1, 2]):  # gradients through the outputs, through the last states, through all
        totals = [sum((found[k] * directions[k]).sum() for k in chosen) for found in ((outputs, *last), expected)]
        found, wanted = (torch.autograd.grad(t, leaves, retain_graph=True, allow_unused=True) for t in totals)
        for a, b in zip(found, wanted, strict=True):
            missing = b is None or not b.any()
            if missing and a is None:
                continue
            torch.testing.assert_close(a, torch.zeros_like(a) if b is None else b, rtol=10 * error, atol=10 * error)


def test_without_a_state_rows_start_from_zero():
    torch.manual_seed(0)
    weights = LstmWeights(*(torch.randn(2, *shape) for shape in ((12, 4), (12, 3), (12,))))
    x, zero = torch.randn(2, 5, 4), torch.zeros(2, 3, 3)
    for a, b in zip(packed_lstm(x, [3, 2], weights), packed_lstm(x, [3, 2], weights, State(zero, zero)), strict=True):
        torch.testing.assert_close(a, b)
