"""A method gets the data it learns from, and another kind is refused in one line that says what to give."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import polyseme
from polyseme.catalog import METHODS, Row
from polyseme.cli.text import info
from polyseme.cli.train import _command, methods
from polyseme.data.examples import Examples
from polyseme.data.parallel import Parallel
from polyseme.data.training_data import FORMS, fingerprint_of, read_data, recognise_data
from polyseme.errors import OptionError, TextError
from polyseme.text.corpus import Corpus

TEXTS = "label\ttext_a\n" + "".join(f"{n % 2}\t第{n}条评论，房间很好。\n" for n in range(30))
PAIRS = "".join(f"第{n}个问题怎么办？\t问题{n}如何解决？\t{n % 2}\n" for n in range(30))
PARALLEL = "".join(f"This is line {n}.\t这是第{n}行。\n" for n in range(30))
TAGS = "高 B-NAME\n勇 E-NAME\n： O\n\n" * 9
SPANS = json.dumps(
    {"data": [{"paragraphs": [{"context": "北京", "qas": [{"question": "何？", "id": "1", "answers": []}]}]}]}
)
CHOICES = json.dumps({"premise": "下雨了。", "choice1": "地湿了。", "choice2": "天晴了。", "label": 0}) + "\n"
NOVEL = "他说，明天去公园。\n她笑了，说：“好。”\n\n第二天下雨了，他们没有去。\n" * 9
FILES = {
    "texts": TEXTS, "pairs": PAIRS, "parallel": PARALLEL, "tags": TAGS, "spans": SPANS, "choices": CHOICES,
    "corpus": NOVEL,
}  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    found = {kind: tmp_path / f"{kind}.txt" for kind in FILES}
    for kind, path in found.items():
        path.write_text(FILES[kind], encoding="utf-8")
    return found


@pytest.mark.parametrize("kind", FILES)
def test_a_file_of_each_kind_is_read_as_that_kind(files: dict[str, Path], kind: str) -> None:
    data = read_data("m", (kind,), files[kind], {})
    assert isinstance(data, {"corpus": Corpus, "parallel": Parallel}.get(kind, Examples))
    assert data.kind == kind  # type: ignore[union-attr]
    assert read_data("m", (kind, "corpus") if kind != "corpus" else ("corpus", "texts"), files[kind], {}).kind == kind  # type: ignore[union-attr]
    assert read_data("m", (kind,), data, {}) is data
    told = recognise_data(files[kind])
    assert (told.kind if told else "corpus") == kind


@pytest.mark.parametrize("wanted", FILES)
@pytest.mark.parametrize("given", FILES)
def test_another_kind_is_refused_with_what_to_give(files: dict[str, Path], wanted: str, given: str) -> None:
    if wanted == given:
        return
    data = read_data("m", (given,), files[given], {})
    with pytest.raises(OptionError) as error:  # the data itself
        read_data("m", (wanted,), data, {})
    assert str(error.value).startswith(f"m is trained on {FORMS[wanted]}, but {data.path} contains ")  # type: ignore[union-attr]
    with pytest.raises((OptionError, TextError)) as error:  # the file
        read_data("m", (wanted,), files[given], {})
    assert "\n" not in str(error.value)
    if given != "corpus":
        assert f"m is trained on {FORMS[wanted]}" in str(error.value)


def test_train_says_what_a_method_learns_from(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"word2vec is trained on text .*contains labelled texts"):
        polyseme.train("word2vec", Examples.of([("一", "0")]))
    with pytest.raises(OptionError, match=r"labelled texts; or use format='text'"):
        polyseme.train("word2vec", files["texts"])
    vectors = polyseme.train("svd", files["texts"], format="text", dim=2, min_count=1)
    assert "text_a" in vectors
    with pytest.raises(TextError, match="a source is a path, not LabelledText"):
        Corpus.build(Examples.of([("一", "0")]))
    with pytest.raises(OptionError, match="is trained on one source"):
        polyseme.train("word2vec", {"a": files["corpus"]})
    with pytest.raises(OptionError, match="unknown option 'columns'"):
        polyseme.train("word2vec", files["corpus"], columns={"text": 1})
    (tmp_path / "a.jsonl").write_text('{"text": "打电话。", "label": "x"}\n' * 20, encoding="utf-8")
    assert "打电话" in polyseme.train("onehot", tmp_path / "a.jsonl", min_count=1)  # a corpus may have other fields


def test_several_sources_go_by_name(files: dict[str, Path]) -> None:
    learns = ("nli=pairs", "translation=parallel")
    given = {"nli": files["pairs"], "translation": files["parallel"]}
    data = read_data("m", learns, given, {"scored": False, "encoding": "utf-8"})
    assert isinstance(data, dict)
    assert [data["nli"].kind, data["translation"].kind] == ["pairs", "parallel"]
    assert fingerprint_of(data) == {name: one.fingerprint for name, one in data.items()}
    with pytest.raises(OptionError, match=r"several named sources: nli=\(labelled pairs"):
        read_data("m", learns, files["pairs"], {})
    with pytest.raises(OptionError, match="no source 'snli'; it is trained on nli="):
        read_data("m", learns, {"snli": files["pairs"]}, {})
    with pytest.raises(OptionError, match="m is trained on labelled pairs"):
        read_data("m", learns, {"nli": files["parallel"]}, {})


def test_the_command_takes_several_sources_by_name(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = "polyseme.words.word2vec:Word2Vec", "polyseme.words.word2vec:Word2VecOptions"
    row = Row("several", "多任务", "sentences", ("nli=pairs", "books=corpus"), *where, 2018, "Paper")
    monkeypatch.setattr("polyseme.catalog.METHODS", (*METHODS, row))
    command = _command(row)
    shown = CliRunner().invoke(command, ["--help"]).output
    assert "NAME=PATH..." in shown
    assert "nli=PATH: labelled pairs of texts" in " ".join(shown.split())
    assert all(flag in shown for flag in ("--columns", "--scored", "--documents", "--segment"))
    done = CliRunner().invoke(command, [str(files["pairs"]), "-o", str(tmp_path / "m")])
    assert isinstance(done.exception, OptionError)
    assert "each given as name=PATH" in str(done.exception)


def test_reading_options_reach_the_reader_and_nothing_that_is_read_already(files: dict[str, Path]) -> None:
    columns = {"text": "text_a", "label": "label"}
    data = read_data("m", ("texts",), files["texts"], {"columns": columns, "segment": "char", "case": "lower"})
    assert isinstance(data, Examples)
    assert (data.segmentation.method, data.segmentation.case) == ("char", "lower")
    with pytest.raises(OptionError, match="leave out segment, or rebuild the corpus with it"):
        read_data("m", ("texts",), data, {"segment": "char"})
    with pytest.raises(OptionError, match="unknown option 'field'"):
        read_data("m", ("texts",), files["texts"], {"field": "text"})


# ---- polyseme info and methods


def told(*arguments: object) -> dict[str, Any]:
    done = CliRunner().invoke(info, [*map(str, arguments), "--json"], catch_exceptions=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("texts", {"rows": 30, "labels": {"0": 15, "1": 15}, "columns": {"text": "text_a", "label": "label"}}),
        ("pairs", {"rows": 30, "labels": {"0": 15, "1": 15}, "columns": {"first": 1, "second": 2, "label": 3}}),
        (
            "parallel",
            {"rows": 30, "sample": [{"source": f"This is line {n}.", "target": f"这是第{n}行。"} for n in range(3)]},
        ),
        ("tags", {"rows": 9, "labels": {"B-NAME": 9, "E-NAME": 9, "O": 9}, "tokens": 27}),
        ("spans", {"rows": 1, "passages": 1, "answered": 0}),
        ("choices", {"rows": 1, "alternatives": {"2": 1}, "right_at": {"1": 1}, "answers": "from 0"}),
        ("corpus", {"kind": "text", "format": "text", "documents": 10}),
    ],
)
def test_info_tells_what_a_file_is(files: dict[str, Path], kind: str, facts: dict[str, Any]) -> None:
    found = told(files[kind])
    assert found["kind"] == {"corpus": "text"}.get(kind, kind)
    assert {name: found[name] for name in facts} == facts
    shown = CliRunner().invoke(info, [str(files[kind])], catch_exceptions=False).stdout
    assert "sample" in shown


def test_info_counts_bad_rows_and_takes_columns_and_formats(files: dict[str, Path]) -> None:
    files["pairs"].write_text(PAIRS + "only one column\n", encoding="utf-8")
    assert told(files["pairs"], "--columns", "first=2,second=1,label=3")["unreadable"] == 1
    assert told(files["pairs"], "--columns", "text=2,label=3")["kind"] == "texts"
    assert told(files["texts"], "--format", "text")["kind"] == "text"
    done = CliRunner().invoke(info, [str(files["pairs"]), "--columns", "text"])
    assert "does not have the form text=sentence,label=2" in done.output


@pytest.mark.parametrize(
    "text",
    [
        "\t第一段，缩进了。\n\t第二段，也缩进了。\n" * 20,
        "One, two\nthree, four\nfive, six\n" * 9,
        "".join(f"{n} In the beginning was the verse.\n" for n in range(1, 40)),
        "".join(f"word{n}\t{n * n}\n" for n in range(40)),
        '{"text": "一段话", "title": "题目"}\n' * 20,
        "A: 你好。\nB: 你好！\n" * 20,
        "甲\t乙\n丙\t丁\n",
        "小明/nr 打/v 电话/n\n" * 20,
    ],
)
def test_text_is_not_taken_for_a_table(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    assert recognise_data(tmp_path / "a.txt") is None


def test_novels_and_encyclopaedias_stay_text(shared_data: Path, tmp_path: Path) -> None:
    for name in ("classics", "gutenberg"):
        with tarfile.open(shared_data / "corpora" / f"{name}.tar.xz") as archive:
            for number, member in enumerate(archive):
                if member.isfile() and number % 6 == 0:
                    (tmp_path / "book").write_bytes(archive.extractfile(member).read(1 << 18))  # type: ignore[union-attr]
                    assert recognise_data(tmp_path / "book") is None, member.name
    assert recognise_data(shared_data / "corpora" / "zhwiki.valid.txt.xz") is None
    assert recognise_data(shared_data / "corpora" / "enwiki.valid.txt.xz") is None


def test_a_folder_is_what_most_of_its_files_are(shared_data: Path, files: dict[str, Path]) -> None:
    found = recognise_data(shared_data / "tasks" / "sts12-16")
    assert found is not None
    assert found.kind == "pairs"
    assert recognise_data(files["texts"].parent) is None


def test_methods_show_what_they_learn_from() -> None:
    rows = json.loads(CliRunner().invoke(methods, ["--json"]).stdout)
    assert {row["name"]: tuple(row["learns_from"]) for row in rows if row["learns_from"]} == {
        row.name: row.learns_from for row in METHODS
    }
    assert "learns from" in CliRunner().invoke(methods).stdout
