"""What every method of the catalog promises. A new row is covered the day it lands."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import polyseme
from polyseme.api import class_of
from polyseme.catalog import COMPOSED, METHODS, Row
from polyseme.errors import OptionError, PolysemeError, UnknownWord
from polyseme.interfaces import ContextEncoder, SentenceEncoder, WordVectorsInterface
from polyseme.sentences.lift import lift
from polyseme.text.options import READING_NAMES

ODD = ["", " ", "。", "\x00", "😀👩‍👩‍👧", "ａｂｃ", "x" * 3000, "未曾见过的词", "\ud800", "a\nb", "e\u0301"]
NOUNS = {"words": WordVectorsInterface, "contexts": ContextEncoder, "sentences": SentenceEncoder}


def over(rows: tuple[Row, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=[row.name for row in rows])


trainable, composed, every_row = over(METHODS), over(COMPOSED), over(METHODS + COMPOSED)
of_sentences = over(tuple(row for row in METHODS + COMPOSED if row.kind == "sentences"))
of_words = over(tuple(row for row in METHODS + COMPOSED if row.kind == "words"))


def answers(model: Any, sentences: list[Any]) -> list[np.ndarray]:
    """The model's vectors for some sentences, whatever its kind: one per word, or one per text."""
    if isinstance(model, SentenceEncoder):
        return list(model.encode(sentences))
    return [sentence.layers for sentence in lift(model, "contexts").encode_tokens(sentences)]


@every_row
def test_it_is_the_noun_and_the_class_of_its_row(row, model):
    assert class_of(row.name).method == row.name
    assert type(model(row.name)) is class_of(row.name)
    assert isinstance(model(row.name), NOUNS[row.kind])


@every_row
def test_its_vectors_are_finite_float32_and_not_all_zero(row, model, fifty_lines):
    for array in answers(model(row.name), fifty_lines):
        assert array.dtype == np.float32
        assert np.isfinite(array).all()
        assert array.any()


@every_row
def test_it_gives_one_vector_for_each_given_word_or_text(row, model, fifty_lines):
    encoder = model(row.name)
    given = [["小明", "", "打 电话", "x" * 300, "\ud800", "。"], [], *(line[:9] for line in fifty_lines[:3]), *ODD]
    if row.kind == "sentences":
        assert encoder.encode(given).shape == (len(given), encoder.dim)
        assert encoder.encode([]).shape == (0, encoder.dim)
        return
    tokens = [encoder.tokenize(one) if isinstance(one, str) else one for one in given]
    encoder = lift(encoder, "contexts")
    for wanted, found in zip(tokens, encoder.encode_tokens(given), strict=True):
        assert found.tokens == wanted
        assert found.layers.shape == (encoder.n_layers, len(wanted), encoder.dim)


@every_row
def test_it_survives_empty_and_odd_text(row, model):
    cut = [[odd] for odd in ODD]  # as words too, which no segmenter would leave so
    for array in answers(model(row.name), [*ODD, *cut]):
        assert np.isfinite(array).all()


@of_sentences
def test_a_text_has_a_defined_vector_whatever_is_in_it(row, model):
    encoder = model(row.name)
    line = "小明打电话给朋友，international telecommunications companies " * 2_000
    assert len(line) > 100_000
    empty, blank, unknown, signs, one, word, long = encoder.encode(
        ["", " \n", "Zyxwvut", "。！？……", "书", "x" * 100_000, line]
    )
    for vector in (empty, blank, unknown, signs, one, word, long):
        assert vector.shape == (encoder.dim,)
        assert np.isfinite(vector).all()
    np.testing.assert_allclose(empty, encoder.encode([[]])[0], atol=1e-6)
    np.testing.assert_allclose(empty, blank, atol=1e-6)
    assert long.any()


@every_row
def test_a_bare_text_is_refused_where_a_list_of_them_is_meant(row, model):
    encoder = model(row.name)
    ask = encoder.encode if row.kind == "sentences" else lift(encoder, "contexts").encode_tokens
    with pytest.raises(OptionError, match="several"):
        ask("打电话")


@every_row
def test_the_answer_does_not_depend_on_the_batch(row, model, fifty_lines):
    texts = fifty_lines[::6]
    for text, whole in zip(texts, answers(model(row.name), texts), strict=True):
        assert whole.any()
        np.testing.assert_allclose(answers(model(row.name), [text])[0], whole, atol=1e-6)


@pytest.mark.parametrize("method", ["gpt", "ulmfit"])
@pytest.mark.parametrize("prompt", ["小明☃打电话", "小明 ", "ＡＢ", "☃"])
def test_a_continued_text_begins_with_the_prompt_as_given(method, prompt, model):
    continued = model(method).generate(prompt, length=8, temperature=0)
    assert continued.startswith(prompt)
    assert len(continued) > len(prompt)


