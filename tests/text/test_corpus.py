"""A corpus holds its text: words, order, original, whatever made it; and nothing else opens as one."""

from __future__ import annotations

import json
import lzma
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyseme.errors import FormatError, OptionError, PolysemeError, TextError
from polyseme.text.corpus import Corpus, is_corpus
from polyseme.text.segment import METHODS, Segmentation
from polyseme.text.spacing import token_spans

TOKENS = st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=8), max_size=6)


@settings(max_examples=40, deadline=None)
@given(TOKENS)
def test_lists_of_words_come_back(sentences: list[list[str]]) -> None:
    if not any(sentences):
        with pytest.raises(PolysemeError, match="no words"):
            Corpus.from_sentences(sentences)
        return
    corpus = Corpus.from_sentences(sentences)
    assert list(corpus) == sentences
    counts = Counter(word for sentence in sentences for word in sentence)
    assert dict(zip(corpus.vocabulary.words, corpus.vocabulary.counts.tolist(), strict=True)) == counts
    assert sorted(counts.values(), reverse=True) == corpus.vocabulary.counts.tolist()


@settings(max_examples=60, deadline=None)
@given(
    text=st.text(
        st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("中文。ＡＢ１２ｶﾞ\u0301ﬁ　 頭髮abc")),
        max_size=60,
    ),
    method=st.sampled_from(METHODS),
    script=st.sampled_from(["keep", "simplified"]),
)
def test_every_word_is_found_in_the_original(text: str, method: str, script: str) -> None:
    segmentation = Segmentation(method, script=script)
    text = text.replace("\0", "")
    if not segmentation.tokens(text):
        return
    corpus = Corpus.from_sentences([text], segment=segmentation)
    spans = corpus.token_spans(0)
    assert corpus.text(0) == text
    assert len(spans) == len(corpus.sentence(0))
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert [start for start, _ in spans] == sorted(start for start, _ in spans)
    for (start, end), token in zip(spans, corpus.sentence(0), strict=True):
        piece = segmentation.normalised(text[start:end])
        # A character can become several words (㈱ is "(", "株", ")"), so a span may hold more than its word.
        assert token in piece or script == "simplified"


@pytest.mark.parametrize(
    "text", ["a\u200b\u0301b c", "x\u00ad\u0308 y", "e\u0301\u0323z", "\u00ad，ﬁ x", "\u1112\u1161\u11ab a", "ｶ\u200bﾞx"]
)
def test_spans_of_marks_that_join_across_what_nobody_sees(text: str) -> None:
    corpus = Corpus.from_sentences([text])
    for (start, end), token in zip(corpus.token_spans(0), corpus.sentence(0), strict=True):
        assert token in corpus.segmentation.normalised(text[start:end])


def test_an_empty_token_has_an_empty_span() -> None:
    assert token_spans("the cat", ["the", "", "cat"], Segmentation("space")) == [(0, 3), (3, 3), (4, 7)]


def test_spans_mark_the_word_in_the_text_as_written() -> None:
    corpus = Corpus.from_sentences(["他用ＡＢＣ１２３　打了個電話。"], segment=Segmentation(script="simplified"))
    text = corpus.text(0)
    assert corpus.sentence(0)[-2:] == ["电话", "。"]
    assert "ABC123" in corpus.sentence(0)
    marked = [text[start:end] for start, end in corpus.token_spans(0)]
    assert "ＡＢＣ１２３" in marked
    assert marked[-2:] == ["電話", "。"]


@pytest.mark.parametrize(
    ("text", "tokens", "marked"),
    [
        ("He saw the dog.", "he saw the dog .", "He saw the dog ."),
        ("The İstanbul THE Hen, he", "the İstanbul the he", "The İstanbul THE He"),
        ("I was the man; be here to be.", "I be the man be here to be", "I  the man be here to be"),
        ("The other he, the hen", "he hen", "he hen"),
        ("他说了中ab文，Ab。", "说 AB Ab made up", "说 ab Ab  "),
    ],
)
def test_words_a_function_changed_stay_in_their_places(text: str, tokens: str, marked: str) -> None:
    spans = token_spans(text, tokens.split(), Segmentation.of(str.split))
    assert [text[start:end] for start, end in spans] == marked.split(" ")


