"""cw2vec: strokes and n-grams are those of the paper and of another table; the training is word2vec's."""

from __future__ import annotations

import dataclasses
import logging

import numpy as np
import pytest

import polyseme
from polyseme.errors import FormatError, OptionError, TrainingError, UnknownWord
from polyseme.text.corpus import Corpus
from polyseme.words.character_ngrams import ngram_hash
from polyseme.words.cw2vec import Cw2Vec, Cw2VecOptions, StrokeGrams, Strokes, stroke_inputs

SMALL = {"dim": 16, "epochs": 3, "min_count": 1, "threads": 1}


@pytest.fixture(scope="module")
def strokes() -> Strokes:
    return Strokes.read()


@pytest.fixture(scope="module")
def model(fifty_lines) -> Cw2Vec:
    trained: Cw2Vec = polyseme.train("cw2vec", Corpus.from_sentences(fifty_lines), **SMALL)
    return trained


def ngrams(strokes: Strokes, word: str, minn: int = 3, maxn: int = 12) -> set[str]:
    """The stroke n-grams of a word, as digits."""
    found = StrokeGrams(strokes, minn, maxn, "sum", np.zeros((1, 1))).ngrams(word)
    return {gram.decode().translate({d: str(d) for d in range(1, 6)}) for gram in found}


def test_the_example_of_the_paper(strokes):
    assert strokes.digits("大人") == "13434"
    assert ngrams(strokes, "大人") == {"134", "343", "434", "1343", "3434", "13434"}


def test_strokes_are_those_of_another_table(strokes, shared_data):
    other = Strokes.read(shared_data / "lexical" / "strokes" / "stroke_sorting_bh.txt")
    common = [c for c in strokes.table if c in other.table]
    assert len(common) == len(strokes.table) == 6939
    differing = [c for c in common if strokes.table[c] != other.table[c]]
    assert len(differing) <= 15  # 达 芈 炽 虽 …: one stroke in them, on which the two disagree


def test_ngrams_cross_characters_and_repeat_only_once(strokes):
    whole, length = ngrams(strokes, "木材"), len(strokes.digits("木材"))
    assert length == 4 + 7
    assert len(whole) <= sum(length - n + 1 for n in range(3, 12))
    assert whole >= ngrams(strokes, "木") | ngrams(strokes, "材")
    assert whole - ngrams(strokes, "木") - ngrams(strokes, "材")
    assert ngrams(strokes, "木材") & ngrams(strokes, "森林")  # the same radical
    assert ngrams(strokes, "三三") == {"1" * n for n in range(3, 7)}


def test_other_scripts_and_characters_without_strokes_stand_for_themselves(strokes):
    assert strokes.digits("T恤") == "T442325221"
    assert ngrams(strokes, "cats") == {"cat", "ats", "cats"}
    assert ngrams(strokes, "123") == {"123"}  # three digits, and no strokes
    assert strokes.units("123") != strokes.units("一丨丿")
    assert list(strokes.missing(["丏的", "cats"])) == ["丏"]
    assert ngrams(strokes, "一") == {"1"}  # too short: all its strokes


def test_the_compiled_ngrams_are_those_of_plain_python(strokes):
    words = ["大人", "木材", "一", "T恤", "abc", "三三", "丏", "数据库", "的"]
    options = Cw2VecOptions(buckets=4999)
    inputs, buckets = stroke_inputs(words, strokes, options)
    rows = np.random.default_rng(0).normal(size=(buckets, 4)).astype(np.float32)
    for compose, power in (("sum", 0), ("mean", 1), ("root", 0.5)):
        grams = StrokeGrams(strokes, 3, 12, compose, rows)
        inputs, _ = stroke_inputs(words, strokes, dataclasses.replace(options, compose=compose))
        for word, vector in zip(words, grams.vectors(inputs), strict=True):
            np.testing.assert_allclose(vector, grams.vector(word), atol=1e-5)
            distinct = sorted({ngram_hash(gram) % buckets for gram in grams.ngrams(word)})
            np.testing.assert_allclose(vector, rows[distinct].sum(axis=0) / len(distinct) ** power, atol=1e-5)


