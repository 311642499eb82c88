"""`polyseme corpus` and `polyseme info`, as a person or a program calls them."""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.processes import run_command as run

import polyseme
from polyseme.cli.flags import OneOf
from polyseme.cli.text import corpus, info
from polyseme.disk import files
from polyseme.errors import FormatError
from polyseme.text.blocks import DOCUMENTS, FORMATS
from polyseme.text.corpus import Corpus
from polyseme.text.corpus_files import CORPUS
from polyseme.text.normalise import CASES, FORMS, SCRIPTS
from polyseme.text.options import READING
from polyseme.text.segment import METHODS, Segmentation
from polyseme.text.source import Source, SourceReader

TEXT = "他打了个电话。\n她说：“好！”\n\n第二篇，他去打电话。\n"


@pytest.fixture
def novel(tmp_path: Path) -> Path:
    (tmp_path / "小说.txt").write_bytes(TEXT.encode("gb18030"))
    return tmp_path / "小说.txt"


def test_info_of_raw_text(novel: Path) -> None:
    facts = json.loads(run("info", novel, "--json", "--min-count", "2").stdout)
    assert facts["encoding"] == "gb18030"
    assert facts["lines"] == 4
    assert facts["characters"] == len(TEXT)
    assert facts["documents"] == 2
    assert facts["sentences"] == 3
    assert facts["sample"][0] == ["他", "打了个", "电话", "。"]
    assert facts["estimated"] is False
    assert facts["segmentation"]["method"] == "auto"
    words = [word for line in TEXT.split() for word in Segmentation().tokens(line)]
    assert facts["tokens"] == len(words)
    assert facts["vocabulary"] == len({word for word in words if words.count(word) >= 2})


def test_info_of_questions_shows_an_answer_as_a_person_would_write_it(tmp_path: Path) -> None:
    question = {"id": "q1", "question": "他打了什么？", "answers": [{"text": "电话", "answer_start": 3}]}
    asked = {"data": [{"paragraphs": [{"context": "他打了电话。", "qas": [question]}]}]}
    (tmp_path / "q.json").write_text(json.dumps(asked), encoding="utf-8")
    facts = json.loads(run("info", tmp_path / "q.json", "--json").stdout)
    assert facts["sample"][0]["answers"] == [{"text": "电话", "start": 3}]
    shown = run("info", tmp_path / "q.json").stdout
    assert "他打了电话。 | 他打了什么？ | 电话 | q1" in shown.decode()


def test_info_reads_stdin_and_shows_a_table() -> None:
    done = run("info", "-", stdin=TEXT.encode("utf-16"))
    assert done.returncode == 0
    assert "utf-16-le" in done.stdout.decode()
    assert "他 | 打了个 | 电话 | 。" in done.stdout.decode()


def test_info_of_json_lines_from_stdin_counts_the_text() -> None:
    lines = "\n".join(json.dumps({"text": text}) for text in TEXT.splitlines() if text)
    facts = json.loads(run("info", "-", "--json", stdin=lines.encode()).stdout)
    assert facts["format"] == "jsonl"
    assert facts["characters"] == len("\n".join(text for text in TEXT.splitlines() if text))
    assert facts["documents"] == 3


def test_corpus_then_info(novel: Path, tmp_path: Path) -> None:
    built = json.loads(
        run("corpus", novel, "-o", tmp_path / "c", "--segment", "char", "--min-count", 2, "--json").stdout
    )
    found = Corpus.open(tmp_path / "c")
    assert built["tokens"] == found.n_tokens
    facts = json.loads(run("info", tmp_path / "c", "--json").stdout)
    assert facts["tokens"] == found.n_tokens
    assert facts["sentences"] == 3
    assert facts["documents"] == 2
    assert facts["vocabulary"] == len(found.vocabulary)
    assert facts["segmentation"]["method"] == "char"


def test_info_of_a_corpus_that_begins_with_a_sentence_without_words(tmp_path: Path) -> None:
    lines = ["* * *", "the cat"]
    Corpus.from_sentences(lines, tmp_path / "c", segment=lambda text: [w for w in text.split() if w.isalpha()])
    shown = CliRunner().invoke(info, [str(tmp_path / "c")])
    assert shown.exit_code == 0
    assert "the | cat" in shown.output


