"""Highways with their own gradients against plain ones and torch's automatic gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from polyseme.neural.convolution import highways


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("n_words", [1, 37])
def test_values_and_gradients_are_those_of_plain_highways(n, n_words):
    torch.manual_seed(n)
    transforms, gates = (nn.ModuleList(nn.Linear(33, 33) for _ in range(n)) for _ in range(2))
    for parameter in [*transforms.parameters(), *gates.parameters()]:
        nn.init.normal_(parameter, std=0.5)
    x = torch.randn(n_words, 33, requires_grad=True)
    expected = x
    for transform, gate in zip(transforms, gates, strict=True):
        opened = torch.sigmoid(gate(expected))
        expected = opened * torch.relu(transform(expected)) + (1 - opened) * expected
    found = highways(transforms, gates, x)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(highways(transforms, gates, x), expected, rtol=1e-5, atol=1e-5)

    leaves = [x, *transforms.parameters(), *gates.parameters()]
    direction = torch.randn_like(expected)
    wanted = torch.autograd.grad((expected * direction).sum(), leaves)
    given = torch.autograd.grad((found * direction).sum(), leaves)
    for a, b in zip(given, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