def test_ids_keep_the_words_that_min_count_leaves_out() -> None:
    corpus = Corpus.from_sentences([["a", "b", "a"], ["c", "a", "b"]], min_count=2)
    assert corpus.vocabulary.words == ["a", "b"]
    assert corpus.ids.tolist() == [0, 1, 0, 2, 0, 1]
    assert corpus.sentence(1) == ["c", "a", "b"]
    assert len(Corpus.from_sentences([["a", "b", "a"]], max_size=1).vocabulary) == 1
    with pytest.raises(OptionError):
        Corpus.from_sentences([["a"]], min_count=0)


def test_a_sentence_in_the_place_of_a_path_is_told_where_it_belongs() -> None:
    with pytest.raises(TextError, match=r"does not exist; for sentences in memory use Corpus\.from_sentences"):
        Corpus.build(["他来了。"])


def test_a_function_segments_and_the_stored_corpus_says_so(tmp_path: Path) -> None:
    corpus = Corpus.build(_text(tmp_path, "a-b c。\n"), tmp_path / "c", segment=lambda text: text.split("-"))
    assert list(corpus) == [["a", "b c。"]]
    with pytest.raises(PolysemeError, match="Python function"):
        Corpus.open(tmp_path / "c").segmentation.tokens("x")


def test_the_number_of_workers_changes_no_byte(tmp_path: Path) -> None:
    lines = [f"第{i}行，他打了{i % 97}个电话。word{i % 1009} {i * i}" for i in range(70_000)]
    path = _text(tmp_path, "\n".join(lines))
    for workers in (1, 2, 3):
        Corpus.build(path, tmp_path / str(workers), workers=workers)
    one, *others = [{f.name: f.read_bytes() for f in (tmp_path / str(n)).iterdir()} for n in (1, 2, 3)]
    assert others == [one, one]
    corpus = Corpus.open(tmp_path / "2")
    assert corpus.sentence(-2) + corpus.sentence(-1) == Segmentation().tokens(lines[-1])


def test_an_error_late_in_the_text_leaves_nothing(tmp_path: Path) -> None:
    lines = [json.dumps({"text": "他打了电话。" * 80}, ensure_ascii=False)] * 6_000 + ["{"]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(PolysemeError, match="line 6,001 is not JSON"):
        Corpus.build(path, tmp_path / "c", segment="char", workers=2)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.jsonl"]


@pytest.mark.parametrize("words", [(), tuple(f"字典{i}" for i in range(100_000))], ids=["at work", "at its start"])
def test_a_helper_that_dies_is_an_error_in_one_line(words: tuple[str, ...], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("polyseme.text.workers._RUN", "import os; os._exit(1)")
    path = _text(tmp_path, "The dog saw a cat, and it ran away.\n" * 100_000)
    with pytest.raises(PolysemeError, match="a worker process died"):
        Corpus.build(path, tmp_path / "c", segment="auto", words=words, workers=2)
    assert not (tmp_path / "c").exists()


def test_sentences_at_hand_are_taken_in_batches(tmp_path: Path, monkeypatch) -> None:
    sentences = [[f"词{i}", "。"] for i in range(11)]
    whole = Corpus.from_sentences(sentences)
    monkeypatch.setattr("polyseme.text.corpus.BATCH", 4)
    for documents, offsets in (("file", [0, 11]), ("line", list(range(12)))):
        corpus = Corpus.from_sentences(iter(sentences), documents=documents)
        assert list(corpus) == sentences == list(whole)
        assert corpus.document_offsets.tolist() == offsets
        assert corpus.paragraph_offsets.tolist() == list(range(12))


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    heard: list[tuple[str, float, float | None]] = []
    path = _text(tmp_path, "他打了个电话。\n" * 100)
    Corpus.build(path, progress=lambda what, done, total, **_: heard.append((what, done, total)))
    assert heard[-1] == ("corpus", path.stat().st_size, path.stat().st_size)


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        ("ids.i32", lambda data: data[:-4], "truncated or altered"),
        ("ids.i32", lambda data: b"\xff" + data[1:], "altered"),
        ("words.txt", lambda data: data.replace("电话".encode(), "电视".encode()), "altered"),
        ("sentences.i64", None, "incomplete"),
        ("corpus.json", lambda data: data[:50], "cannot be read"),
        ("corpus.json", lambda data: data.replace(b'"format": 1', b'"format": 9'), "upgrade polyseme"),
        (
            "corpus.json",
            lambda data: data.replace(b'"vocabulary": ', b'"vocabulary": 9'),
            "does not match its own checksum",
        ),
        ("corpus.json", lambda data: b"[]", "not the manifest"),
    ],
)
def test_what_was_cut_or_altered_is_refused(tmp_path: Path, file: str, damage: object, message: str) -> None:
    Corpus.build(_text(tmp_path, "他打了个电话。她也打了个电话。\n"), tmp_path / "c")
    target = tmp_path / "c" / file
    if callable(damage):
        target.write_bytes(damage(target.read_bytes()))
    else:
        target.unlink()
    with pytest.raises(FormatError, match=message):
        Corpus.open(tmp_path / "c")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a file's name is always Unicode")