def test_corpus_from_stdin_with_a_dictionary(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("打了个电话\n", encoding="utf-8")
    done = run("corpus", "-", "-o", tmp_path / "c", "--words", tmp_path / "words.txt", stdin=TEXT.encode())
    assert done.returncode == 0, done.stderr.decode()
    assert Corpus.open(tmp_path / "c").sentence(0) == ["他", "打了个电话", "。"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["info", "nothing.txt"], 1, "nothing.txt does not exist"),
        (["info", "empty.txt"], 1, "there is no text in"),
        (["info", "-"], 1, "there is no text in standard input"),
        (["info", "小说.txt/more"], 1, "does not exist"),
        (["corpus", "远" * 100, "-o", "out"], 1, "cannot be read: File name too long"),
        (["corpus", "junk.bin", "-o", "out"], 1, "is not text"),
        (["corpus", "小说.txt", "-o", "."], 1, "the current folder"),
        (["corpus", "小说.txt", "-o", "empty.txt"], 1, "is a file"),
        (["corpus", "小说.txt"], 2, "Missing option"),
        (["corpus", "小说.txt", "-o", "out", "--segment", "jeba"], 2, "jeba"),
        (["corpus", "小说.txt", "-o", "out", "--encoding", "utf-8"], 1, "offset 0 is not UTF-8"),
        (["corpus", "小说.txt", "-o", "out", "--encoding", "utf-8"], 1, "give the right encoding (--encoding NAME)"),
    ],
)
def test_mistakes_are_one_line(novel: Path, arguments: list[str], code: int, message: str) -> None:
    (novel.parent / "empty.txt").touch()
    (novel.parent / "junk.bin").write_bytes(bytes(range(256)) * 9)
    done = run(*arguments, cwd=novel.parent)
    assert done.returncode == code
    assert message in done.stderr.decode()
    assert len(done.stderr.decode().strip().splitlines()) == 1
    assert not done.stdout


def test_train_reads_raw_text_with_the_flags_of_corpus(tmp_path: Path) -> None:
    records = [json.dumps({"body": "他打了個電話。\n"}, ensure_ascii=False) for _ in range(9)]
    (tmp_path / "t.txt").write_bytes("\n".join(records).encode("big5"))
    (tmp_path / "words.txt").write_text("打了个电话\n", encoding="utf-8")
    reading = ["--format", "jsonl", "--field", "body", "--encoding", "big5", "--script", "simplified"]
    reading += ["--words", str(tmp_path / "words.txt"), "--segment", "jieba"]
    options = ["--dim", 4, "--min-count", 1]
    assert run("corpus", tmp_path / "t.txt", "-o", tmp_path / "c", *reading).returncode == 0
    for source, flags in ((tmp_path / "t.txt", reading), (tmp_path / "c", [])):
        done = run("train", "svd", source, "-o", tmp_path / f"m{len(flags)}", *options, *flags)
        assert done.returncode == 0, done.stderr.decode()
    direct, by_corpus = (polyseme.load(tmp_path / f"m{n}") for n in (len(reading), 0))
    assert {"他", "打了个电话"} <= set(direct.index_to_key)
    assert direct.index_to_key == by_corpus.index_to_key
    assert direct.about.segmentation == by_corpus.about.segmentation


@pytest.mark.parametrize("flags", [["--segment", "auto"], ["--encoding", "gb18030"], ["--script", "keep"]])
def test_train_says_that_a_corpus_is_read_and_cut_already(novel: Path, tmp_path: Path, flags: list[str]) -> None:
    Corpus.build(novel, tmp_path / "c")
    done = run("train", "svd", tmp_path / "c", "-o", tmp_path / "m", *flags)
    assert done.returncode == 1
    assert f"leave out {flags[0].removeprefix('--')}" in done.stderr.decode()
    assert len(done.stderr.decode().strip().splitlines()) == 1
    assert not (tmp_path / "m").exists()


