"""Labelled examples are read as they lie on disk, whatever the table, and what is wrong with them is told by line."""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyseme.data.examples import Examples, LabelledText, Pair, Passage
from polyseme.errors import OptionError, PolysemeError, TextError

from .conftest import read, written

TEXTS = [
    ("房间很干净。", "1"),
    ("早餐太差，不会再来", "0"),
    ('He said "no"', "0"),
    ("好，\t？".replace("\t", " "), "1"),
]
TSV = "label\ttext_a\n" + "".join(f"{label}\t{text}\n" for text, label in TEXTS)


def as_csv(rows: list[tuple[str, ...]]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


SAME_ROWS = {
    "tsv with a header": TSV,
    "tsv without": TSV.split("\n", 1)[1],
    "tsv, text first": "".join(f"{text}\t{label}\n" for text, label in TEXTS),
    "a byte order mark and CRLF": b"\xef\xbb\xbf" + TSV.replace("\n", "\r\n").encode(),
    "gb18030": TSV.encode("gb18030"),
    "utf-16": TSV.encode("utf-16"),
    "gzip": gzip.compress(TSV.encode()),
    "csv": as_csv([("text", "label"), *TEXTS]),
    "csv without a header": as_csv(TEXTS),
    "bars": "".join(f"id-{n}||{text}||{label}\n" for n, (text, label) in enumerate(TEXTS)),
    "jsonl": "".join(json.dumps({"id": 7, "sentence": text, "label": int(label)}) + "\n" for text, label in TEXTS),
    "a json array": json.dumps([{"content": text, "label": label} for text, label in TEXTS], indent=2),
    "label first": "".join(f"{label} {text}\n" for text, label in TEXTS),
    "fastText": "".join(f"__label__{label} {text}\n" for text, label in TEXTS),
    "blank lines between": TSV.replace("\n", "\n\n"),
    "no newline at the end": TSV.rstrip("\n"),
}


@pytest.mark.parametrize("form", SAME_ROWS)
def test_the_same_rows_are_read_from_every_form_of_table(tmp_path: Path, form: str) -> None:
    examples = read(tmp_path, SAME_ROWS[form])
    assert list(examples) == [LabelledText(text, label) for text, label in TEXTS]
    assert (examples.kind, examples.labels, examples.scored) == ("texts", ["0", "1"], False)
    assert examples.facts["labels"] == {"0": 2, "1": 2}
    assert examples.facts["mean_characters"] == {"text": round(sum(len(text) for text, _ in TEXTS) / 4, 1)}


def test_the_fingerprint_is_of_the_content_and_of_nothing_else(tmp_path: Path) -> None:
    prints = {read(tmp_path, data).fingerprint for data in SAME_ROWS.values()}
    assert prints == {Examples.of(TEXTS).fingerprint}
    others = [
        Examples.of(TEXTS[::-1]),
        Examples.of([*TEXTS[:3], ("好，！", "1")]),
        Examples.of([*TEXTS[:3], (TEXTS[3][0], "0")]),
        Examples.of(TEXTS, segment="char"),
        Examples.of(TEXTS).subset([0, 1, 2]),
        Examples.of([(text, text, label) for text, label in TEXTS]),
    ]
    assert len({other.fingerprint for other in others} | prints) == len(others) + 1


@settings(max_examples=30)
@given(rows=st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff"),
                                       min_size=1), st.sampled_from("ab")), min_size=1))  # fmt: skip
def test_any_text_comes_back_from_csv_and_jsonl(tmp_path_factory: pytest.TempPathFactory, rows: Any) -> None:
    folder = tmp_path_factory.getbasetemp()
    columns = {"text": "text", "label": "label"}
    table = read(folder, as_csv([("text", "label"), *rows]), columns=columns, format="csv", encoding="utf-8")
    records = "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows)
    kept = [row for row in rows if row[0].strip() or row[1]]
    assert [tuple(row) for row in table] == [tuple(row) for row in read(folder, records)] == kept


