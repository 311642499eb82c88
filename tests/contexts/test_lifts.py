"""Word vectors become context encoders, these become sentence encoders, and encoders can be stacked."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import polyseme
from polyseme.contexts.stack import Stack
from polyseme.contexts.static import StaticEncoder
from polyseme.errors import FormatError, OptionError
from polyseme.sentences.lift import lift
from polyseme.sentences.pooled import Pooled
from polyseme.store.folder import model_fingerprint
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

SENTENCES = [["猫", "打", "猫"], [], ["狗"], ["未知", "打"]]


@pytest.fixture
def static():
    words = Vocabulary(["猫", "狗", "打"], np.array([3, 2, 1]))
    return StaticEncoder(WordVectors(words, np.arange(12, dtype=np.float32).reshape(3, 4)))


def test_static_vectors_are_the_words_own_and_zero_for_unseen_ones(static):
    found = [s.layers for s in static.encode_tokens(SENTENCES)]
    assert found[0].tolist() == [[[0, 1, 2, 3], [8, 9, 10, 11], [0, 1, 2, 3]]]
    assert found[1].shape == (1, 0, 4)
    assert found[3].tolist() == [[[0, 0, 0, 0], [8, 9, 10, 11]]]
    (raw,) = static.encode_tokens(["猫 打"])
    assert raw.tokens == ["猫", "打"]
    with pytest.raises(OptionError, match="the only one"):
        static.encode_tokens(SENTENCES, layers=1)


def test_a_word_without_a_vector_takes_that_of_its_small_letters():
    vectors = WordVectors(Vocabulary(["us", "US", "it"], np.array([3, 2, 1])), np.eye(3, dtype=np.float32))
    (found,) = StaticEncoder(vectors).encode_tokens([["US", "Us", "IT", "Then"]])
    assert found.layers[0].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]]
    np.testing.assert_array_equal(lift(vectors, "sentences").encode([["Us", "IT"]]), [[0.5, 0, 0.5]])


def test_a_stack_puts_vectors_side_by_side_layer_by_layer(static, random_elmo):
    elmo = random_elmo()
    stack = Stack([static, elmo])
    assert (stack.dim, stack.n_layers) == (4 + elmo.dim, 3)
    for both, one, other in zip(*(e.encode_tokens(SENTENCES) for e in (stack, static, elmo)), strict=True):
        assert both.tokens == one.tokens
        for number in range(3):
            np.testing.assert_array_equal(both.layers[number, :, :4], one.layers[0])
            np.testing.assert_array_equal(both.layers[number, :, 4:], other.layers[number])
    (top,) = stack.encode_tokens(SENTENCES[:1], layers=1)
    assert top.layers.shape == (1, 3, stack.dim)


def test_a_stack_takes_a_layer_of_each(static, random_elmo):
    two, three = random_elmo(n_layers=1), random_elmo(seed=1)
    with pytest.raises(OptionError, match="cannot be stacked"):
        Stack([two, three])
    stack = Stack([two, static, three], layers=["top", 0, "mean"])
    (found,) = stack.encode_tokens(SENTENCES[:1])
    (one,), (other,) = two.encode_tokens(SENTENCES[:1], layers="top"), three.encode_tokens(SENTENCES[:1], layers="mean")
    np.testing.assert_array_equal(found.layers[0, :, : two.dim], one.layers[0])
    np.testing.assert_array_equal(found.layers[0, :, -three.dim :], other.layers[0])
    with pytest.raises(OptionError, match="at least one"):
        Stack([])
    with pytest.raises(OptionError, match="one choice per encoder"):
        Stack([static], layers=[])


def test_pooling_is_over_the_tokens_there_are(static):
    pooled = {name: Pooled(static, name).encode(SENTENCES) for name in ("mean", "max", "first", "last")}
    mean = [[8 / 3, 11 / 3, 14 / 3, 17 / 3], [0] * 4, [4, 5, 6, 7], [8, 9, 10, 11]]
    np.testing.assert_allclose(pooled["mean"], mean, rtol=1e-6)
    assert pooled["max"][0].tolist() == [8, 9, 10, 11]
    assert pooled["first"][3].tolist() == [8, 9, 10, 11]  # a word without a vector is left out
    assert pooled["last"][3].tolist() == [8, 9, 10, 11]
    assert Pooled(static).encode([]).shape == (0, 4)
    assert Pooled(static).similarity([["猫"]], [["猫"], ["打"]])[0, 0] == pytest.approx(1)
    for bad in ({"pool": "sum"}, {"layers": "all"}, {"layers": 1}):
        with pytest.raises(OptionError):
            Pooled(static, **bad)


def test_each_noun_lifts_to_the_next_and_never_back(static):
    words = static.words
    assert lift(static, "contexts") is static
    assert isinstance(lift(words, "contexts"), StaticEncoder)
    texts = lift(words, "sentences", pool="max")
    assert lift(texts, "sentences", pool="mean") is texts
    np.testing.assert_array_equal(texts.encode(SENTENCES), Pooled(static, "max").encode(SENTENCES))
    np.testing.assert_array_equal(list(texts.stream(iter(SENTENCES))), texts.encode(SENTENCES))
    with pytest.raises(OptionError, match="one per word"):
        lift(texts, "contexts")
    with pytest.raises(OptionError, match="no vectors for text"):
        lift(object(), "sentences")
    with pytest.raises(OptionError, match="contexts or sentences"):
        lift(words, "words")


def test_a_composition_of_compositions_opens_as_it_was_saved(static, random_elmo, tmp_path):
    stack = Stack([static, random_elmo()], layers=[0, "top"])
    before = Pooled(Stack([stack, static]), "max")
    before.save(tmp_path / "m")
    np.testing.assert_array_equal(polyseme.load(tmp_path / "m").encode(SENTENCES), before.encode(SENTENCES))
    assert (tmp_path / "m" / "encoder" / "encoder0" / "encoder1" / "model.json").is_file()
    Stack([random_elmo(seed=5), static]).save(tmp_path / "other")
    shutil.rmtree(tmp_path / "m" / "encoder")
    (tmp_path / "other").rename(tmp_path / "m" / "encoder")
    for opened in (polyseme.load, model_fingerprint):
        with pytest.raises(FormatError, match="not the model it was built from"):
            opened(tmp_path / "m")


@pytest.mark.parametrize("part", ["words", "sentences", "missing"])
def test_a_composed_folder_with_a_wrong_part_is_refused_in_one_line(static, tmp_path, part):
    Pooled(static).save(tmp_path / "m")
    shutil.rmtree(tmp_path / "m" / "encoder")
    if part != "missing":
        (static.words if part == "words" else Pooled(static)).save(tmp_path / "m" / "encoder")
    with pytest.raises(FormatError) as error:
        polyseme.load(tmp_path / "m")
    assert "\n" not in str(error.value)
    Stack([static]).save(tmp_path / "s")
    shutil.rmtree(tmp_path / "s" / "encoder0")
    with pytest.raises(FormatError):
        polyseme.load(tmp_path / "s")