def test_the_help_of_a_method_tells_its_own_options_from_those_of_raw_text() -> None:
    shown = run("train", "svd", "--help").stdout.decode()
    run_options, rest = shown.split("\nOptions of svd:\n")
    of_method, of_text = rest.split("\nReading files:\n")
    assert "--resume" in run_options
    assert "--smoothing" in of_method
    for flag in READING:
        assert f"--{flag} " in of_text


@pytest.mark.parametrize("name", ["ids.i32", "text.utf8", "text.i64", "counts.i64"])
def test_verify_checks_every_byte_of_a_corpus(novel: Path, tmp_path: Path, name: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(
        "polyseme.text.corpus_files.CORPUS", replace(CORPUS, whole=0)
    )  # as if the files were large ones
    monkeypatch.setattr("polyseme.disk.description.ENDS", 1)
    Corpus.build(novel, tmp_path / "c")
    monkeypatch.undo()
    header = json.loads((tmp_path / "c" / "corpus.json").read_text())
    for file, kept in header["files"].items():
        assert kept["sha256"] == hashlib.sha256((tmp_path / "c" / file).read_bytes()).hexdigest()
    monkeypatch.setattr("polyseme.disk.description.ENDS", 1)
    CliRunner().invoke(info, [str(tmp_path / "c"), "--verify"], catch_exceptions=False)
    data = bytearray((tmp_path / "c" / name).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "c" / name).write_bytes(data)
    with pytest.raises(FormatError, match=f"{name} was altered"):
        CliRunner().invoke(info, [str(tmp_path / "c"), "--verify"], catch_exceptions=False)


def test_verify_says_where_an_older_corpus_keeps_no_whole_checksums(novel: Path, tmp_path: Path) -> None:
    Corpus.build(novel, tmp_path / "c")
    header = json.loads((tmp_path / "c" / "corpus.json").read_text())
    del header["checksum"]
    for kept in header["files"].values():
        kept["ends"] = kept.pop("sha256")  # of so small a file they are the same
    (tmp_path / "c" / "corpus.json").write_text(json.dumps(header))
    assert json.loads(run("info", tmp_path / "c", "--json").stdout)["verified"] == "sizes and checksums of small files"
    done = run("info", tmp_path / "c", "--verify")
    assert done.returncode == 1
    assert "cannot be verified: corpus.json has no checksum of the whole file" in done.stderr.decode()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_info_reads_a_pipe_as_text_and_load_says_what_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor() as pool:
        pool.submit((tmp_path / "pipe").write_bytes, TEXT.encode())
        facts = json.loads(run("info", tmp_path / "pipe", "--json").stdout)
        assert facts["characters"] == len(TEXT)
        with pytest.raises(FormatError, match="is not a regular file"):  # and does not wait for somebody to write to it
            polyseme.load(tmp_path / "pipe")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_that_nobody_writes_to_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIPE_PATIENCE", 0.05)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="pipe is a pipe without a writer"):
        Corpus.build(tmp_path / "pipe")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("first", [b"", "你好".encode()[:4]], ids=["nothing yet", "half a character"])
def test_a_pipe_is_read_from_its_first_byte_on(tmp_path: Path, first: bytes) -> None:
    """Whatever was in it when it was opened, and however slowly the rest comes."""
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(tmp_path / "pipe", os.O_WRONLY)
    text = "你好，世界。\n" * 3000
    os.write(writing, first)
    with ThreadPoolExecutor() as pool:
        found = pool.submit(lambda: "".join(SourceReader(Source(str(tmp_path / "pipe"))).chunks()))
        with os.fdopen(writing, "wb") as rest:
            rest.write(text.encode()[len(first) :])
        assert found.result() == text
    os.close(reading)


def test_the_choices_of_the_flags_are_those_of_the_text_room() -> None:
    written = {flag.name: flag.type.choices for flag in corpus.params if isinstance(flag.type, OneOf)}
    assert written == {
        "segment": METHODS,
        "normalise": FORMS,
        "script": SCRIPTS,
        "case": CASES,
        "format": FORMATS,
        "documents": DOCUMENTS,
        "errors": ("strict", "replace"),
    }
    assert {flag.name for flag in corpus.params} >= set(READING)
