"""Queries to word vectors give the same answers as plain NumPy in float64, and as gensim."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import polyseme
from polyseme.errors import FormatError, OptionError, UnknownWord
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

N, D = 500, 20
WORDS = [f"词{i}" for i in range(N)]


@pytest.fixture(scope="module")
def matrix() -> np.ndarray:
    rng = np.random.default_rng(7)
    return (rng.normal(size=(N, D)) * rng.uniform(0.1, 9, size=(N, 1))).astype(np.float32)


@pytest.fixture(scope="module")
def wv(matrix: np.ndarray) -> WordVectors:
    return WordVectors(Vocabulary(WORDS, np.zeros(N, dtype=np.int64)), matrix)


@pytest.fixture(scope="module")
def gensim_vectors(matrix: np.ndarray):
    models = pytest.importorskip("gensim.models", reason="gensim is not installed (extra: bench)")
    peer = models.KeyedVectors(D)
    peer.add_vectors(WORDS, matrix)
    return peer


def units(matrix: np.ndarray) -> np.ndarray:
    wide = matrix.astype(np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


def same(ours: list[tuple[str, float]], theirs: list[tuple[str, float]]) -> None:
    assert [word for word, _ in ours] == [word for word, _ in theirs]
    np.testing.assert_allclose([s for _, s in ours], [s for _, s in theirs], atol=1e-6)


def test_neighbours_are_those_of_the_cosine(wv: WordVectors, matrix: np.ndarray) -> None:
    cosines = units(matrix) @ units(matrix)[3]
    order = [i for i in np.argsort(-cosines) if i != 3][:10]
    same(wv.most_similar("词3"), [(WORDS[i], cosines[i]) for i in order])


def test_most_similar_is_gensims(wv: WordVectors, gensim_vectors, matrix: np.ndarray) -> None:
    plus, minus = ["词1", "词2"], ["词9"]
    same(wv.most_similar(plus, minus, topn=30), gensim_vectors.most_similar(plus, minus, topn=30))
    same(wv.most_similar(matrix[5], topn=5), gensim_vectors.most_similar([matrix[5]], topn=5))
    same(wv.most_similar("词1", restrict=50, topn=N), gensim_vectors.most_similar("词1", restrict_vocab=50, topn=N))


def test_both_kinds_of_analogy_are_gensims(wv: WordVectors, gensim_vectors) -> None:
    a, b, c = "词10", "词20", "词30"
    same(wv.analogy(a, b, c, topn=25), gensim_vectors.most_similar([b, c], [a], topn=25))
    same(wv.analogy(a, b, c, "mul", topn=25), gensim_vectors.most_similar_cosmul([b, c], [a], topn=25))


def test_3cosmul_is_its_formula(wv: WordVectors, matrix: np.ndarray) -> None:
    shifted = (1 + units(matrix) @ units(matrix)[[1, 2, 4]].T) / 2  # (N, 3)
    scores = shifted[:, 1] * shifted[:, 2] / (shifted[:, 0] + 1e-6)
    order = [i for i in np.argsort(-scores) if i not in (1, 2, 4)][:7]
    assert [word for word, _ in wv.analogy("词1", "词2", "词4", "mul", topn=7)] == [WORDS[i] for i in order]


def test_a_batch_gives_what_single_questions_give(wv: WordVectors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyseme.words.vectors.TOGETHER", 3)  # blocks of three questions
    asked = WORDS[40:50]
    for one, answer in zip(asked, wv.most_similar_batch(asked, topn=6), strict=True):
        same(answer, wv.most_similar(one, topn=6))
    assert wv.most_similar_batch([]) == []


def test_a_restricted_question_answers_from_the_list_only(wv: WordVectors) -> None:
    allowed = ["词77", "词5", "词400", "nowhere", "词5"]
    answers = wv.most_similar("词5", restrict=allowed, topn=10)
    assert {word for word, _ in answers} == {"词77", "词400"}
    assert answers[0][1] == pytest.approx(max(wv.similarity("词5", w) for w in ("词77", "词400")), abs=1e-6)
    mul = wv.analogy("词5", "词6", "词7", "mul", restrict=allowed)
    assert {word for word, _ in mul} == {"词77", "词400"}
    assert wv.analogy("词5", "词6", "词7", "mul", restrict=9)
    assert wv.most_similar("词5", restrict=["nowhere"]) == []


def test_similarity_and_the_odd_one_out(wv: WordVectors, matrix: np.ndarray, gensim_vectors) -> None:
    expected = float(units(matrix)[1] @ units(matrix)[2])
    assert wv.similarity("词1", "词2") == pytest.approx(expected, abs=1e-6)
    for start in range(0, 60, 6):
        words = WORDS[start : start + 6]
        assert wv.doesnt_match(words) == gensim_vectors.doesnt_match(words)


def test_the_matrix_is_not_copied_or_changed(wv: WordVectors, matrix: np.ndarray) -> None:
    before = matrix.copy()
    wv.most_similar("词0")
    assert wv.vectors is matrix
    np.testing.assert_array_equal(matrix, before)


def test_a_zero_vector_is_near_to_nothing() -> None:
    wv = WordVectors(Vocabulary(["a", "b", "0"], np.zeros(3)), np.array([[1, 0], [1, 1], [0, 0]], dtype=np.float32))
    assert wv.most_similar("a") == [("b", pytest.approx(0.5**0.5)), ("0", 0.0)]
    assert wv.similarity("0", "a") == 0.0


def test_words_like_a_mapping(wv: WordVectors, matrix: np.ndarray) -> None:
    np.testing.assert_array_equal(wv["词8"], matrix[8])
    np.testing.assert_array_equal(wv[["词8", "词1"]], matrix[[8, 1]])
    assert wv[[]].shape == (0, D)
    assert "词8" in wv
    assert "字" not in wv
    assert 8 not in wv
    assert wv.key_to_index["词8"] == 8
    assert wv.index_to_key[8] == "词8"
    assert (wv.vector_size, len(wv)) == (D, N)


@dataclass(frozen=True)
class Counted:
    min_count: int = 5


def test_an_unknown_word_is_explained() -> None:
    words = ["深度", "学习", "机器学习", "Beijing", "beautiful"]
    wv = WordVectors(Vocabulary(words, np.zeros(5)), np.eye(5, dtype=np.float32), options=Counted())
    with pytest.raises(UnknownWord) as caught:
        wv.most_similar("深度学习")
    message = str(caught.value)
    assert "\n" not in message
    assert "机器学习" in message
    assert "深度 (known) | 学习 (known)" in message
    assert "fewer than 5 occurrences" in message
    with pytest.raises(KeyError, match="Beijing"):
        wv["beijing"]
    with pytest.raises(UnknownWord, match="close words: 学习"):
        wv["学刁"]
    with pytest.raises(UnknownWord, match="beautiful"):
        wv["beautifull"]


def test_close_words_are_found_in_a_large_vocabulary() -> None:
    rng = np.random.default_rng(1)
    letters = rng.integers(97, 123, size=(400_000, 9), dtype=np.uint8)
    words = [bytes(row).decode() for row in letters]
    words[1234] = "embedding"
    wv = WordVectors(Vocabulary(words, np.zeros(len(words))), np.ones((len(words), 1), dtype=np.float32))
    assert "embedding" in wv  # builds the index
    with pytest.raises(UnknownWord, match="close words: embedding"):
        wv["embeding"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda wv: wv.most_similar([]),
        lambda wv: wv.most_similar(np.ones(D + 1)),
        lambda wv: wv.analogy("词1", "词2", "词3", method="div"),
        lambda wv: wv.doesnt_match([]),
    ],
)
def test_a_wrong_question_is_one_clear_line(wv: WordVectors, ask) -> None:
    with pytest.raises(OptionError) as caught:
        ask(wv)
    assert "\n" not in str(caught.value)


def test_published_vectors_survive_the_folder_and_are_mapped(wv: WordVectors, tmp_path) -> None:
    wv.save(tmp_path / "m")
    again = polyseme.load(tmp_path / "m")
    np.testing.assert_array_equal(again.vectors, wv.vectors)
    assert again.index_to_key == wv.index_to_key
    assert not again.vectors.flags.owndata
    assert not again.vectors.flags.writeable
    same(again.most_similar("词3"), wv.most_similar("词3"))


def test_published_vectors_cannot_be_trained(fifty_lines) -> None:
    corpus = polyseme.Corpus.from_sentences(fifty_lines)
    with pytest.raises(OptionError, match="polyseme methods"):
        polyseme.train("vectors", corpus)


@pytest.mark.parametrize(
    "parts",
    [
        Parts({}, {}),
        Parts({"vectors": np.ones((2, 2), np.float32), "counts": np.ones(3, np.int64)}, {"vocab": ["a", "b", "c"]}),
        Parts({"vectors": np.ones((2, 2), np.float32), "counts": np.ones(3, np.int64)}, {"vocab": ["a", "b"]}),
        Parts({"vectors": np.ones((2, 2), np.int32), "counts": np.ones(2, np.int64)}, {"vocab": ["a", "b"]}),
    ],
)
def test_a_folder_with_parts_that_do_not_fit_is_refused(parts: Parts) -> None:
    with pytest.raises(FormatError):
        WordVectors.from_parts(None, parts, About())
