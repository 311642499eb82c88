"""The states that predict a word: those of its neighbours, and blind to the word itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from polyseme.contexts.elmo.alphabet import make_alphabet
from polyseme.contexts.elmo.bilm import BiLM, BiLMConfig
from polyseme.contexts.elmo.model import Elmo
from polyseme.contexts.elmo.options import ElmoOptions


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    torch.manual_seed(1)
    options = ElmoOptions(size="tiny", alphabet="chars")
    alphabet = make_alphabet(options, characters=list("他打了个电话去看球赛"), words=[])
    bilm = BiLM(BiLMConfig.of(options, alphabet))
    for parameter in bilm.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return Elmo(options, alphabet, bilm)


def test_they_are_the_forward_state_before_and_the_backward_state_behind(elmo: Elmo) -> None:
    sentences = [["他", "打", "了", "个", "电话"], ["去"], [], ["看", "球赛", "去", "了"] * 9]
    half = elmo.dim // 2
    found = list(elmo.encode_predicting(sentences))
    for own, predicting in zip(elmo.encode_tokens(sentences), found, strict=True):
        assert predicting.tokens == own.tokens
        assert predicting.layers.shape == own.layers.shape
        np.testing.assert_allclose(predicting.layers[:, 1:, :half], own.layers[:, :-1, :half], atol=1e-6)
        np.testing.assert_allclose(predicting.layers[:, :-1, half:], own.layers[:, 1:, half:], atol=1e-6)
    starts = {tuple(s.layers[1, 0, :half].round(5)) for s in found if len(s.tokens)}
    ends = {tuple(s.layers[1, -1, half:].round(5)) for s in found if len(s.tokens)}
    assert len(starts) == len(ends) == 1  # behind the begin of a sentence nothing is known yet


def test_they_do_not_see_the_word(elmo: Elmo) -> None:
    one, other = elmo.encode_predicting([["他", "打", "电话"], ["他", "看看看", "电话"]])
    np.testing.assert_allclose(one.layers[:, 1], other.layers[:, 1], atol=1e-6)
    assert np.abs(one.layers[1:, 2] - other.layers[1:, 2]).max() > 1e-3