def test_words_of_one_ngram_each_are_word2vec_step_for_step(topics):
    # Single letters are one n-gram each, so a word has one row, as in word2vec. The random initial rows would be equal
    # only if they had the same order, so both start from a model of zeros except for one random pass.
    letters = {word: chr(ord("a") + place) for place, word in enumerate(topics.vocabulary.words)}
    corpus = Corpus.from_sentences([[letters[word] for word in sentence] for sentence in topics])
    plain = polyseme.train("word2vec", corpus, **SMALL, lr=0.05)
    options = {**SMALL, "lr": 0.05, "vectors": "input"}
    start = polyseme.train("word2vec", corpus, **SMALL, lr=1e-9)
    begun = polyseme.train("cw2vec", corpus, **{**options, "lr": 1e-9}, buckets=100_003)
    inputs, _ = stroke_inputs(begun.index_to_key, begun.grams.strokes, begun.options)
    assert len(inputs.ids) == len(set(inputs.ids.tolist())) == len(corpus.vocabulary)
    rows = np.zeros_like(begun.grams.rows)
    rows[inputs.ids] = start.input
    begun.grams.rows[:] = rows
    begun.output[:] = 0
    strokes = polyseme.train("cw2vec", corpus, start=begun, **options)
    np.testing.assert_allclose(strokes.input, plain.input, atol=1e-5)
    np.testing.assert_allclose(strokes.output, plain.output, atol=1e-5)


def test_a_word_never_seen_has_the_vector_of_its_strokes(model):
    assert "打书" not in model.key_to_index
    rows = _rows(model, "打书")
    np.testing.assert_allclose(model.grams.vector("打书"), sum(rows) / len(rows) ** 0.5, atol=1e-5)
    assert model.most_similar("打书", topn=1)
    known = model.index_to_key[0]
    np.testing.assert_array_equal(model.lookup(["打书", known]), [model["打书"], model[known]])  # as texts are pooled
    with pytest.raises(UnknownWord):
        model["xyzzy"]


def _rows(model: Cw2Vec, word: str) -> list[np.ndarray]:
    inputs, _ = stroke_inputs([word], model.grams.strokes, model.options)
    return [model.grams.rows[i] for i in inputs.ids]


def test_the_bridge_takes_words_of_strokes_to_words_as_predicted(model):
    made = model.input @ model.bridge
    residual = np.square(made - model.output).sum() / np.square(model.output).sum()
    best, *_ = np.linalg.lstsq(model.input, model.output, rcond=None)
    least = np.square(model.input @ best - model.output).sum() / np.square(model.output).sum()
    assert least <= residual < least + 0.1


@pytest.mark.parametrize("vectors", ["input", "output", "sum", "concat"])
def test_served_vectors_of_known_and_unknown_words_have_one_length(fifty_lines, vectors):
    model = polyseme.train("cw2vec", Corpus.from_sentences(fifty_lines), **SMALL, vectors=vectors)
    assert model["打书"].shape == model["打"].shape == (model.vector_size,)


def test_characters_without_strokes_are_told(caplog):
    corpus = Corpus.from_sentences([["丏", "打", "电话"], ["打", "球"]] * 9)
    with caplog.at_level(logging.WARNING):
        model = polyseme.train("cw2vec", corpus, **SMALL, sample=0.0)
    assert "丏" in caplog.text
    assert model.about.corpus["without strokes"] == "1 Chinese characters: 丏"
    assert model["丏"].any()


def test_a_table_of_one_s_own_goes_with_the_model(tmp_path):
    table = tmp_path / "strokes"
    table.write_text("# mine\n打\t12112\n球 1121124134\n", encoding="utf-8")
    corpus = Corpus.from_sentences([["打", "球"], ["球", "打"]] * 9)
    polyseme.train("cw2vec", corpus, out=tmp_path / "m", strokes=str(table), sample=0.0, **SMALL)
    table.unlink()
    again = polyseme.load(tmp_path / "m")
    assert again.grams.strokes.table == {"打": "12112", "球": "1121124134"}
    further = polyseme.train("cw2vec", corpus, start=again, sample=0.0, **SMALL)
    assert further.grams.strokes.table == again.grams.strokes.table


@pytest.mark.parametrize("text", ["打 12a\n", "打电 123\n", "打\n", "# nothing\n", ""])
def test_a_wrong_table_is_one_clear_line(tmp_path, text):
    (tmp_path / "strokes").write_text(text, encoding="utf-8")
    with pytest.raises(FormatError) as error:
        Strokes.read(tmp_path / "strokes")
    assert "\n" not in str(error.value)


def test_options_that_contradict_are_refused(model, fifty_lines):
    corpus = Corpus.from_sentences(fifty_lines)
    with pytest.raises(OptionError, match="minn"):
        polyseme.train("cw2vec", corpus, minn=5, maxn=4)
    with pytest.raises(TrainingError, match="maxn=12"):
        polyseme.train("cw2vec", corpus, start=model, maxn=6, **SMALL)
