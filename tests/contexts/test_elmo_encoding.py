"""Encoding: vectors do not depend on the batch, come in order and in bounded memory; and defects of older programs."""

from __future__ import annotations

from itertools import count, islice

import numpy as np
import pytest
import torch

import polyseme
from polyseme.contexts.elmo import encode as elmo_encoding
from polyseme.contexts.elmo.encode import SentenceRunner, WordCache
from polyseme.errors import OptionError
from polyseme.sentences.pooled import Pooled

rng = np.random.default_rng(7)
VOCABULARY = ["猫", "狗", "在", "running", "the", "x" * 60, "电话", "。", "打", "é", "\ud83d", ""]
SENTENCES = [[str(w) for w in rng.choice(VOCABULARY, size=n)] for n in [3, 1, 0, 40, 7, 7, 2, 19, 1, 5, 33, 8]]


@pytest.fixture(scope="module")
def model(random_elmo):
    return random_elmo(hidden=24, projection=8, filters="1x4 2x8 3x8", scale=1.5)


def test_a_sentence_alone_and_among_others_has_the_same_vectors(model, monkeypatch):
    alone = [next(model.encode_tokens([sentence])).layers for sentence in SENTENCES]
    for rows in (1, 3, 100):
        monkeypatch.setattr(elmo_encoding, "BATCH_ROWS", rows)
        for sentence, one, found in zip(SENTENCES, alone, model.encode_tokens(SENTENCES), strict=True):
            assert found.tokens == sentence
            np.testing.assert_allclose(found.layers, one, atol=1e-7)


def test_the_same_sentence_has_the_same_bits_in_every_call(model):
    first = [s.layers for s in model.encode_tokens(SENTENCES)]
    list(model.encode_tokens(SENTENCES, stateful=True))
    for _ in range(2):
        for one, found in zip(first, model.encode_tokens(SENTENCES), strict=True):
            np.testing.assert_array_equal(found.layers, one)


def test_sentences_stream_from_an_endless_source(model, monkeypatch):
    monkeypatch.setattr(elmo_encoding, "WINDOW_TOKENS", 1024)
    endless = ([f"w{n}"] * 5 for n in count())
    assert [s.tokens[0] for s in islice(model.encode_tokens(endless), 500)] == [f"w{n}" for n in range(500)]


def test_raw_text_is_segmented_and_lists_are_taken_as_they_are(model):
    raw, cut, empty, nothing = model.encode_tokens(["他打了个电话。", ["他", "打了个", "电话", "。"], "", []])
    assert "".join(raw.tokens) == "他打了个电话。"
    assert len(raw.tokens) > 1
    assert cut.tokens == ["他", "打了个", "电话", "。"]
    assert empty.layers.shape == nothing.layers.shape == (3, 0, model.dim)


@pytest.mark.parametrize(
    "sentence", ["\ud800", "\x00", " \t\u3000", "e\u0301\u200d👩‍👩‍👧", "x" * 30_000, ["", " ", "\udfff\ud800"]]
)
def test_odd_text_gets_finite_vectors(model, sentence):
    (found,) = model.encode_tokens([sentence])
    assert found.layers.shape[1] == len(found.tokens)
    assert np.isfinite(found.layers).all()


def test_ten_thousand_tokens_are_one_sentence(model):
    long = [VOCABULARY[n % 7] for n in range(10_000)]
    short, found = model.encode_tokens([["猫"], long], layers="top")
    assert found.layers.shape == (1, 10_000, model.dim)
    np.testing.assert_allclose(short.layers, next(model.encode_tokens([["猫"]], layers="top")).layers, atol=1e-6)


def test_layer_choices_are_made_of_all_layers(model):
    model.mix.scalars.data = torch.tensor([0.0, 1.0, -1.0])
    model.mix.gamma.data = torch.tensor([2.0])
    everything = [s.layers for s in model.encode_tokens(SENTENCES)]
    weights = np.exp([0.0, 1.0, -1.0]) / np.exp([0.0, 1.0, -1.0]).sum() * 2
    wanted = {
        "top": lambda x: x[2],
        "mean": lambda x: x.mean(axis=0),
        "mix": lambda x: np.tensordot(weights, x, 1),
        0: lambda x: x[0],
        1: lambda x: x[1],
        "2": lambda x: x[2],
    }
    for layers, make in wanted.items():
        for whole, found in zip(everything, model.encode_tokens(SENTENCES, layers=layers), strict=True):
            assert found.layers.shape[0] == 1
            np.testing.assert_allclose(found.layers[0], make(whole), atol=2e-6)
    for bad in ("bottom", 3, -1, "1.5"):
        with pytest.raises(OptionError, match="layers must be all"):
            model.encode_tokens(SENTENCES, layers=bad)