@pytest.mark.parametrize(
    ("header", "columns", "expected"),
    [
        ("id\tsentence1\tsentence2\tlabel", None, {"first": "sentence1", "second": "sentence2", "label": "label"}),
        ("Quality\t#1 ID\t#1 String\t#2 String", None,
         {"first": "#1 String", "second": "#2 String", "label": "Quality"}),
        ("pair_ID\tsentence_A\tsentence_B\trelatedness_score", None,
         {"first": "sentence_A", "second": "sentence_B", "label": "relatedness_score"}),
        ("id\tpremise\thypo\tlabel", None, {"first": "premise", "second": "hypo", "label": "label"}),
        ("编号\t甲\t乙\t相似度", None, {"first": "甲", "second": "乙", "label": "相似度"}),
        ("x\ty\tz\tw", {"first": "y", "second": "z", "label": "w"}, {"first": "y", "second": "z", "label": "w"}),
        ("1\t一\t二\t3", {"first": 2, "second": 3, "label": 4}, {"first": 2, "second": 3, "label": 4}),
        ("1\t一\t二\t3", {"first": "2", "second": "3", "label": "4"}, {"first": 2, "second": 3, "label": 4}),
    ],
)  # fmt: skip
def test_columns_go_by_name_or_number_and_are_shown(tmp_path: Path, header: str, columns: Any, expected: Any) -> None:
    rows = "1\t你好\t您好\t4\n2\t再见\t走了\t2\n"
    examples = read(tmp_path, f"{header}\n{rows}", columns=columns)
    assert examples.facts["columns"] == expected
    if expected["label"] in ("label", "relatedness_score", "w", 4):
        assert [row[:2] for row in examples][-2:] == [("你好", "您好"), ("再见", "走了")]


@pytest.mark.parametrize("header", ["文本\t標籤", "評論\t類別", "微博中文内容\t情感倾向", "whatever\tlabel"])
def test_a_named_label_is_one_even_if_each_row_has_another(tmp_path: Path, header: str) -> None:
    examples = read(tmp_path, f"{header}\n很好\t-1\n不好\t0\n还行\t1\n")
    assert list(examples) == [LabelledText("很好", "-1"), LabelledText("不好", "0"), LabelledText("还行", "1")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": {"text": "sentense", "label": "label"}}, "no column 'sentense'; did you mean 'sentence'"),
        ({"columns": {"text": 9, "label": 1}}, "3 columns, numbered from 1; not 9"),
        ({"columns": {"text": 0, "label": 1}}, "3 columns, numbered from 1; not 0"),
        ({"columns": {"txt": 1}}, "columns are texts: text, label"),
        ({"kind": "words"}, "kind must be one of texts, pairs, tags, spans, choices"),
        ({"kind": "tags", "columns": {"tag": "label"}}, "must be numbers from 1"),
        ({"kind": "spans"}, "SQuAD"),
        ({"errors": "ignore"}, "'errors' must be one of strict, replace, skip"),
        ({"colums": {"text": 1}}, "unknown option 'colums'; did you mean 'columns'"),
        ({"encoding": "utf-9"}, "no text encoding"),
    ],
)
def test_a_wrong_option_is_answered_in_one_line(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(PolysemeError, match=message) as error:
        read(tmp_path, "id\tsentence\tlabel\n1\tgood film\tpos\n2\tbad film\tneg\n3\tno film\tneg\n", **options)
    assert "\n" not in str(error.value)


# ---- what is wrong with a file


def test_bad_rows_are_told_together_before_anything_is_learned(tmp_path: Path) -> None:
    lines = [f"{n}\ttext number {n}\t{n % 2}" for n in range(1, 101)]
    lines[6] = "7\tno label"
    lines[19] = "20\tempty label\t"
    lines[29] = "30\ttoo\tmany\t1"
    with pytest.raises(TextError) as error:
        read(tmp_path, "id\ttext\tlabel\n" + "\n".join(lines))
    assert str(error.value) == (
        f"{tmp_path / 'a.txt'}: 3 of 100 rows cannot be read: line 8 has 2 columns instead of 3; line 21 has no label; "
        "line 31 has 4 columns instead of 3; correct them, or skip them with errors='skip'"
    )
    examples = read(tmp_path, "id\ttext\tlabel\n" + "\n".join(lines), errors="skip")
    assert len(examples) == 97
    assert examples.facts["unreadable"] == 3


def test_of_many_bad_rows_ten_are_named(tmp_path: Path) -> None:
    lines = ["text\tlabel", *(f"row {n}\t{n % 2}" if n % 8 else "row" for n in range(1, 201))]
    with pytest.raises(
        TextError, match=r"25 of 200 rows .*line 9 .*line 81 has 1 column.*; and 15 more; correct them"
    ) as error:
        read(tmp_path, "\n".join(lines))
    assert str(error.value).count("has 1 column") == 10


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("text\tlabel\n", "no row to train on"),
        ("只有一列\n没有标签\n什么都没有\n", "is not a table of labelled texts"),
        ("sentence\tkeywords\n一\t二\n三\t四\n", "no column of labels: its columns are sentence, keywords"),
        (
            "你好\thello\n再见\tbye\n谢谢\tthanks\n早\tmorning\n",
            "two texts per row and no label, as parallel text does",
        ),
        ('{"text": "a", "label": "x"}\n{"text": 5, "label": "x"}\n' * 20, "20 of 40 rows .*line 2 has no text"),
        ('{"text": "a", "label": "x"}\n' * 20 + '{"text": "b"\n', "line 21 is not JSON"),
        ('{"text": "a", "label": "x"}\n' * 20 + "[1, 2]\n", r"line 21 is not a JSON object: \[1, 2\]"),
        ('{"text": "a", "label": ["x"]}\n' * 3, "line 1 has no label"),
        ('text,label\n"a,b",x\n"c"d,y\n"e",x\n' + "f,x\n" * 40, "line 3 is not CSV"),
        ('text,label\n"a",x\n' * 20 + '"never closed,x\nb,y\n', "line 41 is not CSV: unexpected end of data"),
        ("a\tb\tx\n" * 9 + "1\n", "columns={'text': 1, 'label': 2}"),
    ],
)
def test_what_cannot_be_learned_from_is_said_in_one_line(tmp_path: Path, data: str, message: str) -> None:
    with pytest.raises(TextError, match=message) as error:
        read(tmp_path, data)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_or_no_text_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(TextError, match="does not exist"):
        Examples.read(tmp_path / "none.tsv")
    with pytest.raises(TextError, match="is a PDF, not text"):
        read(tmp_path, b"%PDF-1.7\n\xe2\xe3\xcf\xd3\n")
    with pytest.raises(TextError, match="there are no labelled examples"):
        Examples.read(written(tmp_path, "nothing but text").parent)


