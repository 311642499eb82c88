"""Span: answers in passages, questions without one, and passages in windows."""

from __future__ import annotations

import random

import numpy as np
import pytest

import polyseme
from polyseme.data.examples import Examples
from polyseme.data.rows import Answer, Passage
from polyseme.errors import OptionError, TrainingError
from polyseme.tasks.span import BestSpan, Span
from polyseme.tasks.span_windows import PassageWindow, Readings, shared_features, window_starts
from polyseme.text.segment import Segmentation

NAMES, PLACES, THINGS = ["王小明", "李红", "张伟"], ["北京", "上海", "西安"], ["看书", "跑步", "唱歌"]
CHARACTERS = Segmentation("char")


def questions(n: int, seed: int = 0, *, unanswered: bool = False) -> Examples:
    rng = random.Random(seed)
    rows = []
    for number in range(n):
        name, place, thing = rng.choice(NAMES), rng.choice(PLACES), rng.choice(THINGS)
        passage = f"他叫{name}，住在{place}。他喜欢{thing}。"
        kinds = [("他叫什么？", name), ("他住在哪里？", place), ("他喜欢什么？", thing)]
        question, answer = kinds[number % 3]
        given = [Answer(answer, passage.index(answer))]
        if unanswered and number % 4 == 3:
            question, given = "今天星期几？", []
        rows.append(Passage(passage, question, given, str(number)))
    return Examples.of(rows, segment="char")


SMALL = {"threads": 1, "epochs": 12, "batch_size": 8, "lr": 0.02, "dim": 16, "hidden": 8, "dropout": 0.0, "patience": 0}


@pytest.fixture(scope="module")
def model():
    return polyseme.fit("span", questions(60), **SMALL)


def test_it_finds_answers_and_says_where_they_stand(model, tmp_path):
    report = model.score(questions(24, seed=1))
    assert report.metric == "f1"
    assert report.figures["exact_match"] > 0.9
    rows = [("他叫李红，住在上海。他喜欢跑步。", "他住在哪里？"), ("", "什么？"), ("他叫李红。", "")]
    found = model.predict(rows)
    assert found[0].text == "上海"
    assert found[0].start == rows[0][0].index("上海")
    assert 0 < found[0].probability <= 1
    assert found[1] == ("", -1, 1.0)
    model.save(tmp_path / "m")
    assert polyseme.load(tmp_path / "m").predict(rows) == found


def test_a_long_passage_is_read_in_windows(model):
    filler = "天气很好。" * 120
    passage = f"{filler}他叫李红，住在上海。他喜欢跑步。"
    assert len(passage) > model.reader.options.window
    found = model.predict([(passage, "他住在哪里？")])[0]
    assert passage[found.start : found.start + len(found.text)] == found.text
    readings = Readings([Passage(passage, "谁？", [Answer("上海", passage.index("上海"))])], CHARACTERS, 100, 60)
    assert {window.text for window in readings.windows} <= set(range(len(readings.lists)))
    holding = [window for window in readings.windows if window.start >= 0]
    assert holding
    for window in holding:
        assert "".join(readings.lists[window.text][window.start : window.end + 1]) == "上海"


def test_questions_may_have_no_answer():
    model = polyseme.fit("span", questions(80, unanswered=True), **SMALL)
    found = model.predict(
        [("他叫李红，住在上海。他喜欢跑步。", "今天星期几？"), ("他叫李红，住在上海。他喜欢跑步。", "他叫什么？")]
    )
    assert [answer.text for answer in found] == ["", "李红"]
    assert found[0].start == -1


def test_windows_without_the_answer_do_not_outvote_the_one_that_has_it():
    def answered(*windows):  # of two places each: their scores as start and end, and those of "none"
        found = BestSpan()
        for number, (places, none) in enumerate(windows):
            spans = [(4 * number, 4 * number + 2), (4 * number + 2, 4 * number + 4)]
            scores = np.array([[place, place] for place in (*places, none)], dtype=np.float32)
            found.see(PassageWindow(0, spans, -1, -1), scores, 1)
        return found.answer("零零一一二二三三").text

    assert answered(((0, 1), 5), ((4, 0), -2)) == "二二"  # the first window has no answer, and is sure of it
    assert answered(((0, 1), 5), ((0, 1), 3)) == ""
    assert answered(((0, 1), 0.5)) == "一一"


def test_a_question_whose_answer_is_in_no_window_does_not_teach_that_there_is_none(caplog):
    rows = [*questions(8, unanswered=True), Passage("他叫王小明。" * 9, "他叫什么？", [Answer("王小明" * 9, 2)], "x")]
    seen: list[int] = []

    def watched(self, *given):
        task = learning(self, *given)
        seen.extend(window.example for window in task.prepared.windows)
        return task

    learning = Span.learning
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Span, "learning", watched)
        more = {"epochs": 1, "held_out": 0.0, "window": 20, "stride": 10}
        polyseme.fit("span", Examples.of(rows, segment="char"), **{**SMALL, **more})
    assert "1 questions have no answer that fits" in caplog.text
    assert 8 not in seen
    assert 3 in seen  # which has none


def test_windows_overlap_so_that_no_answer_is_cut():
    assert window_starts(10, 20, 5) == [0]
    starts = window_starts(100, 30, 20)
    assert starts == [0, 20, 40, 60, 70]
    for first in range(100 - 10):
        assert any(start <= first and first + 10 <= start + 30 for start in starts)


def test_windows_that_leave_tokens_out_are_refused():
    with pytest.raises(OptionError, match="stride 250 is more than window 200"):
        polyseme.fit("span", questions(10), window=200)


def test_features_say_what_a_passage_shares_with_the_question():
    tokens = [*"他叫李红，住在上海。天气很好。"]
    found = shared_features(tokens, [*"他住在哪？"])
    by_token = dict(zip(range(len(tokens)), found, strict=True))
    assert by_token[0][0] == 1
    assert by_token[2][0] == 0
    np.testing.assert_array_equal(found[:10, 3], 1)  # the first sentence shares most
    np.testing.assert_array_equal(found[10:, 3], 0)
    assert found[0, 4] == found[5, 4] == 1  # clauses begin at 他 and 住
    assert found[3, 5] == 1  # and end before the comma


def test_answers_that_are_nowhere_are_told_and_the_rest_is_learned(caplog):
    rows = [*questions(20), Passage("短。", "谁？", [Answer("很长的答案", 90)], "x")]
    polyseme.fit("span", Examples.of(rows, segment="char"), **{**SMALL, "epochs": 1}, held_out=0.0)
    assert "1 questions have no answer that fits in a window of their passage (first: question 21)" in caplog.text
    with pytest.raises(TrainingError, match="no question has an answer"):
        polyseme.fit("span", Examples.of(rows[-1:], segment="char"), **SMALL, held_out=0.0)