def test_a_file_whose_name_is_no_utf8_is_read_and_remembered(tmp_path: Path) -> None:
    name = tmp_path / os.fsdecode("测试.txt".encode("gbk"))
    name.write_text("他打了个电话。", encoding="utf-8")
    Corpus.build(name, tmp_path / "c")
    assert json.loads((tmp_path / "c" / "corpus.json").read_text(encoding="utf-8"))["sources"] == [str(name)]
    assert Corpus.open(tmp_path / "c").text(0) == "他打了个电话。"


def test_ids_out_of_range_are_refused_even_with_a_right_checksum(tmp_path: Path) -> None:
    from polyseme.disk.folders import checksum
    from polyseme.text.corpus_files import CORPUS

    Corpus.from_sentences([["a", "b"]], tmp_path / "c")
    for name, values in (("ids.i32", np.array([0, 7], np.int32)), ("sentences.i64", np.array([0, 9], np.int64))):
        header = json.loads((tmp_path / "c" / "corpus.json").read_text())
        before = (tmp_path / "c" / name).read_bytes()
        (tmp_path / "c" / name).write_bytes(values.tobytes())
        header["files"][name] = CORPUS.seal(tmp_path / "c" / name)
        header["checksum"] = checksum(header)
        (tmp_path / "c" / "corpus.json").write_text(json.dumps(header))
        with pytest.raises(FormatError, match=f"{name} was altered"):
            Corpus.open(tmp_path / "c")
        (tmp_path / "c" / name).write_bytes(before)
        header["files"][name] = CORPUS.seal(tmp_path / "c" / name)
        header["checksum"] = checksum(header)
        (tmp_path / "c" / "corpus.json").write_text(json.dumps(header))


def test_a_killed_build_leaves_nothing_that_opens(tmp_path: Path) -> None:
    path = _text(tmp_path, "他打了个电话，说明天去公园看书。\n" * 200_000)
    code = "import sys; from polyseme import Corpus; Corpus.build(sys.argv[1], sys.argv[2])"
    process = subprocess.Popen([sys.executable, "-c", code, str(path), str(tmp_path / "c")], start_new_session=True)
    while not list(tmp_path.glob(".c.*/new/ids.i32")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not is_corpus(tmp_path / "c")
    assert not any(is_corpus(folder) for folder in tmp_path.glob(".c.*/new"))


def test_output_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    path = _text(tmp_path, "他打了个电话。")
    with pytest.raises(FormatError, match="files that polyseme did not write"):
        Corpus.build(path, tmp_path)
    Corpus.build(path, tmp_path / "c")
    assert len(Corpus.build(path, tmp_path / "c")) == 1
    assert path.read_text(encoding="utf-8") == "他打了个电话。"


def test_all_the_classics_build(tmp_path: Path, shared_data: Path) -> None:
    with tarfile.open(shared_data / "corpora" / "classics.tar.xz") as tar:
        members = [m for m in tar.getmembers() if m.isfile() and m.name.endswith(".txt") and m.size < 400_000]
        (tmp_path / "classics").mkdir()
        for member in members:
            (tmp_path / "classics" / Path(member.name).name).write_bytes(tar.extractfile(member).read())  # type: ignore[union-attr]
    corpus = Corpus.build(tmp_path / "classics", segment="char")
    assert corpus.n_documents == len(members)
    assert corpus.n_tokens > 500_000


def test_wikipedia_keeps_its_documents_and_text(tmp_path: Path, shared_data: Path) -> None:
    text = lzma.decompress((shared_data / "corpora" / "zhwiki.valid.txt.xz").read_bytes()).decode()[:300_000]
    corpus = Corpus.build(_text(tmp_path, text))
    assert corpus.n_documents == len([part for part in text.split("\n\n") if part.strip()])
    assert corpus.facts["paragraphs"] == len([line for line in text.splitlines() if line.strip()])
    assert "".join("".join(corpus.text(i) for i in range(len(corpus))).split()) == "".join(text.split())


def _text(folder: Path, text: str) -> Path:
    (folder / "text.txt").write_text(text, encoding="utf-8")
    return folder / "text.txt"
