"""The LSTM's own gradients, by torch's operations and compiled, against automatic ones through the plain loop."""

from __future__ import annotations

import pytest
import torch

from polyseme.neural.lstm import lstm_with_gradient


def plain(x, sizes, state, weights, cell_clip, projection_clip):
    """The same recurrence, one row and one step at a time."""
    w_input, w_recurrent, bias, w_projection = weights
    starts = [sum(sizes[:t]) for t in range(len(sizes))]
    out = [[None] * x.shape[1] for _ in range(2)]
    for d in range(2):
        for row in range(state[0].shape[1]):
            h, c = state[0][d, row], state[1][d, row]
            for start, size in zip(starts, sizes, strict=True):
                if row >= size:
                    break
                z = w_input[d] @ x[d, start + row] + w_recurrent[d] @ h + bias[d]
                i, f, g, o = z.chunk(4)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                c = c.clamp(-cell_clip, cell_clip) if cell_clip else c
                h = torch.sigmoid(o) * torch.tanh(c)
                if w_projection is not None:
                    h = w_projection[d] @ h
                    h = h.clamp(-projection_clip, projection_clip) if projection_clip else h
                out[d][start + row] = h
    return torch.stack([torch.stack(rows) for rows in out])


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-11), (torch.float32, 2e-5)])
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("clip", [0.0, 0.4])
@pytest.mark.parametrize("sizes", [[4, 4, 4], [5, 3, 3, 1], [2], [3, 1, 1, 1, 1]])
def test_values_and_gradients_are_those_of_the_plain_recurrence(projected, clip, sizes, dtype, error):
    torch.manual_seed(len(sizes))
    hidden, size = 5, (3 if projected else 5)
    rows, n = sizes[0], sum(sizes)

    def leaf(*shape):
        return (torch.randn(*shape, dtype=dtype) * 0.9).requires_grad_()

    x = leaf(2, n, size)
    weights = [leaf(2, 4 * hidden, size), leaf(2, 4 * hidden, size), leaf(2, 4 * hidden)]
    weights.append(leaf(2, size, hidden) if projected else None)
    state = (torch.randn(2, rows, size, dtype=dtype), torch.randn(2, rows, hidden, dtype=dtype))
    leaves = [x, *(w for w in weights if w is not None)]

    expected = plain(x, sizes, state, weights, clip, clip / 2)
    outputs, last_h, _ = lstm_with_gradient(x, sizes, state, tuple(weights), clip, clip / 2)
    torch.testing.assert_close(outputs, expected, rtol=error, atol=error)
    ends = [max(sum(sizes[:t]) + row for t in range(len(sizes)) if row < sizes[t]) for row in range(rows)]
    torch.testing.assert_close(last_h, expected[:, ends].detach(), rtol=error, atol=error)

    direction = torch.randn_like(expected)
    wanted = torch.autograd.grad((expected * direction).sum(), leaves)
    found = torch.autograd.grad((outputs * direction).sum(), leaves)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=error, atol=error)
