"""``polyseme concordance`` for people, for programs and for spreadsheets."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

from polyseme.cli.main import main
from polyseme.text.corpus import Corpus

LINES = ["他打了个电话。", "我打球。", "给她打电话，打电话。", "今天下雨。"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("concordance")
    Corpus.from_sentences(LINES, folder / "corpus", segment="char", documents="line")
    (folder / "raw.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return folder


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def call(*arguments: str, code: int = 0) -> str:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["polyseme", "concordance", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        assert ended.value.code == code, printed
        call.said = printed.err
        return printed.err if code else printed.out

    return call


def test_lines_stand_in_one_column_with_their_source(run) -> None:
    shown = run("corpus", "打 电话").splitlines()
    assert shown[0] == "打 电话  2 hits, 76,923.1 per million words, in 1 of 4 documents, DP 0.62"
    assert shown[1].startswith("start ")
    assert [line.split("【")[1] for line in shown[2:]] == ["打电话】，打电话。", "打电话】。"]
    assert all(line.startswith("#2 ") for line in shown[2:])


def test_what_is_not_shown_is_told_with_the_way_to_see_it(run) -> None:
    assert len(run("corpus", "打", "-n", "3").splitlines()) == 2 + 3
    assert run.said == "3 of 4 shown; -n 4 prints all, -o FILE.csv writes them\n"
    run("corpus", "打")
    assert run.said == ""


def test_json_has_the_facts_and_the_lines(run) -> None:
    found = json.loads(run("corpus", "打", "--mode", "words", "--sort", "right", "--json", "-n", "2"))
    assert (found["count"], found["documents"], found["of_documents"]) == (4, 3, 4)
    assert sum(found["parts"]) == 4
    assert [(line["left"], line["match"], line["right"]) for line in found["lines"]] == [
        ("给她打电话，", "打", "电话。"), ("给她", "打", "电话，打电话。"),
    ]  # fmt: skip


def test_collocates_and_documents_are_tables(run) -> None:
    collocates = json.loads(run("corpus", "打", "--collocates", "--min-count", "2", "--by", "count", "--json"))
    assert [(one["word"], one["count"]) for one in collocates["collocates"]][:2] == [("电", 5), ("话", 4)]
    assert run("corpus", "打", "--documents").splitlines()[2].split() == [
        "document", "source", "count", "tokens", "per", "million",
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "delimiter"), [("hits.csv", ","), ("hits.tsv", "\t")])
def test_all_hits_go_to_a_table_that_spreadsheets_read(run, folder: Path, name: str, delimiter: str) -> None:
    run("corpus", "打", "-o", name)
    with open(folder / name, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, delimiter=delimiter))
    assert [row["left"] + row["match"] + row["right"] for row in rows] == [LINES[0], LINES[1], LINES[2], LINES[2]]
    assert (folder / name).read_bytes().startswith("\ufeff".encode()) == (name == "hits.csv")
    assert "--force" in run("corpus", "球", "-o", name, code=1)
    run("corpus", "球", "-o", name, "--force")
    assert len((folder / name).read_text(encoding="utf-8").splitlines()) == 2


def test_json_lines_and_standard_output(run, folder: Path) -> None:
    run("corpus", "打", "-o", "hits.jsonl", "-n", "3")
    rows = [json.loads(line) for line in (folder / "hits.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["sentence"] for row in rows] == [0, 1, 2]
    assert run("corpus", "球", "-o", "-").splitlines()[1].split("\t")[-5:] == ["", "我打", "球", "。", ""]
    assert run.said == ""  # no file to speak of


def test_raw_text_is_read_as_it_is(run) -> None:
    assert run("raw.txt", "打电话").startswith("打电话  2 hits")


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (("corpus", "(", "--mode", "regex"), "not a regular expression", 1),
        (("corpus", "打", "--tag", "v"), "no tags", 1),
        (("corpus", "打", "-o", "hits.xyz"), "--format", 1),
        (("nothing", "打"), "does not exist", 1),
        (("corpus", "打", "--collocates", "--documents"), "choose one", 2),
    ],
)
def test_mistakes_are_one_line(run, arguments: tuple[str, ...], message: str, code: int) -> None:
    said = run(*arguments, code=code)
    assert message in said
    assert len(said.splitlines()) == 1
