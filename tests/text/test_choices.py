"""Multiple choice: the field's usual files are recognised and read alike, and bad rows are one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from polyseme.data.examples import Choice, Examples
from polyseme.data.training_data import recognise_data
from polyseme.errors import OptionError, TextError

FOUR = ["e0", "e1", "e2", "e3"]
COPA = {"premise": "My body cast a shadow.", "choice1": "The sun rose.", "choice2": "It rained.", "question": "cause"}
ASKED = [{"label": mark, "text": text} for mark, text in zip("ABC", ["x", "y", "z"], strict=True)]
SOCIAL = {"context": "Jan left.", "question": "Why?", "answerA": "x", "answerB": "y", "answerC": "z"}


def jsonl(*rows: Any) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


FILES: dict[str, tuple[str, list[Choice]]] = {
    "copa": (
        jsonl({**COPA, "label": 1, "idx": 0}, {**COPA, "label": 0, "idx": 1}),
        [Choice("My body cast a shadow. cause", ["The sun rose.", "It rained."], right) for right in (1, 0)],
    ),
    "hellaswag": (
        jsonl({"ind": 4, "activity_label": "Roof", "ctx_a": "A man.", "ctx_b": "he", "ctx": "A man. he",
               "split_type": "indomain", "label": 3, "endings": FOUR}),
        [Choice("A man. he", FOUR, 3)],
    ),
    "commonsenseqa": (
        jsonl({"answerKey": "B", "id": "1", "question": {"question_concept": "c", "choices": ASKED, "stem": "Where?"}}),
        [Choice("Where?", ["x", "y", "z"], 1)],
    ),
    "arc, its own labels numbers": (
        jsonl({"id": "1", "answerKey": "3", "question": {
            "stem": "Why?", "choices": [{"text": text, "label": str(n)} for n, text in enumerate("xyz", 1)]}}),
        [Choice("Why?", ["x", "y", "z"], 2)],
    ),
    "arc, labels and texts apart": (
        jsonl({"id": "1", "question": "Why?", "choices": {"text": ["x", "y"], "label": ["A", "B"]}, "answerKey": "B"}),
        [Choice("Why?", ["x", "y"], 1)],
    ),
    "race": (
        jsonl({"answers": ["D", "A"], "options": [FOUR, FOUR[::-1]], "questions": ["Who?", "Say _ ."],
               "article": "Long ago.", "id": "high1.txt"}),
        [Choice("Long ago. Who?", FOUR, 3), Choice("Long ago. Say _ .", FOUR[::-1], 0)],
    ),
    "c3": (
        json.dumps([[["男：你好。", "女：再见。"], [
            {"question": "男的说了什么？", "choice": ["再见", "你好"], "answer": "你好"},
            {"question": "谁先说话？", "choice": ["男的", "女的", "都不是"], "answer": "男的"}], "1-2"]],
            ensure_ascii=False, indent=2),
        [Choice("男：你好。 女：再见。 男的说了什么？", ["再见", "你好"], 1),
         Choice("男：你好。 女：再见。 谁先说话？", ["男的", "女的", "都不是"], 0)],
    ),
    "swag": (
        ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
        '0,v,1,"He, a man, sits. He","He, a man, sits.",He,gold,e0,e1,e2,e3,0\n'
        "1,v,2,She sits. She,She sits.,She,gen,e0,e1,e2,e3,2\n",
        [Choice("He, a man, sits. He", FOUR, 0), Choice("She sits. She", FOUR, 2)],
    ),
    "swag without startphrase": (
        "sent1\tsent2\tending0\tending1\tlabel\nShe sits.\tShe\ta\tb\t1\n", [Choice("She sits. She", ["a", "b"], 1)],
    ),
    "storycloze": (
        "InputStoryid,InputSentence1,InputSentence2,InputSentence3,InputSentence4,RandomFifthSentenceQuiz1,"
        "RandomFifthSentenceQuiz2,AnswerRightEnding\nid,A.,B.,C.,D.,good,bad,1\nid,A.,B.,C.,E.,good,bad,2\n",
        [Choice("A. B. C. D.", ["good", "bad"], 0), Choice("A. B. C. E.", ["good", "bad"], 1)],
    ),
    "social iqa, labels from 1": (
        jsonl({**SOCIAL, "label": "1"}, {**SOCIAL, "label": "3"}),
        [Choice("Jan left. Why?", ["x", "y", "z"], right) for right in (0, 2)],
    ),
    "winogrande": (
        jsonl({"sentence": "The _ fits.", "option1": "a", "option2": "b", "answer": "1"}),
        [Choice("The _ fits.", ["a", "b"], 0)],
    ),
    "reclor": (
        json.dumps([{"context": "c", "question": "q", "answers": FOUR, "label": 1, "id_string": "t"}]),
        [Choice("c q", FOUR, 1)],
    ),
    "c-eval": (
        "id,question,A,B,C,D,answer\n0,一加一得几？,一,二,三,四,B\n",
        [Choice("一加一得几？", ["一", "二", "三", "四"], 1)],
    ),
}  # fmt: skip


def written(folder: Path, text: str) -> Path:
    path = folder / "rows"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", sorted(FILES))
def test_the_usual_files_are_recognised_and_read(name: str, tmp_path: Path) -> None:
    text, rows = FILES[name]
    path = written(tmp_path, text)
    examples = Examples.read(path)
    assert (examples.kind, list(examples)) == ("choices", rows)
    assert list(Examples.read(path, kind="choices")) == rows
    told = recognise_data(path)
    assert told is not None
    assert told.kind == "choices"


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"context": "c d", "question": "q", "answers": {"text": ["c", "c d"], "answer_start": [0, 0]}}, "texts"),
        ({"question": "q", "answers": ["all", "right"]}, "texts"),
        ({"premise": "p", "hypothesis": "h", "label": "neutral"}, "pairs"),
        ({"question1": "p", "question2": "h", "label": "0"}, "pairs"),
    ],
)
def test_files_of_other_kinds_are_not_taken_for_choices(row: dict, kind: str, tmp_path: Path) -> None:
    assert Examples.read(written(tmp_path, jsonl(row)), unlabelled=True).kind == kind


def test_bad_rows_are_told_with_their_lines_or_skipped(tmp_path: Path) -> None:
    good = {**COPA, "label": 0}
    without = {name: value for name, value in good.items() if name != "choice2"}
    path = written(tmp_path, jsonl(good, without, {**good, "label": 2}, COPA, {"choice1": "a", "choice2": "b"}, good))
    with pytest.raises(TextError) as raised:
        Examples.read(path)
    told = str(raised.value)
    assert "\n" not in told
    for part in (
        "4 of 6 rows", "line 2 has fewer than two alternatives", "line 4 has no answer", "line 5 has no context",
        "line 3 has the answer '2', which is none of its 2 alternatives",
    ):  # fmt: skip
        assert part in told
    assert len(Examples.read(path, errors="skip")) == 2


def test_a_file_without_answers_can_only_be_predicted(tmp_path: Path) -> None:
    path = written(tmp_path, jsonl(COPA))
    with pytest.raises(TextError, match="they can only be predicted"):
        Examples.read(path)
    for row in (COPA, {**COPA, "label": -1}, {**COPA, "label": None}, {**COPA, "label": ""}):
        (found,) = Examples.read(written(tmp_path, jsonl(row)), unlabelled=True)
        assert found.right == -1


def test_columns_can_be_named_and_are_remembered(tmp_path: Path) -> None:
    path = written(tmp_path, "said\tend1\tend2\tbest\nA\tb\tc\t1\nD\te\tf\t2\n")
    with pytest.raises(TextError, match="no choices between alternatives"):
        Examples.read(path, kind="choices")
    named = {"context": "said", "alternatives": "end", "answer": "best"}
    examples = Examples.read(path, columns=named)
    assert list(examples) == [Choice("A", ["b", "c"], 0), Choice("D", ["e", "f"], 1)]
    short = written(tmp_path, "said\tend1\tend2\tbest\nG\th\ti\t1\n")
    assert Examples.read(short, kind="choices", like=examples.facts)[0] == Choice("G", ["h", "i"], 0)
    bare = written(tmp_path, "said\tend1\tend2\nG\th\ti\n")
    assert Examples.read(bare, kind="choices", like=examples.facts, unlabelled=True)[0] == Choice("G", ["h", "i"])
    with pytest.raises(OptionError, match="no field 'says'; its fields are said, end1, end2"):
        Examples.read(path, columns={**named, "context": "says"})


def test_answers_of_a_short_file_are_counted_as_those_before(tmp_path: Path) -> None:
    first = Examples.read(written(tmp_path, FILES["social iqa, labels from 1"][0]))
    short = written(tmp_path, jsonl({**SOCIAL, "label": "1"}))
    assert Examples.read(short, kind="choices", like=first.facts)[0].right == 0


def test_facts_say_how_many_alternatives_there_are_and_where_the_right_one_is() -> None:
    rows = [("ab", ["c", "def"], 1), ("abcd", ["g", "h", "i"], 0), ("", ["", "j"], 1)]
    facts = Examples.of(rows).facts
    assert facts["alternatives"] == {"2": 2, "3": 1}
    assert facts["right_at"] == {"1": 1, "2": 2}
    assert facts["mean_characters"] == {"context": 2.0, "alternative": round(8 / 7, 1)}


def test_questions_about_one_passage_stay_together_and_the_file_does_not_matter(tmp_path: Path) -> None:
    race = [
        {"answers": ["A"] * 3, "options": [FOUR] * 3, "questions": ["a", "b", "c"], "article": f"p{n}"}
        for n in range(6)
    ]
    read = Examples.read(written(tmp_path, jsonl(*race)))
    for train, test in read.folds(3):
        passages = [{row.context[:2] for row in part} for part in (train, test)]
        assert not passages[0] & passages[1]
        assert len(test) == 6
    of_rows = Examples.of(list(read), segment=read.segmentation)
    assert of_rows.fingerprint == read.fingerprint
    other = [*list(read)[:-1], Choice(*read[-1][:2], 1)]
    assert Examples.of(other, segment=read.segmentation).fingerprint != read.fingerprint


@pytest.mark.parametrize("row", [("a", ["b"], 0), ("a", ["b", "c"], 2), ("a", [], -1), (["a"], ["b", "c"], 0)])
def test_rows_in_memory_are_checked(row: Any) -> None:
    with pytest.raises(TextError, match="row 0"):
        Examples.of([row], kind="choices")
