"""Every layer of the biLM against the NumPy one of conftest.py, for every alphabet and shape."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from polyseme.contexts.elmo.bilm import WordInputs

SENTENCES = [
    ["今天", "天气", "真", "好"],
    ["a", "", "abcdefghijklmnopqrstuvwxyz", "今天今天今天今天今天"],
    ["only"],
    [],
    ["𠮷野家", "e\u0301", "\ud800x", "好", "好"],
]
CHARACTERS = list("今天气真好abcdefgh")
WORDS = ["今天", "好", "only"]
WIDTH = 12


def byte_letters(word):
    if word in ("<S>", "</S>"):
        inner = [256 if word == "<S>" else 257]
    else:
        inner = list(word.encode("utf-8", "ignore"))[: WIDTH - 2]
    letters = [258, *inner, 259]
    return letters + [260] * (WIDTH - len(letters))


def character_letters(word):
    n = len(CHARACTERS)
    unknown, begin, end, begin_word, end_word, padding = range(n, n + 6)
    if word in ("<bos>", "<eos>"):
        inner = [begin if word == "<bos>" else end]
    else:
        inner = [CHARACTERS.index(c) if c in CHARACTERS else unknown for c in word[: WIDTH - 2]]
    letters = [begin_word, *inner, end_word]
    return letters + [padding] * (WIDTH - len(letters))


def word_id(word):
    specials = {"<bos>": len(WORDS) + 1, "<eos>": len(WORDS) + 2}
    return specials.get(word, WORDS.index(word) if word in WORDS else len(WORDS))


def spelt(alphabet, sentence):
    begin, end = ("<S>", "</S>") if alphabet == "bytes" else ("<bos>", "<eos>")
    letters = {"bytes": byte_letters, "chars": character_letters, "chars+words": character_letters}.get(alphabet)
    named = alphabet in ("words", "chars+words")
    return [(letters(w) if letters else None, word_id(w) if named else None) for w in [begin, *sentence, end]]


SHAPES = {
    "plain": {},
    "no skip": {"skip": False},
    "no highway": {"n_highway": 0},
    "two highways, tanh": {"n_highway": 2, "activation": "tanh"},
    "no projection of the state": {"hidden": 6, "projection": 6},
    "no projection of the token": {"filters": "1x2 4x4", "projection": 6},
    "no clip": {"cell_clip": 0.0, "projection_clip": 0.0},
    "tight clips": {"cell_clip": 0.3, "projection_clip": 0.2},
    "three layers": {"n_layers": 3},
    "a filter as wide as a word may be": {"filters": "12x6 1x2"},
}


@pytest.mark.parametrize("alphabet", ["bytes", "chars", "words", "chars+words"])
@pytest.mark.parametrize("shape", SHAPES, ids=list(SHAPES))
def test_every_layer_is_that_of_the_numpy_bilm(alphabet, shape, numpy_bilm, random_elmo):
    model = random_elmo(alphabet=alphabet, characters=CHARACTERS, words=WORDS, **SHAPES[shape])
    weights = {name: tensor.numpy() for name, tensor in model.bilm.state_dict().items()}
    for sentence, found in zip(SENTENCES, model.encode_tokens(SENTENCES), strict=True):
        wanted = numpy_bilm(weights, model.bilm.config, spelt(alphabet, sentence))
        assert found.tokens == sentence
        assert found.layers.shape == (model.n_layers, len(sentence), model.dim)
        np.testing.assert_allclose(found.layers, wanted, atol=5e-6)  # float32 beside float64


def test_the_differentiable_pass_gives_the_same_layers(random_elmo):
    model = random_elmo(alphabet="chars+words", characters=CHARACTERS, words=WORDS)
    sentence = ["今天", "好", "x"]
    places = ["<bos>", *sentence, "<eos>"]
    table, lengths = model.alphabet.spell_all(places)
    tokens = WordInputs(torch.from_numpy(table), lengths, torch.from_numpy(model.alphabet.name_all(places)))
    index = torch.tensor([[0, 1, 2, 3, 4], [0, 2, 4, 0, 0]])
    layers, mask = model.bilm(tokens, index, [5, 3])
    wanted = [s.layers for s in model.encode_tokens([sentence, ["好"]])]
    np.testing.assert_allclose(layers[:, 0, 1:4].detach().numpy(), wanted[0], atol=2e-6)
    np.testing.assert_allclose(layers[:, 1, 1:2].detach().numpy(), wanted[1], atol=2e-6)
    assert mask.tolist() == [[True] * 5, [True, True, True, False, False]]
    assert not layers[:, 1, 3:].any()


def test_gradients_reach_every_weight_and_agree_with_finite_differences(random_elmo):
    model = random_elmo(alphabet="chars+words", characters=CHARACTERS, words=WORDS, scale=1.0, activation="tanh")
    bilm = model.bilm.double()
    table, lengths = model.alphabet.spell_all(["<bos>", "今天", "<eos>"])
    tokens = WordInputs(
        torch.from_numpy(table), lengths, torch.from_numpy(model.alphabet.name_all(["<bos>", "今天", "<eos>"]))
    )
    index = torch.tensor([[0, 1, 2]])

    def loss():
        return (bilm(tokens, index, [3])[0] ** 2).sum()

    loss().backward()
    generator = np.random.default_rng(0)
    for name, parameter in bilm.named_parameters():
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        place = int(generator.choice(np.flatnonzero(gradient.numpy())))
        kept = float(flat[place])
        with torch.no_grad():
            flat[place] = kept + 1e-6
            up = loss()
            flat[place] = kept - 1e-6
            down = loss()
            flat[place] = kept
        assert float(up - down) / 2e-6 == pytest.approx(float(gradient[place]), rel=1e-4, abs=1e-6), name
