"""A small file is read as the large one that was learned from: few rows alone would not tell what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyseme.data.examples import Examples
from polyseme.errors import TextError

QUESTIONS = [
    *("DESC:manner How did serfdom develop ?", "ENTY:animal What is the largest cat ?", "HUM:ind Who wrote it ?"),
    *("DESC:def What is a mole ?", "HUM:ind Who was Galileo ?", "ENTY:animal Which dog barks ?"),
] * 10
BARS = [f"2012test-{n:04d}||一架飞机要起飞了{n}。||一架飞机正在起飞{n}。||{n % 6}" for n in range(60)]
SICK = [f"{n}\tA dog runs {n}\tA cat sits {n}\t{n % 5 + 0.5}\t{('NEUTRAL', 'ENTAILMENT')[n % 2]}" for n in range(30)]
SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"


def written(folder: Path, *lines: str, name: str = "few.txt") -> Path:
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / name


@pytest.fixture
def facts(tmp_path):
    def read(lines: list[str], **how):
        return Examples.read(written(tmp_path, *lines, name="many.txt"), **how).facts

    return read


@pytest.mark.parametrize("n", [1, 3, 5])
def test_labels_that_stand_first_are_known_again(n, facts, tmp_path):
    few = Examples.read(written(tmp_path, *QUESTIONS[:n]), kind="texts", like=facts(QUESTIONS))
    assert [tuple(row) for row in few] == [tuple(reversed(line.split(" ", 1))) for line in QUESTIONS[:n]]


def test_labels_cut_into_parts_are_known_again(facts, tmp_path):
    like = facts(QUESTIONS, label_parts=1)
    assert Examples.read(written(tmp_path, *QUESTIONS[:3]), kind="texts", like=like, label_parts=1)[1].label == "ENTY"


def test_plain_lines_are_not_taken_for_labels_and_texts(facts, tmp_path):
    lines = [line.split(" ", 1)[1] for line in QUESTIONS[:4]]
    found = Examples.read(written(tmp_path, *lines), kind="texts", unlabelled=True, like=facts(QUESTIONS))
    assert [row.text for row in found] == lines


@pytest.mark.parametrize("n", [1, 2, 5])
def test_whole_scores_stay_scores(n, facts, tmp_path):
    few = Examples.read(written(tmp_path, *BARS[:n]), kind="pairs", like=facts(BARS))
    assert few.scored
    assert [row.label for row in few] == [float(line[-1]) for line in BARS[:n]]


def test_columns_that_were_asked_for_are_taken_again_by_name(facts, tmp_path):
    asked = {"first": "sentence_A", "second": "sentence_B", "label": "entailment_judgment"}
    like = facts([SICK_HEADER, *SICK], columns=asked)
    few = Examples.read(written(tmp_path, SICK_HEADER, *SICK[:3]), kind="pairs", like=like)
    assert [row.label for row in few] == ["NEUTRAL", "ENTAILMENT", "NEUTRAL"]
    without = ["\t".join(line.split("\t")[:3]) for line in (SICK_HEADER, *SICK[:3])]
    few = Examples.read(written(tmp_path, *without), kind="pairs", unlabelled=True, like=like)
    assert few[0][:2] == ("A dog runs 0", "A cat sits 0")


def test_the_columns_of_tagged_sentences_are_taken_again(facts, tmp_path):
    sentence = ["EU NNP B-ORG x", "rejects VBZ O y", "German JJ B-MISC z", ""]
    like = facts(sentence * 10, columns={"token": 1, "tag": 3})
    few = Examples.read(written(tmp_path, *sentence), kind="tags", like=like)
    assert few[0].tags == ["B-ORG", "O", "B-MISC"]
    lines = ["He lives in Paris", "They met in Rome"]
    found = Examples.read(written(tmp_path, *lines), unlabelled=True, like=like)
    assert [row.text for row in found] == lines


@pytest.mark.parametrize(
    ("learned", "lines", "tokens"),
    [
        (["EU B-ORG", "rejects O", ""], ["Peter", "lives", "", "Rome", "."], [["Peter", "lives"], ["Rome", "."]]),
        (["口0 B", "腔1 O", "好0 O", ""], ["北0", "京1", "大0"], [["北", "京", "大"]]),
    ],
)
def test_words_without_tags_are_sentences_to_be_tagged(facts, tmp_path, learned, lines, tokens):
    found = Examples.read(written(tmp_path, *lines), unlabelled=True, like=facts(learned * 10))
    assert [row.tokens for row in found] == tokens


def test_verses_are_not_taken_for_words_without_tags(facts, tmp_path):
    verses = ["床前明月光", "疑是地上霜", "", "举头望明月", "低头思故乡"]
    found = Examples.read(written(tmp_path, *verses), unlabelled=True, like=facts(["口 B", "腔 O", ""] * 10))
    assert [row.text for row in found] == [verse for verse in verses if verse]


def test_a_file_that_lies_otherwise_is_told_by_its_own_content(facts, tmp_path):
    lines = ["label\ttext", "DESC:def\tWhat is a mole ?", "HUM:ind\tWho was Galileo ?"]
    few = Examples.read(written(tmp_path, *lines), kind="texts", like=facts(QUESTIONS))
    assert few[0] == ("What is a mole ?", "DESC:def")
    with pytest.raises(TextError, match="not a table"):
        Examples.read(written(tmp_path, "Just a line .", "And another ."), kind="texts", like=facts(QUESTIONS))


PLAIN = [
    ["很好"] * 50,
    ["word"] * 50,
    ["3"] * 50,
    ["Good, quick delivery", "Bad, slow delivery"] * 25,  # one comma in each
    [f"room {i}, floor {i % 7}" for i in range(50)],
    ['"never again", he said'] * 50,
]


@pytest.mark.parametrize("lines", PLAIN)
def test_a_text_per_line_is_read_whatever_the_lines_look_like(lines, tmp_path):
    found = Examples.read(written(tmp_path, *lines), kind="texts", unlabelled=True)
    assert [row.text for row in found] == lines


def test_numbers_in_front_of_texts_are_labels_only_if_the_model_has_them(facts, tmp_path):
    lines = ["5 stars", "4 stars", "1 star for the breakfast"] * 20
    words = facts([f"room number {n}\t{('good', 'bad')[n % 2]}" for n in range(40)])
    found = Examples.read(written(tmp_path, *lines), kind="texts", unlabelled=True, like=words)
    assert [row.text for row in found] == lines
    stars = facts([f"room number {n}\t{(5, 4, 1)[n % 3]}" for n in range(60)])
    found = Examples.read(written(tmp_path, *lines), kind="texts", unlabelled=True, like=stars)
    assert [row.text for row in found][:3] == ["stars", "stars", "star for the breakfast"]
