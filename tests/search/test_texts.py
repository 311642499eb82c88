"""Search by meaning among texts: exact beside NumPy, cells by their recall, BM25 by its formula; the folder."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import polyseme
from polyseme.arrays import unit_rows
from polyseme.cli.main import main
from polyseme.errors import FormatError, OptionError, PolysemeError
from polyseme.search import TextIndex
from polyseme.search.kwic.concordance import concordance
from polyseme.search.texts.bm25 import Counting
from polyseme.search.texts.text_index import fused
from polyseme.sentences.lift import lift
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

random = np.random.default_rng(2)
WORDS = [f"w{i}" for i in range(40)]


@pytest.fixture(scope="module")
def words():
    return WordVectors(Vocabulary(WORDS, np.arange(40, 0, -1)), random.normal(size=(40, 8)).astype(np.float32))


@pytest.fixture(scope="module")
def lines():
    return [" ".join(random.choice(WORDS, random.integers(2, 7))) for _ in range(120)]


def call(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["polyseme", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_the_nearest_lines_are_found_in_their_context(words, lines, tmp_path):
    (tmp_path / "notes.txt").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    index = TextIndex.build(words, tmp_path / "notes.txt")
    query = "w3 w5 unknown"
    cosines = lift(words, "sentences").similarity([query], lines)[0]
    hits = index.search(query, k=7, context=2)
    assert [hit.number for hit in hits] == np.argsort(-cosines, kind="stable")[:7].tolist()
    np.testing.assert_allclose([hit.score for hit in hits], np.sort(cosines)[::-1][:7], atol=1e-6)
    for hit in hits:
        assert hit.text == lines[hit.number]
        assert (hit.source, hit.line) == (str(tmp_path / "notes.txt"), 2 * hit.number + 1)
        assert hit.before == lines[max(0, hit.number - 2) : hit.number]
        assert hit.after == lines[hit.number + 1 : hit.number + 3]
        assert [hit.text[a:b] for a, b in hit.marks] == [w for w in hit.text.split() if w in ("w3", "w5")]
    assert index.search("unknown") == []


def test_files_of_one_name_in_two_folders_are_no_neighbours(words, tmp_path):
    for folder, text in (("a", "w1 w2\nw3\n"), ("b", "w4\nw5 w6\n")):
        (tmp_path / "texts" / folder).mkdir(parents=True)
        (tmp_path / "texts" / folder / "notes.txt").write_text(text, encoding="utf-8")
    (tmp_path / "texts" / "own.txt").write_text("w7\n", encoding="utf-8")
    corpus = Corpus.build(tmp_path / "texts", tmp_path / "corpus", segment="space")
    for index in (TextIndex.build(words, tmp_path / "texts"), TextIndex.build(words, corpus)):
        (last,) = index.search("w3", k=1, how="words", context=3)
        assert (last.source, last.before, last.after) == ("a/notes.txt", ["w1 w2"], [])
        (first,) = index.search("w4", k=1, how="words", context=3)
        assert (first.source, first.before, first.after) == ("b/notes.txt", [], ["w5 w6"])
        assert index.search("w7", k=1, how="words")[0].source == "own.txt"
    alone = TextIndex.build(words, tmp_path / "texts" / "a", tmp_path / "index")
    both = alone.append(tmp_path / "texts" / "b")
    (last,) = both.search("w3", k=1, how="words", context=3)
    assert (last.source, last.after) == ("notes.txt", [])
    (line,) = concordance(corpus, "w4").lines()
    assert line.source == "b/notes.txt"


def test_words_are_ranked_by_the_formula_of_bm25(words, lines):
    texts, query = [line.split() for line in lines], ["w1", "w7", "w7"]
    mean, n = np.mean([len(text) for text in texts]), len(texts)

    def score(text):
        total = 0.0
        for word in query:
            tf, df = text.count(word), sum(word in other for other in texts)
            idf = np.log(1 + (n - df + 0.5) / (df + 0.5))
            total += idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * len(text) / mean))
        return total

    scores = np.array([score(text) for text in texts])
    index = TextIndex.of(words, lines)
    hits = index.search("W1 w7, w7", k=5, how="words")
    np.testing.assert_allclose([hit.score for hit in hits], np.sort(scores)[::-1][:5])
    both = index.search("w1 w7, w7", k=5, how="both")
    by_vectors = np.argsort(-lift(words, "sentences").similarity(["w1 w7 w7"], lines)[0], kind="stable")[:100]
    by_words = np.lexsort((np.arange(n), -scores))[: min(100, np.count_nonzero(scores))]
    ranks = [{place: rank for rank, place in enumerate(ranking.tolist(), 1)} for ranking in (by_vectors, by_words)]
    joined = {p: sum(1 / (60 + own[p]) for own in ranks if p in own) for p in range(n)}
    assert [hit.number for hit in both] == sorted(joined, key=lambda p: (-joined[p], p))[:5]
    assert fused([np.array([4, 2]), np.array([2])], 9)[0].tolist() == [2, 4]


def test_an_inverted_file_goes_on_from_another():
    whole, first, second = Counting(), Counting(), Counting()
    texts = [["a", "b", "a"], [], ["c", "a"], ["d"]]
    whole.add(texts)
    first.add(texts[:2])
    second.adopt(first.finished())
    second.add(texts[2:])
    for one, other in zip(whole.finished().__dict__.values(), second.finished().__dict__.values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_index_is_saved_opened_and_appended_to(words, lines, tmp_path):
    for name, part in (("a.txt", lines[:70]), ("b.txt", lines[70:])):
        (tmp_path / name).write_text("\n".join(part), encoding="utf-8")
    whole = TextIndex.build(words, [tmp_path / "a.txt", tmp_path / "b.txt"])
    TextIndex.build(words, tmp_path / "a.txt", tmp_path / "i")
    again = TextIndex.open(tmp_path / "i", words).append(tmp_path / "b.txt")
    assert len(again) == len(TextIndex.open(tmp_path / "i")) == 120
    for how in ("vectors", "words", "both"):
        assert again.search("w1 w9", how=how) == whole.search("w1 w9", how=how)
    whole.save(tmp_path / "copy")
    assert TextIndex.open(tmp_path / "copy", words).search("w3") == whole.search("w3")
    with pytest.raises(OptionError, match="model"):
        TextIndex.open(tmp_path / "i").search("w1")
    other = WordVectors(words.vocabulary, words.vectors[:, ::-1].copy())
    with pytest.raises(FormatError, match="a different model"):
        TextIndex.open(tmp_path / "i", other)
    with pytest.raises(FormatError, match=r"force"):
        TextIndex.build(words, tmp_path / "b.txt", tmp_path / "i")
    with pytest.raises(FormatError, match="text index"):
        polyseme.load(tmp_path / "i")


def test_many_texts_are_found_in_cells(words, monkeypatch, tmp_path):
    monkeypatch.setattr("polyseme.search.texts.text_builder.EXACT", 1000)
    texts = [" ".join(random.choice(WORDS, 6)) for _ in range(3000)]
    (tmp_path / "t").write_text("\n".join(texts), encoding="utf-8")
    index = TextIndex.build(words, tmp_path / "t", tmp_path / "i")
    assert index.facts["search"] == "cells"
    assert index.facts["recall"] >= 0.95
    vectors = unit_rows(lift(words, "sentences").encode(texts))
    np.testing.assert_array_equal(index.vectors.in_order(), vectors)
    found = right = 0
    for query in vectors[:100]:
        exact = set(np.argsort(-(vectors @ query), kind="stable")[:10].tolist())
        found += len(exact & set(index.nearest(query[None], 10)[0].tolist()))
        right += 10
    assert found / right >= 0.9
    more = index.append(tmp_path / "t")
    np.testing.assert_array_equal(more.vectors.in_order(), np.concatenate([vectors, vectors]))


def test_sentences_and_documents_of_a_corpus_are_searched_by_sparse_vectors_too(fifty_lines, tmp_path):
    corpus = Corpus.from_sentences(fifty_lines, tmp_path / "c", documents="line")
    tfidf = polyseme.train("tfidf", corpus)
    index = TextIndex.build(tfidf, tmp_path / "c", tmp_path / "i", unit="documents")
    assert index.facts["search"] == "sparse"
    best = np.argmax(tfidf.similarity(["姐姐打电话"], fifty_lines)[0])
    hit = TextIndex.open(tmp_path / "i", tfidf).search("姐姐打电话", k=1)[0]
    assert (hit.number, hit.text) == (best, fifty_lines[best])
    assert {hit.text[a:b] for a, b in hit.marks} >= {"姐姐", "打电话"}
    assert len(index.append(tmp_path / "c", tmp_path / "j")) == 100


def test_a_cut_or_altered_index_is_refused(words, lines, tmp_path):
    (tmp_path / "t").write_text("\n".join(lines), encoding="utf-8")
    for name in ("texts.utf8", "texts.i64", "vectors.f32", "postings.i32", "words.i64", "lines.i64", "sources.i32"):
        folder = tmp_path / name
        TextIndex.build(words, tmp_path / "t", folder)
        data = bytearray((folder / name).read_bytes())
        data[-2] ^= 0xFF
        (folder / name).write_bytes(data)
        with pytest.raises(PolysemeError, match="altered"):
            TextIndex.open(folder, words)


def test_the_command_searches_keeps_and_adds(words, lines, tmp_path, monkeypatch, capsys):
    words.save(tmp_path / "m")
    for name, part in (("a.txt", lines[:70]), ("b.txt", lines[70:])):
        (tmp_path / name).write_text("\n".join(part), encoding="utf-8")
    made = ("--pool", "sif")
    assert call(monkeypatch, "search", tmp_path / "m", tmp_path / "a.txt", "-o", tmp_path / "i", *made) == 0
    assert call(monkeypatch, "search", tmp_path / "m", tmp_path / "i", "--add", tmp_path / "b.txt", *made) == 0
    capsys.readouterr()
    assert call(monkeypatch, "search", tmp_path / "m", tmp_path / "i", "w1 w2", "-k", "3", "--json", *made) == 0
    hits = json.loads(capsys.readouterr().out)["hits"]
    cosines = lift(words, "sentences", pool="sif").similarity(["w1 w2"], lines)[0]
    assert [hit["number"] for hit in hits] == np.argsort(-cosines, kind="stable")[:3].tolist()
    assert call(monkeypatch, "search", tmp_path / "m", tmp_path / "i", "w1 w2") == 1  # pooled otherwise
    assert "a different model or pooling" in capsys.readouterr().err
    assert call(monkeypatch, "search", tmp_path / "m", tmp_path / "i", "-o", tmp_path / "copy", *made) == 0
    assert len(TextIndex.open(tmp_path / "copy")) == len(lines)
    more = ("--add", tmp_path / "b.txt", "-o", tmp_path / "copy", *made)
    assert call(monkeypatch, "search", tmp_path / "m", tmp_path / "i", *more) == 1  # there is one already
    assert call(monkeypatch, "search", tmp_path / "m", tmp_path / "i", *more, "--force") == 0
    assert len(TextIndex.open(tmp_path / "copy")) == len(lines) + 50
    capsys.readouterr()
    assert call(monkeypatch, "search", tmp_path / "m", tmp_path / "a.txt", "w1 w2", "--how", "both") == 0
    assert f"{tmp_path / 'a.txt'}:" in capsys.readouterr().out
    assert call(monkeypatch, "info", tmp_path / "i") == 0
    assert "text index" in capsys.readouterr().out


def test_a_text_with_a_stray_byte_is_searched_with_the_option_that_the_error_names(
    words, tmp_path, monkeypatch, capsys
):
    words.save(tmp_path / "m")
    (tmp_path / "a.txt").write_bytes("w1 w2\nw3 \xff\x00 w4\n".encode("latin-1"))
    given = ("search", tmp_path / "m", tmp_path / "a.txt", "w4", "--json")
    for unit in ("lines", "documents"):
        assert call(monkeypatch, *given, "--unit", unit) == 1
        assert "--errors replace" in capsys.readouterr().err
        assert call(monkeypatch, *given, "--unit", unit, "--errors", "replace", "--topn", "1") == 0
        (hit,) = json.loads(capsys.readouterr().out)["hits"]
        assert "w4" in hit["text"]


def test_the_encoding_of_texts_can_be_given(words, tmp_path):
    (tmp_path / "a.txt").write_bytes("電話 w1\n".encode("big5"))
    (tmp_path / "b.txt").write_bytes("小明 w2\n".encode("big5"))
    index = TextIndex.build(words, tmp_path / "a.txt", encoding="big5")
    index = index.append(tmp_path / "b.txt", tmp_path / "i", encoding="big5")
    assert [index.text(0), index.text(1)] == ["電話 w1", "小明 w2"]