def test_bad_bytes_are_refused_or_replaced(tmp_path: Path) -> None:
    data = TSV.encode() * 30 + b"0\tbad \xff byte\n"
    with pytest.raises(TextError, match="byte 0xff"):
        read(tmp_path, data, columns={"text": "text_a", "label": "label"})
    rows = read(tmp_path, TSV.encode() + b"0\tbad \xff byte\n", errors="replace", encoding="utf-8")
    assert rows[-1] == LabelledText("bad \ufffd byte", "0")


@pytest.mark.parametrize("data", [b"\x00\xff" * 99, b"[" * 9999, b'{"a":' * 9999, b'"' * 300_000, b"\t\n" * 99,
                                  b'{"data": [' + b"{" * 99, b"||\n" * 9, b",\n,\n,", b"1 \n0 \n"])  # fmt: skip
def test_hostile_files_get_our_error(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(PolysemeError) as error:
        read(tmp_path, data)
    assert len(str(error.value)) < 1000
    assert "\n" not in str(error.value)


# ---- labels


def test_labels_without_gold_are_told_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    labels = ["neutral", "-", "entailment", None, "contradiction"]
    records = [{"premise": f"p{n}", "hypothesis": f"h{n}", "gold_label": label} for n, label in enumerate(labels)]
    with caplog.at_level(logging.WARNING):
        examples = read(tmp_path, "".join(json.dumps(record) + "\n" for record in records))
    assert [row.label for row in examples if isinstance(row, Pair)] == ["neutral", "entailment", "contradiction"]
    assert examples.labels == ["contradiction", "entailment", "neutral"]
    assert examples.facts["without_gold_label"] == 2
    assert "2 rows without a gold label are skipped" in caplog.text


def test_plus_and_minus_are_two_classes(tmp_path: Path) -> None:
    assert read(tmp_path, "good film\t+\nbad film\t-\nfine film\t+\n").labels == ["+", "-"]


@pytest.mark.parametrize(
    ("labels", "kind", "scored"),
    [
        (["5.0", "2.615", "0"], "pairs", True),
        (["0.5", "0.25", "1"], "texts", True),
        (["0", "1", "2", "3", "4", "5"], "pairs", True),  # graded similarity
        (["0", "1", "2", "3", "4"], "texts", False),  # stars
        (["0", "1", "2"], "pairs", False),  # inference by number
        (["0.0", "1.0"], "pairs", False),
        (["1e3x", "2"], "texts", False),
    ],
)
def test_numbers_are_scores_where_they_grade(tmp_path: Path, labels: list[str], kind: str, scored: bool) -> None:
    texts = ("some text", "another text")[: 1 if kind == "texts" else 2]
    rows = [("\t".join([*(f"{text} {n}" for text in texts), label])) for n, label in enumerate(labels * 9)]
    examples = read(tmp_path, "\n".join(rows))
    assert (examples.kind, examples.scored) == (kind, scored)
    assert [row[-1] for row in examples] == [float(label) if scored else label for label in labels * 9]
    assert read(tmp_path, "\n".join(rows), scored=False).labels == sorted(set(labels), key=lambda x: x)
    assert examples.targets.dtype == (np.float64 if scored else np.int64)


def test_a_score_that_is_no_number_is_a_bad_row(tmp_path: Path) -> None:
    rows = [f"first text {n}\tsecond text {n}\t{n / 7:.2f}" for n in range(40)]
    rows[4], rows[11], rows[30] = (row.rsplit("\t", 1)[0] + "\t" + bad for row, bad in zip(
        (rows[4], rows[11], rows[30]), ("nan", "inf", "?"), strict=True))  # fmt: skip
    with pytest.raises(
        TextError, match=r"3 of 40 rows .*line 5 has the score 'nan', which is not a finite number; line 12"
    ):
        read(tmp_path, "\n".join(rows))
    examples = read(tmp_path, "\n".join(rows), errors="skip")
    assert len(examples) == 37
    assert examples.facts["scores"]["max"] == round(39 / 7, 2)


def test_classes_that_are_numbers_stand_in_their_order(tmp_path: Path) -> None:
    data = "".join(f"text {n}\t{n % 12}\n" for n in range(120))
    assert read(tmp_path, data).labels == [str(n) for n in range(12)]


def test_labels_in_parts_may_be_cut(tmp_path: Path) -> None:
    data = "DESC:manner How ?\nENTY:animal What ?\nDESC:def What is it ?\n" * 3
    assert read(tmp_path, data).labels == ["DESC:def", "DESC:manner", "ENTY:animal"]
    assert read(tmp_path, data, label_parts=1).labels == ["DESC", "ENTY"]


def test_texts_without_labels_are_taken_where_that_is_asked_for(tmp_path: Path) -> None:
    pairs = read(tmp_path, '{"sentence1": "甲", "sentence2": "乙"}\n', unlabelled=True)
    assert (list(pairs), pairs.labelled) == ([Pair("甲", "乙", "")], False)
    texts = read(tmp_path, "第一行\n第二行，有逗号\n", unlabelled=True)
    assert list(texts) == [LabelledText("第一行", ""), LabelledText("第二行，有逗号", "")]


# ---- rows at hand, and parts


def test_rows_at_hand_are_examples_too() -> None:
    assert Examples.of([("a", 0.5), ("b", 1.0)]).scored
    assert Examples.of([("a", 1), ("b", 0)]).labels == ["0", "1"]
    assert Examples.of([(["我", "们"], ["B", "E"])]).kind == "tags"
    for rows, message in (
        ([], "no rows"),
        ([("a",)], "a row must be"),
        ([("a", "b"), ("a", "b", "c")], "row 1 is not 1 text and a label"),
        ([(["a"], ["B", "E"])], "row 0: 1 words and 2 tags"),
        ([("a", float("nan"))], "row 0 has the score 'nan'"),
    ):
        with pytest.raises(TextError, match=message):
            Examples.of(rows)


def many(n: int = 200) -> Examples:
    return Examples.of([(f"text {i}", "common" if i % 10 else "rare") for i in range(n)] + [("alone", "once")])


def test_a_split_keeps_the_share_of_every_class_and_what_is_seen_once_to_train_on() -> None:
    train, test = many().split(0.2, seed=3)
    assert Counter(row.label for row in test) == {"common": 36, "rare": 4}  # type: ignore[union-attr]
    assert sorted(map(str, [*train, *test])) == sorted(map(str, many()))
    assert train.labels == test.labels == ["common", "once", "rare"]
    again, other = many().split(0.2, seed=3), many().split(0.2, seed=4)
    assert again[1].fingerprint == test.fingerprint != other[1].fingerprint
    assert test.facts["rows"] == 40


def test_folds_test_every_row_once_and_spread_each_class() -> None:
    tested: list[Any] = []
    for train, test in many().folds(5, seed=1):
        assert len(train) + len(test) == 201
        counts = Counter(row.label for row in test)  # type: ignore[union-attr]
        assert abs(counts["rare"] - 4) <= 1
        assert abs(counts["common"] - 36) <= 1
        tested += test
    assert sorted(map(str, tested)) == sorted(map(str, many()))
    with pytest.raises(OptionError, match="folds must be between 2 and 3"):
        next(Examples.of([("a", "x"), ("b", "x"), ("c", "y")]).folds(4))


def test_questions_on_one_passage_stay_together() -> None:
    rows = [Passage(f"passage {i // 5}", f"question {i}", [], str(i)) for i in range(100)]
    train, test = Examples.of(rows).split(0.25)
    assert {row.passage for row in train}.isdisjoint(row.passage for row in test)  # type: ignore[union-attr]
    assert len(test) == 25


@pytest.mark.parametrize("share", [0, 1, -1, 2])
def test_a_share_is_between_none_and_all(share: float) -> None:
    with pytest.raises(OptionError, match="between 0 and 1"):
        many().split(share)
    with pytest.raises(OptionError, match="1 rows cannot be split"):
        Examples.of([("a", "x")]).split(0.5)


def test_a_subset_is_of_these_rows_in_this_order() -> None:
    examples = many()
    chosen = random.Random(5).sample(range(len(examples)), 20)
    assert list(examples.subset(chosen)) == [examples[i] for i in chosen]
    assert list(examples.subset(np.array(chosen)).subset([3, 1])) == [examples[chosen[3]], examples[chosen[1]]]
