"""The blockwise search gives what sorting every cosine gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyseme.nouns import unit_rows
from polyseme.words import nearest
from polyseme.words.kernels import nearest as kernels_nearest

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