@of_words
def test_an_odd_word_has_a_vector_or_an_error_in_one_line(row, model):
    vectors = model(row.name)
    for word in (odd for text in ODD for odd in (text, *vectors.tokenize(text))):
        if word in vectors:
            assert np.isfinite(vectors[word]).all()
        else:
            with pytest.raises(UnknownWord) as error:
                vectors[word]
            assert len(str(error.value).splitlines()) == 1


@of_words
def test_the_neighbours_of_a_word_are_the_same_alone_and_among_others(row, model):
    vectors, words = model(row.name), model(row.name).index_to_key[:20]
    for word, together in zip(words, vectors.most_similar_batch(words, topn=5), strict=True):
        alone = vectors.most_similar(word, topn=5)
        np.testing.assert_allclose([s for _, s in alone], [s for _, s in together], atol=1e-6)
        np.testing.assert_array_equal(vectors[word], vectors[words][words.index(word)])


@every_row
def test_it_saves_and_loads_to_equal_vectors(row, model, fifty_lines, tmp_path):
    first = model(row.name)
    first.save(tmp_path / "m")
    again = polyseme.load(tmp_path / "m")
    assert type(again) is type(first)
    assert again.options == first.options
    assert again.about.segmentation == first.about.segmentation
    for one, other in zip(answers(first, fifty_lines), answers(again, fifty_lines), strict=True):
        np.testing.assert_array_equal(one, other)


@trainable
def test_one_thread_and_a_seed_give_the_same_bits(row, model, train_again, fifty_lines):
    second = train_again(row)
    for one, other in zip(answers(model(row.name), fifty_lines), answers(second, fifty_lines), strict=True):
        np.testing.assert_array_equal(one, other)


@trainable
def test_it_is_trained_further_on_another_text_with_new_words(row, model, data, train_again, fifty_lines, tmp_path):
    first, more = model(row.name), data.more(row)
    first.save(tmp_path / "m")
    if not class_of(row.name).trains_further:
        with pytest.raises(OptionError, match="train"):
            train_again(row, more, start=tmp_path / "m")
        return
    before = answers(first, fifty_lines)
    further = train_again(row, more, start=tmp_path / "m")
    if row.kind == "words":
        old = data.of(row)
        assert set(further.index_to_key) == {*old.vocabulary, *more.vocabulary}
        assert further.vocabulary.counts.sum() == old.n_tokens + more.n_tokens
    after = answers(further, fifty_lines)
    for array in (*after, *answers(further, ["小明的显微镜"])):
        assert np.isfinite(array).all()
        assert array.any()
    assert any(not np.array_equal(a, b) for a, b in zip(after, before, strict=True))
    for one, other in zip(answers(first, fifty_lines), before, strict=True):
        np.testing.assert_array_equal(one, other)  # the model that was given stays as it was


@trainable
def test_training_on_nothing_is_an_error_in_one_line(row, data, train_again):
    with pytest.raises(PolysemeError) as error:
        train_again(row, data.nothing(row))
    assert "\n" not in str(error.value)


@every_row
def test_every_option_has_a_help_text(row):
    for field in dataclasses.fields(class_of(row.name).Options):
        assert field.metadata.get("help"), field.name
        assert field.name not in READING_NAMES  # the name of a flag that says how data is read


@composed
def test_a_composed_model_says_what_it_is_made_of_and_is_not_trained(row, model, fifty_lines, tmp_path):
    model(row.name).save(tmp_path / "m")
    card = (tmp_path / "m" / "README.md").read_text(encoding="utf-8")
    for part in model(row.name).parts().models.values():
        assert f": {part.method}\n" in card
    with pytest.raises(OptionError, match="not trained"):
        polyseme.train(row.name, fifty_lines)


@every_row
def test_it_tells_what_it_is_in_one_line_and_in_a_notebook(row, model):
    known = model(row.name)
    assert repr(known).startswith(f"{type(known).__name__}({row.name}: ")
    assert "\n" not in repr(known)
    assert f"<b>{row.name} {row.chinese}</b>" in known._repr_html_()
    options = known.options
    usual = {field.name: field.default for field in dataclasses.fields(options)}
    of_size = vars(options.preset()) if hasattr(options, "preset") else usual  # what a size such as "tiny" stands for
    for name, value in vars(options).items():
        shown = f"<td>{name.replace('_', ' ')}</td>" in known._repr_html_()
        chosen = value not in (usual[name], None, "", ()) and (name == "size" or value != of_size[name])
        assert shown == (name in known.size() or chosen)
