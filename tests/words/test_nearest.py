"""The blockwise search gives what sorting every cosine gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyseme.arrays import unit_rows
from polyseme.errors import OptionError
from polyseme.search import TextIndex
from polyseme.text.vocabulary import Vocabulary
from polyseme.words import nearest
from polyseme.words.kernels import nearest as kernels_nearest
from polyseme.words.vectors import NearestQuestion, WordVectors, nearest_words

WAYS = {"numpy": nearest.nearest_rows, "compiled": kernels_nearest.nearest_rows}
both = pytest.mark.parametrize("nearest_rows", WAYS.values(), ids=WAYS.keys())


@both
@pytest.mark.parametrize(
    ("rows", "topn"), [(1, 3), (70, 5), (8192, 11), (8192 * 2 + 64, 1), (20_001, 40), (9000, 9000)]
)
def test_the_best_of_all_cosines_in_order(nearest_rows: Any, rows: int, topn: int) -> None:
    rng = np.random.default_rng(rows)
    matrix = rng.normal(size=(rows, 12)).astype(np.float32)
    matrix[rows // 2] = 0  # a zero row has cosine 0 with everything
    questions = unit_rows(rng.normal(size=(5, 12)).astype(np.float32))
    norms = np.linalg.norm(matrix, axis=1)
    inverse = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    places, scores = nearest_rows(matrix, inverse, questions, topn)
    every = questions.astype(np.float64) @ unit_rows(matrix).astype(np.float64).T
    expected = np.sort(-every, axis=1)[:, :topn] * -1
    assert places.shape == (5, min(topn, rows))
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(every, places, axis=1), expected, atol=1e-6)


@both
def test_of_equal_cosines_the_lower_row_comes_first(nearest_rows: Any) -> None:
    matrix = np.ones((300, 4), dtype=np.float32)
    inverse = np.full(300, 0.5, dtype=np.float32)
    places, _ = nearest_rows(matrix, inverse, unit_rows(matrix[:1]), 300)
    assert places[0].tolist() == list(range(300))


@both
def test_rows_that_are_not_numbers_are_never_found(nearest_rows: Any) -> None:
    matrix = np.random.default_rng(0).normal(size=(20_000, 4)).astype(np.float32)
    matrix[::2] = np.nan
    norms = np.linalg.norm(matrix, axis=1)
    inverse = np.where(norms > 0, 1 / norms, 0).astype(np.float32)
    places, scores = nearest_rows(matrix, inverse, unit_rows(matrix[1:3:2]), 30)
    assert (places % 2 == 1).all()
    assert np.isfinite(scores).all()
    few, last = nearest_rows(matrix[:4], inverse[:4], unit_rows(matrix[1:2]), 4)
    assert few[0, :2].tolist() == sorted(few[0, :2].tolist(), key=lambda p: -float(last[0, few[0].tolist().index(p)]))
    assert np.isneginf(last[0, 2:]).all()


@both
def test_rows_that_get_better_and_better_are_all_seen(nearest_rows: Any) -> None:
    angles = np.linspace(np.pi, 0, 60_000)
    matrix = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    places, _ = nearest_rows(matrix, np.ones(60_000, dtype=np.float32), np.array([[1, 0]], dtype=np.float32), 3)
    assert sorted(places[0].tolist())[-1] >= 59_990


def with_odd_rows() -> WordVectors:
    """Twelve words along a half circle, of which two have no finite vector."""
    angles = np.linspace(0, np.pi / 2, 12)
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    rows[1], rows[4, 0] = np.nan, np.inf
    return WordVectors(Vocabulary([f"w{i}" for i in range(12)], np.arange(12, 0, -1)), rows)


def lines_of(folder: Path, texts: list[str]) -> Path:
    (folder / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    return folder / "texts.txt"


GOOD = [f"w{i}" for i in (2, 3, 5, 6, 7, 8, 9, 10, 11)]
BY_W2 = [f"w{i}" for i in (2, 3, 0, 5, 6, 7, 8, 9, 10, 11)]


@pytest.mark.parametrize("topn", [3, 11, 50])
def test_a_word_without_a_finite_vector_is_nobodys_neighbour(topn: int, tmp_path: Path) -> None:
    vectors = with_odd_rows()
    (served,) = nearest_words(vectors, [NearestQuestion(("w0",), (), topn)])
    assert [word for word, _ in vectors.most_similar("w0", topn=topn)] == GOOD[:topn]
    assert [word for word, _ in vectors.most_similar_batch(["w0"], topn)[0]] == GOOD[:topn]
    assert [word for word, _ in served] == GOOD[:topn]  # type: ignore[union-attr]
    assert set(dict(vectors.analogy("w0", "w2", "w3", "add", topn))) <= set(GOOD[2:])
    assert set(dict(vectors.analogy("w0", "w2", "w3", "mul", topn))) <= set(GOOD[2:])
    texts = TextIndex.build(vectors, lines_of(tmp_path, vectors.index_to_key))
    assert [hit.text for hit in texts.search("w2", topn)] == BY_W2[:topn]


@pytest.mark.parametrize("word", ["w1", "w4"])
def test_asking_for_the_neighbours_of_such_a_word_is_told_in_one_line(word: str, tmp_path: Path) -> None:
    vectors = with_odd_rows()
    good, bad = nearest_words(vectors, [NearestQuestion(("w0",), (), 2), NearestQuestion((word,), ("w0",), 2)])
    assert [found for found, _ in good] == GOOD[:2]  # type: ignore[union-attr]
    assert "not finite" in str(bad)
    texts = TextIndex.build(vectors, lines_of(tmp_path, ["w0", "w2"]))
    questions: list[Callable[[], Any]] = [
        lambda: vectors.most_similar(word),
        lambda: vectors.most_similar(["w0"], [word]),
        lambda: vectors.most_similar_batch(["w0", word]),
        lambda: vectors.most_similar(np.array([np.nan, 1], dtype=np.float32)),
        lambda: vectors.analogy("w0", word, "w2"),
        lambda: vectors.analogy("w0", word, "w2", "mul"),
        lambda: texts.search(word),
    ]
    for question in questions:
        with pytest.raises(OptionError, match=r"^the vector of .* not finite[^\n]*$"):
            question()
