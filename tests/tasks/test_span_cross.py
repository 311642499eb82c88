"""Span with a Transformer: question and passage as one input, in windows, as transformers' own tools make them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.tasks.test_span import questions
from transformers import AutoModel, AutoTokenizer

import polyseme
from polyseme.data.examples import Examples
from polyseme.data.rows import Answer, Passage
from polyseme.errors import FormatError, OptionError
from polyseme.store.model import About
from polyseme.tasks.options import SpanCrossOptions
from polyseme.tasks.span_networks import CrossReader
from polyseme.text.segment import Segmentation

TUNED = {"encoder_mode": "finetune", "threads": 1, "batch_size": 8, "held_out": 0.0, "seed": 1}
PASSAGE = "他叫李红，住在上海。他喜欢跑步。" * 12
QUESTION = "他住在哪里？"


@pytest.fixture(scope="module")
def folder(shared_data):
    return shared_data / "models" / "hf_tiny" / "bert-tiny-zh"


@pytest.fixture(scope="module")
def model(folder):
    return polyseme.fit("span", questions(60), encoder=polyseme.load(folder), epochs=15, encoder_lr=1.0, **TUNED)


def test_windows_are_those_of_the_tokenizer_cut_with_a_stride(folder):
    reader = CrossReader(polyseme.load(folder), SpanCrossOptions(max_pieces=40, stride=12), no_answer=False)
    row = Passage(PASSAGE, QUESTION, [Answer("上海", PASSAGE.rindex("上海"))])
    windows = reader.windows(0, row)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    room = 40 - len(tokenizer(QUESTION, add_special_tokens=False)["input_ids"]) - 3
    expected = tokenizer(
        QUESTION, PASSAGE, truncation="only_second", max_length=40, stride=room - 12,
        return_overflowing_tokens=True, return_offsets_mapping=True,
    )  # fmt: skip
    assert len(windows) > 5
    for window, ids, types, offsets in zip(
        windows[:-1], expected["input_ids"], expected["token_type_ids"], expected["offset_mapping"], strict=False
    ):
        assert (window.ids, window.types) == (ids, types)
        assert window.spans == offsets[window.first : window.first + len(window.spans)]
    assert windows[-1].spans[-1][1] == len(PASSAGE)
    holding = [window for window in windows if window.start >= 0]
    assert holding
    for window in holding:
        begin, end = window.spans[window.start][0], window.spans[window.end][1]
        assert (begin, PASSAGE[begin:end]) == (PASSAGE.rindex("上海"), "上海")


def test_windows_overlap_even_if_the_network_reads_less_than_the_stride(folder):
    reader = CrossReader(polyseme.load(folder), SpanCrossOptions(max_pieces=40, stride=128), no_answer=False)
    rows = [Passage(PASSAGE, QUESTION, [Answer(PASSAGE[n : n + 9], n)]) for n in range(0, len(PASSAGE) - 9, 5)]
    assert not reader.prepare(rows).unplaced


def test_scores_are_a_layer_over_the_states_that_transformers_computes(folder):
    encoder = polyseme.load(folder)
    reader = CrossReader(encoder, SpanCrossOptions(max_pieces=64), no_answer=True)
    rows = [Passage("他叫李红，住在上海。", QUESTION, []), Passage("天气很好。", "谁？", [])]
    passages = reader.prepare(rows)
    with torch.no_grad():
        scores, _ = reader.net.eval()(passages.batch(np.arange(len(passages.windows))))
        tokenizer, whole = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
        for row, found in zip(rows, scores, strict=True):
            given = tokenizer(row.question, row.passage, return_tensors="pt")
            expected = reader.net.output(whole(**given).last_hidden_state[0])
            here = [place for place, text in enumerate(given.sequence_ids(0)) if text == 1]
            torch.testing.assert_close(found[: len(here)], expected[here], atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(found[-1], expected[0], atol=1e-4, rtol=1e-4)  # "no answer"
            assert (found[len(here) : -1] < -1e20).all()  # the padding of the shorter passage


def test_it_learns_to_answer_and_is_saved(model, tmp_path):
    assert model.options.head == "cross"
    assert model.score(questions(24, seed=1)).figures["exact_match"] > 0.9
    rows = [
        ("他叫李红，住在上海。他喜欢跑步。", QUESTION),
        ("", "什么？"),
        ("他叫李红。", ""),
        (PASSAGE * 9, "问" * 400),
    ]
    found = model.predict(rows)
    assert found[0].text == "上海"
    assert found[0].start == rows[0][0].index("上海")
    assert found[1] == ("", -1, 1.0)
    assert rows[3][0][found[3].start :].startswith(found[3].text)
    model.save(tmp_path / "m")
    again = polyseme.load(tmp_path / "m").predict(rows)
    assert [answer[:2] for answer in again] == [answer[:2] for answer in found]
    np.testing.assert_allclose([a.probability for a in again], [a.probability for a in found], atol=1e-4)
    (tmp_path / "m" / "encoder" / "config.json").unlink()
    with pytest.raises(FormatError):
        polyseme.load(tmp_path / "m")


def test_questions_may_have_no_answer(folder):
    fitted = polyseme.fit(
        "span", questions(80, unanswered=True), encoder=polyseme.load(folder), epochs=15, encoder_lr=1.0, **TUNED
    )
    passage = "他叫李红，住在上海。他喜欢跑步。"
    assert [fitted.predict([(passage, q)])[0].text for q in ("今天星期几？", "他叫什么？")] == ["", "李红"]


def test_answers_stand_in_the_text_as_given_even_if_it_is_normalised(folder):
    encoder = polyseme.load(folder)
    encoder.about = About(Segmentation("char", normalise="nfkc"))
    reader = CrossReader(encoder, SpanCrossOptions(), no_answer=False)
    passage = "他住在ＡＢ①城。"
    window = reader.windows(0, Passage(passage, "哪里？", [Answer("ＡＢ①城", 3)]))[0]
    begin, end = window.spans[window.start][0], window.spans[window.end][1]
    assert passage[begin:end] == "ＡＢ①城"


def test_a_causal_transformer_reads_the_question_first(shared_data):
    gpt = polyseme.load(shared_data / "models" / "hf_tiny" / "gpt2-tiny")
    rows = Examples.of([Passage("the cat sat on the mat", "who sat?", [Answer("cat", 4)], str(n)) for n in range(8)])
    fitted = polyseme.fit("span", rows, encoder=gpt, epochs=30, encoder_lr=1.0, **TUNED)
    assert fitted.predict([("the cat sat on the mat", "who sat?")])[0][:2] == ("cat", 4)


def test_it_takes_one_transformer(folder):
    with pytest.raises(OptionError, match="give one encoder"):
        polyseme.fit("span", questions(10), head="cross")