def test_layer_zero_is_the_word_s_own_vector_twice(model):
    (found,) = model.encode_tokens([["猫", "狗", "猫"]], layers=0)
    half = model.dim // 2
    np.testing.assert_array_equal(found.layers[0, :, :half], found.layers[0, :, half:])
    np.testing.assert_array_equal(found.layers[0, 0], found.layers[0, 2])


def test_a_string_in_place_of_sentences_is_refused(model):
    with pytest.raises(OptionError, match="give a list"):
        model.encode_tokens("a text")
    with pytest.raises(OptionError, match="neither"):
        list(model.encode_tokens([[b"bytes"]]))


# ---- remembered words


def test_each_distinct_word_is_spelt_once_even_when_others_are_new(random_elmo, monkeypatch):
    model = random_elmo()
    spelt = []
    compute = SentenceRunner.word_vectors
    monkeypatch.setattr(SentenceRunner, "word_vectors", lambda self, words: spelt.extend(words) or compute(self, words))
    list(model.encode_tokens([["a", "b", "a"], ["b"]]))
    list(model.encode_tokens([["a", "never seen", "b"]]))
    assert sorted(spelt) == sorted(["<S>", "</S>", "a", "b", "never seen"])


def test_the_cache_keeps_what_was_used_last_and_stays_small():
    cache = WordCache(3, 2)
    asked = []

    def compute(words):
        asked.append(words)
        return torch.tensor([[float(len(word)), float(ord(word[0]))] for word in words])

    assert cache.get(["a", "bb"], compute).tolist() == [[1, 97], [2, 98]]
    assert cache.get(["ccc", "a"], compute).tolist() == [[3, 99], [1, 97]]
    assert cache.get(["dddd"], compute).tolist() == [[4, 100]]  # bb makes room
    assert cache.get(["a", "bb", "dddd"], compute).tolist() == [[1, 97], [2, 98], [4, 100]]
    assert asked == [["a", "bb"], ["ccc"], ["dddd"], ["bb"]]
    assert cache.get(list("uvwxyz"), compute)[:, 1].tolist() == [ord(c) for c in "uvwxyz"]
    assert len(cache) == 3


def test_a_cache_smaller_than_the_text_changes_nothing(random_elmo):
    model = random_elmo()
    whole = [s.layers for s in model.encode_tokens(SENTENCES)]
    model.runner = SentenceRunner(model.bilm, model.alphabet, cache_bytes=4 * 6 * 2)  # two words
    for _ in range(2):
        for one, found in zip(whole, model.encode_tokens(SENTENCES), strict=True):
            np.testing.assert_allclose(found.layers, one, atol=1e-6)


# ---- the stateful mode


def test_a_row_s_state_goes_on_and_the_batch_may_grow_and_shrink(random_elmo):
    model = random_elmo()
    fresh = [s.layers for s in model.encode_tokens(SENTENCES[:3])]

    def read(sentences):
        return [s.layers for s in model.encode_tokens(sentences, stateful=True)]

    first = read(SENTENCES[:1])
    np.testing.assert_allclose(first[0], fresh[0], atol=1e-6)
    second = read(SENTENCES[:2])  # row 0 goes on, row 1 begins
    assert np.abs(second[0] - fresh[0]).max() > 1e-3
    np.testing.assert_allclose(second[1], fresh[1], atol=1e-6)
    read(SENTENCES[4:5])  # only row 0
    kept = read(SENTENCES[:2])[1]  # row 1 goes on from its own last sentence
    model.reset_state()
    read([SENTENCES[0], SENTENCES[1]])
    np.testing.assert_allclose(read([SENTENCES[0], SENTENCES[1]])[1], kept, atol=1e-6)
    model.reset_state()
    np.testing.assert_allclose(read(SENTENCES[:1])[0], fresh[0], atol=1e-6)


