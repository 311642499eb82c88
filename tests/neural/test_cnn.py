"""Maxima of convolutions over letters against the token encoder's own convolutions and torch's automatic gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from polyseme.contexts.elmo.alphabet import Alphabet
from polyseme.contexts.elmo.bilm import BiLM, BiLMConfig
from polyseme.contexts.elmo.options import ElmoOptions
from polyseme.neural.convolution import lay_out_by_offset, spelling_maxima

WORDS = ["中", "中国", "中国人民", "国人", "一二三四五六七", "a", "x" * 30, "", "民"]


@pytest.mark.parametrize(("filters", "slots"), [("1x5 2x7 3x4", 16), ("1x3 4x6 7x8", 10), ("3x4", 3)])
@pytest.mark.parametrize("by_offset", [False, True])
def test_values_and_gradients_are_those_of_whole_convolutions(filters, slots, by_offset):
    alphabet = Alphabet("chars", slots, sorted(set("".join(WORDS))))
    options = ElmoOptions(size="tiny", alphabet="chars", filters=filters, max_characters=slots, char_dim=6)
    encoder = BiLM(BiLMConfig.of(options, alphabet)).encoder
    torch.manual_seed(1)
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter)
    if by_offset:
        lay_out_by_offset(encoder.convolutions)
    letters, lengths = alphabet.spell_all(WORDS)

    full = np.full((len(WORDS), slots), alphabet.padding)  # every slot, padding included
    full[:, : letters.shape[1]] = letters
    x = torch.nn.functional.embedding(torch.from_numpy(full), encoder.characters).transpose(1, 2)
    expected = torch.cat([convolution(x).amax(dim=2) for convolution in encoder.convolutions], dim=1)
    found = spelling_maxima(letters, lengths, encoder.config.max_characters, encoder.characters, encoder.convolutions)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)

    leaves = [encoder.characters, *encoder.convolutions.parameters()]
    direction = torch.randn_like(expected)
    wanted = torch.autograd.grad((expected * direction).sum(), leaves)
    given = torch.autograd.grad((found * direction).sum(), leaves)
    for a, b in zip(given, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
