"""Means weighted by estimated reading times: surprisal and parts of speech."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import polyseme
from polyseme.errors import OptionError
from polyseme.sentences import word_weights
from polyseme.sentences.lift import lift
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

WORDS = ["小明", "看", "书", "的", "音乐", "听"]


@pytest.fixture(scope="module")
def vectors() -> WordVectors:
    rows = np.random.default_rng(0).normal(size=(len(WORDS), 5)).astype(np.float32)
    return WordVectors(Vocabulary(WORDS, np.array([50, 20, 10, 200, 5, 3])), rows)


def reference(rows: np.ndarray, scores: np.ndarray, residual: float) -> np.ndarray:
    raised = np.exp(np.clip(scores, 0, 10).astype(np.float64))
    weights = residual + raised / raised.sum()
    return (weights[:, None] * rows).sum(axis=0) / weights.sum()


@pytest.mark.parametrize("residual", [0.0, 1.0])
def test_rare_words_weigh_by_their_surprisal(vectors: WordVectors, residual: float) -> None:
    text = ["小明", "的", "unknown", "听"]
    encoder = lift(vectors, "sentences", pool="surprisal", residual=residual)
    scores = -np.log(np.array([50, 200, 3]) / 288)
    wanted = reference(vectors.lookup(["小明", "的", "听"]), scores, residual)
    np.testing.assert_allclose(encoder.encode([text])[0], wanted, atol=1e-5)


def test_words_that_surprise_alike_give_the_mean(vectors: WordVectors) -> None:
    texts = [["小明", "看", "书"], ["听", "音乐"]]
    even = lift(vectors, "sentences", pool="surprisal", residual=0.0, reader=dict.fromkeys([*WORDS, ""], 4.0))
    np.testing.assert_allclose(even.encode(texts), lift(vectors, "sentences").encode(texts), atol=1e-6)
    beyond = lift(vectors, "sentences", pool="surprisal", residual=0.0, reader={"小明": 11.0, "书": 99.0, "": 10.0})
    np.testing.assert_allclose(beyond.encode(texts), even.encode(texts), atol=1e-6)


@pytest.mark.parametrize("method", ["elmo", "ulmfit"])
def test_a_language_model_says_what_surprises(
    method: str, vectors: WordVectors, fifty_lines: list[str], tmp_path: Path
) -> None:
    corpus = polyseme.Corpus.from_sentences([list(line) for line in fifty_lines])
    small = {"elmo": {"projection": 8}, "ulmfit": {"dim": 8, "hidden": 8}}[method]
    model = polyseme.train(method, corpus, epochs=1, threads=1, **small)
    text = ["看", "书", "的"]
    scores = model.surprisals([text, [], ["看", "书", "打"]])
    np.testing.assert_allclose(scores[0][:2], scores[2][:2], atol=1e-5)  # what comes later surprises no earlier word
    assert scores[1].shape == (0,)
    encoder = lift(vectors, "sentences", pool="surprisal", reader=model, residual=1.0)
    np.testing.assert_allclose(encoder.encode([text])[0], reference(vectors.lookup(text), scores[0], 1.0), atol=1e-5)
    encoder.save(tmp_path / "reader")
    np.testing.assert_allclose(polyseme.load(tmp_path / "reader").encode([text]), encoder.encode([text]), atol=1e-6)


def test_parts_of_speech_are_weighed_by_a_tagged_corpus(vectors: WordVectors, tmp_path: Path) -> None:
    lines = ["小明/n 看/v 书/n 的/u", "小明/n 听/v 音乐/n 的/u", "的/u 看/v 书/n 的/u", "的/u 看/n"] * 5
    (tmp_path / "tagged.txt").write_text("\n".join(lines), encoding="utf-8")
    corpus = polyseme.Corpus.build(tmp_path / "tagged.txt", format="tagged")
    counts = {"小明": 10, "看": 15, "书": 10, "的": 25, "听": 5, "音乐": 5}
    surprisal = {word: -np.log(n / 70) for word, n in counts.items()}
    noun = (10 * surprisal["小明"] + 10 * surprisal["书"] + 5 * surprisal["音乐"] + 5 * surprisal["看"]) / 30
    verb = (10 * surprisal["看"] + 5 * surprisal["听"]) / 15
    encoder = lift(vectors, "sentences", pool="pos", data=corpus, residual=1.0)
    text = ["小明", "听", "音乐", "的", "看"]
    wanted = reference(vectors.lookup(text), np.array([noun, verb, noun, surprisal["的"], verb]), 1.0)
    np.testing.assert_allclose(encoder.encode([text])[0], wanted, atol=1e-5)
    encoder.save(tmp_path / "pos")
    np.testing.assert_allclose(polyseme.load(tmp_path / "pos").encode([text])[0], wanted, atol=1e-5)
    with pytest.raises(OptionError, match="tagged text"):
        lift(vectors, "sentences", pool="pos", data=["小明 看书"])
    with pytest.raises(OptionError, match="tagged text"):
        lift(vectors, "sentences", pool="pos", data=polyseme.Corpus.from_sentences([text]))
    with pytest.raises(OptionError, match="not a language model"):
        lift(vectors, "sentences", pool="surprisal", reader=lift(vectors, "contexts"))


def test_what_weighs_parts_of_speech_grows_with_the_pairs_that_occur(tmp_path: Path) -> None:
    lines = [f"w{i}/t{i} w{i}/t{i} w{i}/t{(i + 1) % 4000}" for i in range(4000)]
    (tmp_path / "tagged.txt").write_text("\n".join(lines), encoding="utf-8")
    corpus = polyseme.Corpus.build(tmp_path / "tagged.txt", format="tagged")
    tracemalloc.start()
    scores = word_weights.by_part_of_speech(corpus)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 16_000_000  # a table of all words and all tags has 16,000,000 cells of eight bytes
    np.testing.assert_allclose(list(scores.values()), -np.log(3 / 12000), rtol=1e-6)


def test_of_equally_frequent_tags_the_first_of_the_table_gives_the_score(tmp_path: Path) -> None:
    (tmp_path / "tagged.txt").write_text("看/v 看/n 书/n 书/n 书/n 打/v\n", encoding="utf-8")
    corpus = polyseme.Corpus.build(tmp_path / "tagged.txt", format="tagged")
    assert corpus.tag_names == ["v", "n"]
    verb = (-np.log(2 / 6) - np.log(1 / 6)) / 2
    assert word_weights.by_part_of_speech(corpus)["看"] == pytest.approx(verb)
