"""Attention between words, beside what transformers itself computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModel

import polyseme
from polyseme.contexts.transformer.model import between_words
from polyseme.errors import OptionError


@pytest.mark.parametrize("name", ["bert", "gpt2", "distilbert", "roberta"])
def test_words_look_at_words_as_their_pieces_do(folders, name):
    model = polyseme.load(folders(name))
    sentence = "The unbelievable cat sat."
    found = model.attention(sentence)
    cut = model.pieces.cut([sentence])[0]
    ids = [*model.pieces.before, *cut.ids.tolist(), *model.pieces.behind]
    theirs = AutoModel.from_pretrained(folders(name), attn_implementation="eager").eval()
    with torch.inference_mode():
        layers = theirs(torch.tensor([ids]), output_attentions=True).attentions
    wanted = torch.stack([layer[0] for layer in layers]).numpy()  # (L, H, T, T)
    given = model._given(sentence)
    words = model._words(cut, given)
    for number, (first, last) in enumerate(words.tolist()):
        for other, (start, end) in enumerate(words.tolist()):
            expected = wanted[:, :, first:last, start:end].sum(axis=3).mean(axis=2)
            np.testing.assert_allclose(found.weights[:, :, number, other], expected, atol=1e-5)
    assert found.tokens == given.tokens
    assert (found.weights.sum(axis=3) <= 1 + 1e-5).all()


def test_asking_for_attention_leaves_the_model_as_it_was(folders):
    model = polyseme.load(folders("bert"))
    (before,) = model.encode_tokens(["The cat sat."])
    implementation = model.network.whole.config._attn_implementation
    model.attention("The cat sat.")
    assert model.network.whole.config._attn_implementation == implementation
    (after,) = model.encode_tokens(["The cat sat."])
    np.testing.assert_array_equal(before.layers, after.layers)


def test_odd_sentences_have_a_defined_answer(folders):
    model = polyseme.load(folders("bert"))
    assert model.attention("").weights.shape[2:] == (0, 0)
    assert model.attention(["", "cat"]).weights.shape[2:] == (2, 2)
    with pytest.raises(OptionError, match="give a part"):
        model.attention(["cat"] * (model.runner.room + 1))


def test_a_word_without_a_piece_looks_nowhere():
    pieces = np.full((1, 1, 3, 3), 1 / 3, dtype=np.float32)
    found = between_words(pieces, np.array([[0, 2], [2, 2], [2, 3]]))[0, 0]
    np.testing.assert_allclose(found, [[2 / 3, 0, 1 / 3], [0, 0, 0], [2 / 3, 0, 1 / 3]], atol=1e-6)
