"""Pooling over texts of different lengths, and maxima of convolutions with their gradients, against loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from polyseme.neural.convolution import window_maxima
from polyseme.neural.layers import dynamic_max, k_max, max_over, mean_over, softmax_over

LENGTHS = torch.tensor([5, 0, 3, 1])
MASK = torch.arange(5)[None] < LENGTHS[:, None]
X = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(0))


def test_mean_and_maximum_leave_padding_out():
    for row, n in enumerate(LENGTHS):
        inside = X[row, :n]
        expected = (inside.mean(0), inside.amax(0)) if n else (torch.zeros(6), torch.zeros(6))
        torch.testing.assert_close(mean_over(X, MASK)[row], expected[0])
        torch.testing.assert_close(max_over(X, MASK)[row], expected[1])


def test_attention_sums_to_one_over_real_places_and_to_nothing_without_any():
    weights = softmax_over(X[..., 0], MASK)
    torch.testing.assert_close(weights.sum(dim=1), torch.tensor([1.0, 0.0, 1.0, 1.0]))
    torch.testing.assert_close(weights[2, :3], torch.softmax(X[2, :3, 0], dim=0))


def test_k_max_keeps_the_greatest_in_their_order():
    found, kept = k_max(torch.tensor([[3.0, 1, 5, 2]]), torch.tensor([4]), torch.tensor([2]))
    assert found.tolist() == [[3, 5]]
    assert kept.tolist() == [2]
    whole, _ = k_max(torch.tensor([[3.0, 1, 5, 2]]), torch.tensor([4]), torch.tensor([4]))
    assert whole.tolist() == [[3, 1, 5, 2]]


def test_k_max_of_every_row_of_its_own_length_and_k():
    x = torch.randn(3, 2, 6, generator=torch.Generator().manual_seed(1))
    lengths, k = torch.tensor([6, 2, 4]), torch.tensor([3, 5, 4])
    found, kept = k_max(x, lengths, k)
    assert kept.tolist() == [3, 2, 4]
    for b, row in np.ndindex(3, 2):
        values = x[b, row, : lengths[b]].numpy()
        order = np.sort(np.argsort(-values)[: k[b]])
        expected = np.zeros(5)
        expected[: len(order)] = values[order]
        np.testing.assert_array_equal(found[b, row].numpy(), expected.astype(np.float32))


def test_dynamic_pooling_repeats_what_is_short_and_covers_what_is_long():
    x = torch.tensor([[1.0, 2, 9, 9, 9, 9, 9], [1, 5, 2, 7, 3, 4, 6], [9, 9, 9, 9, 9, 9, 9]])
    found = dynamic_max(x, torch.tensor([2, 7, 0]), 3)
    # two positions in three segments: [1], [1, 2], [2]; seven: [1 5 2], [2 7 3], [3 4 6]
    assert found.tolist() == [[1, 2, 2], [5, 7, 6], [0, 0, 0]]


@pytest.mark.parametrize("lengths", [[7, 1, 4], [1, 1, 1], [3, 0, 7]])
def test_maxima_of_windows_and_their_gradients_are_those_of_a_plain_convolution(lengths):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(3, 7, 4, generator=generator).requires_grad_()
    mask = torch.arange(7)[None] < torch.tensor(lengths)[:, None]
    weights = [torch.randn(5, h, 4, generator=generator).requires_grad_() for h in (2, 3)]
    biases = [torch.randn(5, generator=generator).requires_grad_() for _ in weights]

    def plain() -> torch.Tensor:
        rows = []
        for row, n in enumerate(lengths):
            text = F.pad(x[row, :n] if n else x[row, :1] * 0, (0, 0, 2, 2)).t()[None]
            found = [F.conv1d(text, w.transpose(1, 2), b).amax(2) for w, b in zip(weights, biases, strict=True)]
            rows.append(torch.cat(found, dim=1))
        return torch.cat(rows)

    learned = [x, *weights, *biases]
    ours, expected = window_maxima(x, mask, weights, biases), plain()
    torch.testing.assert_close(ours, expected)
    slopes = torch.randn(3, 10, generator=generator)
    for a, b in zip(*(torch.autograd.grad((y * slopes).sum(), learned) for y in (ours, expected)), strict=True):
        torch.testing.assert_close(a, b)
    # Elsewhere than on the CPU in float32 torch's own convolution is taken.
    double = window_maxima(x.double(), mask, [w.double() for w in weights], [b.double() for b in biases])
    torch.testing.assert_close(double.float(), expected, atol=1e-5, rtol=1e-5)
