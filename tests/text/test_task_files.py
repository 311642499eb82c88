"""Published data sets are recognised as they lie: kind, columns, and every row as the csv and json modules read it."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from polyseme.data.examples import Examples

# file → kind, rows, classes (0: scores or spans), and where a row has its texts and its label
TABLES: dict[str, tuple[str, int, int, Any]] = {
    "chnsenticorp/train.tsv": ("texts", 9600, 2, ("text_a", "label")),
    "cola/train.tsv": ("texts", 7250, 2, (3, 1)),
    "mrpc/msr_paraphrase_train.txt": ("pairs", 4076, 2, ("#1 String", "#2 String", "Quality")),
    "rte/train.tsv": ("pairs", 2490, 2, ("sentence1", "sentence2", "label")),
    "sick/SICK_train.txt": ("pairs", 4500, 0, ("sentence_A", "sentence_B", "relatedness_score")),
    "lcqmc/dev.tsv": ("pairs", 8802, 2, (0, 1, 2)),
    "thucnews_short/dev.txt": ("texts", 10000, 10, (0, 1)),
    "sts12-16/2012/MSRpar.test.tsv": ("pairs", 750, 0, (1, 2, 0)),
    "sts12-16/2014/tweet-news.test.tsv": ("pairs", 750, 0, (1, 2, 0)),
    "stsb/stsb-en-train.csv": ("pairs", 5749, 0, (0, 1, 2)),
    "stsb_zh_cnsd/cnsd-sts-train.txt": ("pairs", 5231, 0, (1, 2, 3)),
    "fewclue/bustm/train_few_all.json": ("pairs", 160, 2, ("sentence1", "sentence2", "label")),
    "fewclue/tnews/train_few_all.json": ("texts", 1185, 15, ("sentence", "label")),
    "ocnli/train.3k.json": ("pairs", 2994, 3, ("sentence1", "sentence2", "label")),
}


def independent_rows(path: Path, columns: tuple[str | int, ...]) -> list[tuple[str, ...]]:
    """The rows of the same file, read with the csv and json modules only."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        if path.suffix == ".json":
            records: list[Any] = [json.loads(line) for line in file]
        elif "cnsd" in path.name:
            records = [line.rstrip("\n").split("||") for line in file]
        elif path.suffix == ".csv":
            records = list(csv.reader(file))
        else:
            records = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
            if isinstance(columns[0], str):
                records = [dict(zip(records[0], row, strict=True)) for row in records[1:]]
    # A byte order mark within a text is dropped, as from any text.
    return [tuple(str(record[column]).replace("\ufeff", "") for column in columns) for record in records]


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_read_as_the_csv_and_json_modules_read_them(shared_data: Path, name: str) -> None:
    kind, rows, classes, columns = TABLES[name]
    examples = Examples.read(shared_data / "tasks" / name)
    assert (examples.kind, len(examples), len(examples.labels), examples.scored) == (kind, rows, classes, not classes)
    expected = [row for row in independent_rows(shared_data / "tasks" / name, columns) if row[-1] != "-"]
    if examples.scored:
        assert [tuple(row) for row in examples] == [(*texts, float(score)) for *texts, score in expected]
    else:
        assert [tuple(row) for row in examples] == expected
        assert examples.facts["labels"] == Counter(row[-1] for row in expected)


@pytest.mark.parametrize(
    ("name", "rows", "classes", "encoding"),
    [
        ("trec/TREC.train", 5452, 50, "cp1252"),
        ("mr/rt-polarity.all", 10662, 2, "cp1252"),
        ("subj/subj.all", 10000, 2, "cp1252"),
        ("sst2/stsa.binary.train", 6920, 2, "utf-8"),
        ("sst5/stsa.fine.dev", 1101, 5, "utf-8"),
    ],
)
def test_a_label_may_stand_first(shared_data: Path, name: str, rows: int, classes: int, encoding: str) -> None:
    path = shared_data / "tasks" / name
    examples = Examples.read(path)
    assert (examples.kind, len(examples), len(examples.labels)) == ("texts", rows, classes)
    lines = path.read_bytes().decode(encoding).split("\n")
    rows_apart = [line.split(None, 1) for line in lines if line]
    assert [tuple(row) for row in examples] == [(text.strip(), label) for label, text in rows_apart]


