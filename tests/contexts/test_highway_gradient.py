"""Highways with their own gradients against the token encoder's plain ones and torch's automatic gradients."""

from __future__ import annotations

import pytest
import torch

from polyseme.contexts.elmo.alphabet import Alphabet
from polyseme.contexts.elmo.bilm import BiLM, BiLMConfig
from polyseme.contexts.elmo.options import ElmoOptions
from polyseme.neural.highway import highways_with_gradient


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("n_words", [1, 37])
def test_values_and_gradients_are_those_of_plain_highways(n, n_words):
    options = ElmoOptions(size="tiny", alphabet="chars", filters="1x20 2x13", n_highway=n)
    encoder = BiLM(BiLMConfig.of(options, Alphabet("chars", 8, ["中"]))).encoder
    torch.manual_seed(n)
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    x = torch.randn(n_words, 33, requires_grad=True)
    found, expected = highways_with_gradient(encoder.transforms, encoder.gates, x), encoder.highway(x)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)

    leaves = [x, *encoder.transforms.parameters(), *encoder.gates.parameters()]
    direction = torch.randn_like(expected)
    wanted = torch.autograd.grad((expected * direction).sum(), leaves)
    given = torch.autograd.grad((found * direction).sum(), leaves)
    for a, b in zip(given, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
