"""fastText: vectors for words never seen, n-grams for Chinese, further training."""

from __future__ import annotations

import numpy as np
import pytest

import polyseme
from polyseme.errors import OptionError, TrainingError, UnknownWord
from polyseme.text.corpus import Corpus

SMALL = {"dim": 16, "epochs": 3, "min_count": 1, "seed": 7, "threads": 1, "sample": 0.0}


@pytest.mark.parametrize("options", [{}, {"architecture": "cbow"}, {"loss": "hierarchical"}], ids=str)
def test_words_of_one_topic_come_together(topics, topic_margin, options):
    assert topic_margin(polyseme.train("fasttext", topics, **{**SMALL, "epochs": 10, "lr": 0.1}, **options)) > 0.2


def test_chinese_text_gets_ngrams_from_single_characters_on_and_english_from_three(topics):
    chinese = polyseme.train("fasttext", topics, **SMALL)
    assert (chinese.options.minn, chinese.options.maxn) == (1, 4)
    english = polyseme.train("fasttext", Corpus.from_sentences([["some", "plain", "English", "words"]] * 5), **SMALL)
    assert (english.options.minn, english.options.maxn) == (3, 6)


def test_an_unseen_word_is_the_mean_of_its_ngrams(topics):
    model = polyseme.train("fasttext", topics, minn=1, maxn=1, **SMALL)
    cat, dog = model.subwords.ids("猫"), model.subwords.ids("狗")
    rows = model.subwords.rows[[*cat, *dog]]
    assert "猫狗" not in model.key_to_index
    np.testing.assert_allclose(model["猫狗"], rows.mean(axis=0), atol=1e-6)
    own = model.subwords.own[model.key_to_index["猫"]]
    np.testing.assert_allclose(model["猫"], (own + model.subwords.rows[cat[0]]) / 2, atol=1e-6)
    subwords = model.subwords
    untrained = next(word for word in map(chr, range(0x4E00, 0x9FFF)) if not subwords.rows[subwords.ids(word)].any())
    with pytest.raises(UnknownWord):
        model.most_similar(untrained)


def test_without_ngrams_it_is_word2vec(topics):
    model = polyseme.train("fasttext", topics, maxn=0, **SMALL)
    assert "猫狗" not in model
    assert model.subwords.rows.shape == (0, 16)


def test_an_interrupted_training_goes_on_to_the_same_bits(topics, tmp_path):
    def progress(what, done, total, /, **facts):
        if what == "training" and facts["epoch"] == 2:
            raise KeyboardInterrupt

    whole = polyseme.train("fasttext", topics, **SMALL)
    with pytest.raises(KeyboardInterrupt):
        polyseme.train("fasttext", topics, out=tmp_path / "m", progress=progress, **SMALL)
    resumed = polyseme.train("fasttext", topics, out=tmp_path / "m", resume=True, **SMALL)
    np.testing.assert_array_equal(resumed.vectors, whole.vectors)
    np.testing.assert_array_equal(resumed.subwords.rows, whole.subwords.rows)


def test_further_training_keeps_words_and_ngrams_and_adds_new_words(topics):
    old = polyseme.train("fasttext", topics, **SMALL)
    new = polyseme.train(
        "fasttext", Corpus.from_sentences([["猫", "大猫", "狗"]] * 9), start=old, **{**SMALL, "lr": 1e-7}
    )
    assert set(new.index_to_key) == {*old.index_to_key, "大猫"}
    np.testing.assert_allclose(new["狗"], old["狗"], atol=1e-4)
    np.testing.assert_allclose(new["猫狗"], old["猫狗"], atol=0.05)
    with pytest.raises(TrainingError, match="minn=1"):
        polyseme.train("fasttext", topics, start=old, minn=2, **SMALL)


def test_a_shortest_ngram_longer_than_the_longest_is_refused(topics):
    with pytest.raises(OptionError, match="longer than the longest"):
        polyseme.train("fasttext", topics, minn=4, maxn=2, **SMALL)