def test_trec_has_six_classes_of_questions(shared_data: Path) -> None:
    examples = Examples.read(shared_data / "tasks/trec/TREC.train", label_parts=1)
    assert examples.labels == ["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"]


def test_sick_has_two_labels_to_choose_from(shared_data: Path) -> None:
    path = shared_data / "tasks/sick/SICK_train.txt"
    assert Examples.read(path).facts["other_columns"] == ["pair_ID", "entailment_judgment"]
    columns = {"first": "sentence_A", "second": "sentence_B", "label": "entailment_judgment"}
    assert Examples.read(path, columns=columns).labels == ["CONTRADICTION", "ENTAILMENT", "NEUTRAL"]


@pytest.mark.parametrize(
    ("name", "sentences", "tokens", "classes", "segment"),
    [
        ("weibo_ner/weiboNER_2nd_conll.train", 1350, 73778, 17, "char"),
        ("weibo_ner/weiboNER_2nd_conll.dev", 270, 14509, 17, "char"),
        ("resume_ner/dev.char.bmes", 463, 13890, 26, "char"),
        ("wikiann_en/dev", 10000, 80536, 7, "auto"),
    ],
)
def test_tagged_sets_are_read_line_by_line(
    shared_data: Path, name: str, sentences: int, tokens: int, classes: int, segment: str
) -> None:
    path = shared_data / "tasks" / name
    examples = Examples.read(path)
    facts = examples.facts
    assert (examples.kind, len(examples), facts["tokens"], len(examples.labels)) == ("tags", sentences, tokens, classes)
    assert examples.segmentation.method == segment
    lines = [line.split() for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    tags = [tag for row in examples for tag in row.tags]  # type: ignore[union-attr]
    words = [word for row in examples for word in row.tokens]  # type: ignore[union-attr]
    assert tags == [line[-1] for line in lines]
    assert all(word in line[0] for word, line in zip(words, lines, strict=True))
    if "weibo" in name:
        assert "".join(words[:18]).startswith(("科技全方位资讯智能", "口腔溃疡加上这玩意"))
        assert all(len(word) == 1 or "\ufffd" in word for word in words)
    if "wikiann" in name:
        assert [f"en:{word}" for word in words] == [line[0] for line in lines]


@pytest.mark.parametrize(
    ("name", "questions", "moved"), [("cmrc2018/cmrc2018_trial", 1002, 5), ("xquad/xquad.zh", 1190, 0)]
)
def test_every_answer_stands_in_its_passage(shared_data: Path, name: str, questions: int, moved: int) -> None:
    path = shared_data / "tasks" / f"{name}.json"
    examples = Examples.read(path)
    assert (examples.kind, len(examples), examples.facts.get("moved_answers", 0)) == ("spans", questions, moved)
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    asked = [(p["context"], q["question"], q["id"]) for a in articles for p in a["paragraphs"] for q in p["qas"]]
    assert [(row.passage, row.question, row.id) for row in examples] == asked  # type: ignore[union-attr]
    for row in examples:
        assert all(row.passage[a.start :].startswith(a.text) for a in row.answers)  # type: ignore[union-attr]


@pytest.mark.parametrize(("folder", "rows", "files"), [("sts12-16", 9092, 15), ("sts12-16/2012", 3842, 6)])
def test_a_folder_is_read_whole_without_what_is_no_data(shared_data: Path, folder: str, rows: int, files: int) -> None:
    path = shared_data / "tasks" / folder
    examples = Examples.read(path)
    lines = sum(file.read_bytes().count(b"\n") for file in path.rglob("*.tsv"))
    assert (examples.kind, len(examples), examples.facts["files"]) == ("pairs", rows, files)
    assert rows == lines


def test_sets_without_labels_are_taken_where_that_is_asked_for(shared_data: Path) -> None:
    for name, kind, rows in (("bustm", "pairs", 4251), ("tnews", "texts", 20000)):
        examples = Examples.read(shared_data / f"tasks/fewclue/{name}/unlabeled.json", unlabelled=True)
        assert (examples.kind, len(examples), examples.labelled) == (kind, rows, False)
