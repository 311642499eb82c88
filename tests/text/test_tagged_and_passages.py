"""Tagged sentences and passages with questions are read as they lie on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from polyseme.data.examples import Answer, Examples, Passage, Tagged
from polyseme.data.tables import items
from polyseme.errors import TextError

from .conftest import read

# ---- tagged sentences


@pytest.mark.parametrize(
    "data",
    [
        "高 B-NAME\n勇 E-NAME\n： O\n\n男 O\n",
        "高\tB-NAME\n勇\tE-NAME\n：\tO\n\n\n男\tO\n\n",
        "高0\tB-NAME\n勇1\tE-NAME\n：0\tO\n\n男0\tO\n",
        "zh:高\tB-NAME\nzh:勇\tE-NAME\nzh:：\tO\n\nzh:男\tO\n",
        "-DOCSTART- -X- O\n\n高 NR B-NAME\n勇 NR E-NAME\n： PU O\n\n男 NN O\n",
    ],
)
def test_tagged_sentences_are_read_from_columns(tmp_path: Path, data: str) -> None:
    examples = read(tmp_path, data)
    assert list(examples) == [Tagged(["高", "勇", "："], ["B-NAME", "E-NAME", "O"]), Tagged(["男"], ["O"])]
    assert (examples.kind, examples.labels) == ("tags", ["B-NAME", "E-NAME", "O"])
    assert examples.facts["tokens"] == 4
    assert examples.facts["columns"]["tag"] == (3 if "-DOCSTART-" in data else 2)
    assert examples.segmentation.method == "char"


def test_places_behind_characters_count_on_past_nine_and_may_be_wrong_once(tmp_path: Path) -> None:
    word = "".join(f"{sign}{place}\tO\n" for place, sign in enumerate("abcdefghijkl1"))
    data = (word + "30\tO\n41\tO\n\n") * 20 + "照0\tO\n越2\tO\n"
    examples = read(tmp_path, data)
    assert examples[0] == Tagged([*"abcdefghijkl1", "3", "4"], ["O"] * 15)
    assert examples[-1] == Tagged(["照", "越"], ["O", "O"])


def test_other_columns_and_parts_of_speech(tmp_path: Path) -> None:
    data = "# sent_id = 1\n1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n2\tdog\tdog\tNOUN\tNN\t_\t0\troot\t_\t_\n\n"
    assert read(tmp_path, data * 5)[0] == Tagged(["The", "dog"], ["DET", "NOUN"])
    assert read(tmp_path, data, kind="tags", columns={"tag": 5})[0] == Tagged(["The", "dog"], ["DT", "NN"])
    assert read(tmp_path, data * 5).segmentation.method == "auto"


def test_a_bad_line_spoils_its_sentence_only(tmp_path: Path) -> None:
    data = "高 B-NAME\n勇 E-NAME\n\n" * 20 + "男 O\n女\n\n他 O\n"
    with pytest.raises(TextError, match="1 of 22 rows cannot be read: line 62 has 1 column instead of 2"):
        read(tmp_path, data)
    assert len(read(tmp_path, data, errors="skip")) == 21


# ---- passages


def squad(*questions: dict[str, Any], context: str = "北京是中国的首都。") -> str:
    return json.dumps(
        {"version": "1", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": questions}]}]}
    )


def test_passages_keep_their_questions_and_answers(tmp_path: Path) -> None:
    asked = {"question": "首都是？", "id": "q1", "answers": [{"text": "北京", "answer_start": 0}]}
    none = {"question": "人口？", "id": "q2", "answers": [], "is_impossible": True, "plausible_answers": [{}]}
    passage = "北京是中国的首都。"
    expected = [Passage(passage, "首都是？", [Answer("北京", 0)], "q1"), Passage(passage, "人口？", [], "q2")]
    examples = read(tmp_path, squad(asked, none))
    assert list(examples) == expected == list(Examples.of(expected))
    assert examples.facts["answered"] == 1
    original = [{"context_text": passage, "qas": [{"query_text": "首都是？", "query_id": "q1", "answers": ["北京"]}]}]
    assert list(read(tmp_path, json.dumps(original))) == expected[:1]


def test_questions_of_which_no_answer_is_said_are_not_unanswerable(tmp_path: Path) -> None:
    bare = {"question": "首都是？", "id": "q1"}
    with pytest.raises(TextError, match="questions without answers"):
        read(tmp_path, squad(bare, bare))
    assert [row.question for row in read(tmp_path, squad(bare), unlabelled=True)] == ["首都是？"]  # type: ignore[union-attr]
    assert not read(tmp_path, squad({**bare, "answers": []}))[0].answers  # type: ignore[union-attr]


def test_an_answer_is_looked_for_where_the_file_is_wrong(tmp_path: Path) -> None:
    off = {"question": "何？", "id": "q", "answers": [{"text": "鱼", "answer_start": 5}]}
    lost = {"question": "何？", "id": "lost", "answers": [{"text": "鸟", "answer_start": 0}]}
    examples = read(tmp_path, squad(off, context="鱼在水中游鸟鱼"))
    assert examples[0].answers == [Answer("鱼", 6)]  # type: ignore[union-attr]
    assert examples.facts["moved_answers"] == 1
    with pytest.raises(TextError, match=r"1 of 2 rows .*question lost whose answer '鸟' is not in the passage"):
        read(tmp_path, squad(off, lost, context="鱼在水中游"))


@pytest.mark.parametrize("size", [1, 2, 7, 100, 10**6])
def test_json_is_read_item_by_item_however_it_is_cut(size: int) -> None:
    value = [{"a": [1, 2.5, '逗,号\\"]']}, 12345, "s", [[]], None]
    for text in (json.dumps(value, indent=1), json.dumps({"v": {"data": [0]}, "data": value, "z": 1}), "[12345,\n6]"):
        chunks = [text[start : start + size] for start in range(0, len(text), size)]
        expected = json.loads(text)
        assert [item for _, item in items(chunks, "x")] == (
            expected["data"] if isinstance(expected, dict) else expected
        )
    assert [line for line, _ in items(["[\n1,\n\n", "2]"], "x")] == [2, 4]
    with pytest.raises(TextError, match="x: line 3 is not JSON"):
        list(items(["[1,\n2,\n", "oops]"], "x"))