def test_the_stateful_mode_reads_ahead_one_batch_only(random_elmo):
    model, taken = random_elmo(), []
    stream = (taken.append(words) or words for words in SENTENCES * 3)
    next(model.encode_tokens(stream, stateful=True, batch_size=2))
    assert len(taken) == 2
    with pytest.raises(OptionError, match="batch_size"):
        model.encode_tokens(SENTENCES, stateful=True, batch_size=-1)


# ---- defects of the older programs


def test_a_sentence_vector_does_not_count_padding(model):
    pooled = Pooled(model)
    alone = pooled.encode([SENTENCES[0]])
    among = pooled.encode([SENTENCES[3], SENTENCES[0]])
    np.testing.assert_allclose(among[1], alone[0], atol=1e-6)


def test_all_layers_are_transposed_not_reshaped(model):
    (found,) = model.encode_tokens([SENTENCES[4]])
    for number in range(3):
        (one,) = model.encode_tokens([SENTENCES[4]], layers=number)
        np.testing.assert_allclose(found.layers[number], one.layers[0], atol=1e-6)


def test_the_softmax_is_saved_with_the_model(random_elmo, tmp_path):
    words = ["猫", "狗", "打", "电话"]
    model = random_elmo(alphabet="chars+words", characters=list("猫狗打电话"), words=words, classes=words)
    model.save(tmp_path / "m")
    again = polyseme.load(tmp_path / "m")
    assert again.classes == words
    assert torch.equal(again.bilm.softmax_weight, model.bilm.softmax_weight)
    assert again.substitutes(["猫", "打", "电话"], 1) == model.substitutes(["猫", "打", "电话"], 1)


# ---- what the biLM expects


def test_substitutes_are_scored_by_both_directions_at_the_place(random_elmo):
    words = ["猫", "狗", "打", "电话", "在"]
    model = random_elmo(alphabet="chars+words", characters=list("猫狗打电话"), words=words, classes=words)
    sentence = ["猫", "打", "电话"]
    (predicting,) = model.encode_predicting([sentence])
    half = model.dim // 2
    weight, bias = model.bilm.softmax_weight.detach().numpy(), model.bilm.softmax_bias.detach().numpy()
    for position in range(3):
        state = predicting.layers[-1, position].astype(np.float64)
        logits = [weight @ state[:half] + bias, weight @ state[half:] + bias]
        total = sum(x - np.log(np.exp(x).sum()) for x in logits)[: len(words)]
        wanted = np.exp(total) / np.exp(total).sum()
        found = dict(model.substitutes(sentence, position, topn=5))
        assert list(found) == [words[n] for n in np.argsort(-wanted)]
        np.testing.assert_allclose([found[w] for w in words], wanted, atol=1e-5)
        other = [*sentence[:position], "从未见过", *sentence[position + 1 :]]  # the word itself is not looked at
        assert model.substitutes(other, position)[0][1] == pytest.approx(
            found[model.substitutes(other, position)[0][0]]
        )
    assert len(model.substitutes(sentence, 0, topn=2)) == 2


def test_a_very_long_sentence_is_run_piece_by_piece_to_the_same_bits(random_elmo, monkeypatch):
    model = random_elmo()
    sentences = [[f"w{n % 7}" for n in range(300)], ["a"], [f"v{n % 5}" for n in range(41)], []]
    for layers in ("all", "top", 0):
        whole = [s.layers for s in model.encode_tokens(sentences, layers=layers)]
        with monkeypatch.context() as small:
            small.setattr("polyseme.contexts.elmo.encode.PIECE_ROWS", 100)
            pieces = [s.layers for s in model.encode_tokens(sentences, layers=layers)]
        for one, other in zip(whole, pieces, strict=True):
            np.testing.assert_array_equal(one, other)
    before = [s.layers for s in model.encode_predicting(sentences)]
    monkeypatch.setattr("polyseme.contexts.elmo.encode.PIECE_ROWS", 100)
    for one, other in zip(before, model.encode_predicting(sentences), strict=True):
        np.testing.assert_array_equal(one, other.layers)
