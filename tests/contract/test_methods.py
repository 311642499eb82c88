"""What every method of the catalog promises. A new row is covered the day it lands."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import polyseme
from polyseme.api import class_of
from polyseme.catalog import METHODS, Row
from polyseme.errors import PolysemeError, UnknownWord
from polyseme.text.corpus import READING, Corpus

# What makes a method small enough for a test; the rest of its options keep their defaults.
SMALL: dict[str, dict[str, Any]] = {
    "word2vec": {"dim": 16, "epochs": 2, "min_count": 1},
    "fasttext": {"dim": 16, "epochs": 2, "min_count": 1, "buckets": 1000},
    "glove": {"dim": 16, "epochs": 2, "min_count": 1},
    "svd": {"dim": 8, "min_count": 1},
    "elmo": {"epochs": 1},
}
ODD = ["", " ", "。", "\x00", "😀👩‍👩‍👧", "ａｂｃ", "x" * 3000, "未曾见过的词", "\ud800", "a\nb", "e\u0301"]

trainable = pytest.mark.parametrize("row", METHODS, ids=[row.name for row in METHODS])


@pytest.fixture(scope="module")
def corpus(fifty_lines) -> Corpus:
    return Corpus.from_sentences(fifty_lines)


@pytest.fixture(scope="module")
def models(corpus) -> dict[str, Any]:
    """Each method trained once; the tests of this module only ask."""
    return {}


def trained(row: Row, models: dict[str, Any], corpus: Corpus) -> Any:
    if row.name not in models:
        models[row.name] = polyseme.train(row.name, corpus, seed=1, threads=1, **SMALL[row.name])
    return models[row.name]


def answers(model: Any, texts: list[str]) -> list[np.ndarray]:
    """The model's vectors of some texts, whatever noun it is."""
    if hasattr(model, "encode_tokens"):
        return [sentence.layers for sentence in model.encode_tokens(texts)]
    if hasattr(model, "encode"):
        return list(model.encode(texts))
    return [model[model.tokenize(text)] for text in texts]


@trainable
def test_it_learns_vectors_that_are_finite_float32(row, models, corpus, fifty_lines):
    for array in answers(trained(row, models, corpus), fifty_lines):
        assert array.dtype == np.float32
        assert array.size
        assert np.isfinite(array).all()


@trainable
def test_it_saves_and_loads_to_equal_vectors(row, models, corpus, fifty_lines, tmp_path):
    model = trained(row, models, corpus)
    model.save(tmp_path / "m")
    again = polyseme.load(tmp_path / "m")
    assert type(again) is type(model)
    assert again.options == model.options
    assert again.about.segmentation == model.about.segmentation
    for one, other in zip(answers(model, fifty_lines), answers(again, fifty_lines), strict=True):
        np.testing.assert_array_equal(one, other)


@trainable
def test_the_answer_does_not_depend_on_the_batch(row, models, corpus, fifty_lines):
    model = trained(row, models, corpus)
    for text, whole in zip(fifty_lines, answers(model, fifty_lines), strict=True):
        np.testing.assert_allclose(answers(model, [text])[0], whole, atol=1e-6)
    if row.kind == "words":
        words = model.index_to_key[:20]
        for word, together in zip(words, model.most_similar_batch(words, topn=5), strict=True):
            alone = model.most_similar(word, topn=5)
            np.testing.assert_allclose([s for _, s in alone], [s for _, s in together], atol=1e-6)
            np.testing.assert_array_equal(model[word], model[words][words.index(word)])


@trainable
def test_it_survives_empty_and_odd_text(row, models, corpus):
    model = trained(row, models, corpus)
    if row.kind == "words":
        for word in (odd for text in ODD for odd in (text, *model.tokenize(text))):
            if word in model:
                assert np.isfinite(model[word]).all()
            else:
                with pytest.raises(UnknownWord) as error:
                    model[word]
                assert len(str(error.value).splitlines()) == 1
    else:
        for array in answers(model, ODD):
            assert np.isfinite(array).all()


@trainable
def test_one_thread_and_a_seed_give_the_same_bits(row, models, corpus, fifty_lines):
    first = trained(row, models, corpus)
    second = polyseme.train(row.name, corpus, seed=1, threads=1, **SMALL[row.name])
    for one, other in zip(answers(first, fifty_lines), answers(second, fifty_lines), strict=True):
        np.testing.assert_array_equal(one, other)


@trainable
def test_it_is_trained_further_on_another_text_with_new_words(row, models, corpus, fifty_lines, tmp_path):
    model = trained(row, models, corpus)
    model.save(tmp_path / "m")
    before = answers(model, fifty_lines)
    more = Corpus.from_sentences([f"小明的显微镜比{person}的显微镜好。" for person in ("老王", "姐姐", "弟弟")] * 5)
    further = polyseme.train(row.name, more, start=tmp_path / "m", seed=1, threads=1, **SMALL[row.name])
    new = "小明的显微镜"
    old_words, new_words = (answers(further, texts) for texts in (fifty_lines, [new]))
    if row.kind == "words":
        assert set(further.index_to_key) == {*corpus.vocabulary, *more.vocabulary}
        assert len(new_words[0]) == len(model.tokenize(new))
        assert further.vocabulary.counts.sum() == corpus.n_tokens + more.n_tokens
    for array in (*old_words, *new_words):
        assert array.size
        assert np.isfinite(array).all()
    assert any((a != b).any() for a, b in zip(old_words, before, strict=True))
    for one, other in zip(answers(model, fifty_lines), before, strict=True):
        np.testing.assert_array_equal(one, other)  # the model that was given stays as it was


@trainable
def test_training_on_nothing_is_an_error_in_one_line(row):
    with pytest.raises(PolysemeError) as error:
        polyseme.train(row.name, Corpus.from_sentences([]), **SMALL[row.name])
    assert "\n" not in str(error.value)


@trainable
def test_every_option_has_a_help_text(row):
    for field in dataclasses.fields(class_of(row.name).Options):
        assert field.metadata.get("help"), field.name
        assert field.name not in READING  # the name of a flag for raw text


@trainable
def test_the_class_knows_its_own_row(row):
    assert class_of(row.name).method == row.name
    assert row.kind in {"words", "contexts", "sentences"}
