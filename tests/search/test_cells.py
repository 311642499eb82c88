"""The approximate search over all words finds what comparing everything finds, as often as it says."""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
from threadpoolctl import threadpool_limits

from polyseme.arrays import best_places
from polyseme.interfaces import silent
from polyseme.search.occurrences.cells import TARGET, build_cells
from polyseme.search.occurrences.short_codes import Projection, nearest
from polyseme.search.occurrences.sorting import Places


def random_codes(n: int, dim: int, seed: int = 3) -> tuple[np.ndarray, Projection]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(40, dim))
    states = (centres[rng.integers(0, 40, n)] + 0.8 * rng.normal(size=(n, dim))).astype(np.float32)
    projection = Projection.fit(states[:2000], dim=dim, precision="int8")
    return projection.codes(states), projection


def test_a_projection_is_the_same_to_the_bit_with_any_number_of_threads() -> None:
    states = np.random.default_rng(3).normal(size=(5000, 200)).astype(np.float32)
    fitted = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            fitted.append(Projection.fit(states, dim=50, precision="int8"))
    for name in ("mean", "deviation", "directions", "step"):
        np.testing.assert_array_equal(getattr(fitted[0], name), getattr(fitted[1], name))


def test_recall_is_what_it_was_measured_to_be(tmp_path: Path) -> None:
    codes, projection = random_codes(6000, 24)
    cells, recall = build_cells(codes, projection.step, tmp_path / "cells.npy", seed=1, progress=silent)
    assert recall >= TARGET
    assert cells.probes < len(cells.centres)  # it is an approximation, not a scan of everything
    assert sorted(cells.rows.tolist()) == list(range(6000))
    vectors = codes.astype(np.float64) * projection.step
    rng = np.random.default_rng(99)  # other queries than those of the measurement
    found = []
    for query in rng.choice(6000, 200, replace=False):
        scores = vectors @ (vectors[query] / np.linalg.norm(vectors[query]))
        scores[query] = -np.inf
        exact = np.argsort(-scores)[:10]
        candidates = cells.candidates((vectors[query] / np.linalg.norm(vectors[query])).astype(np.float32))
        found.append(np.isin(exact, candidates).mean())
    assert abs(np.mean(found) - recall) < 0.04


def test_the_centres_are_as_near_as_those_of_faiss(tmp_path: Path) -> None:
    codes, projection = random_codes(6000, 24)
    vectors = projection.decode(codes)
    cells, _ = build_cells(codes, projection.step, tmp_path / "cells.npy", seed=1, progress=silent)
    theirs = faiss.Kmeans(24, len(cells.centres), niter=8, seed=1, spherical=True, min_points_per_centroid=1)
    theirs.train(vectors)
    ours, wanted = ((vectors @ centres.T).max(axis=1) for centres in (cells.centres, theirs.centroids))
    assert 1 - ours.mean() < 1.05 * (1 - wanted.mean())
    number = np.repeat(np.arange(len(cells.centres)), np.diff(cells.offsets))
    np.testing.assert_array_equal(number, (vectors[cells.rows] @ cells.centres.T).argmax(axis=1))


def test_exact_search_agrees_with_sorting_everything() -> None:
    codes, projection = random_codes(3000, 12)
    vectors = projection.decode(codes[:20])
    scores = vectors.astype(np.float64) @ (codes.astype(np.float64) * projection.step).T
    expected = np.sort(scores, axis=1)[:, ::-1][:, :7]
    rows = nearest(codes, projection.step, vectors, topn=7)
    assert np.allclose(np.take_along_axis(scores, rows, axis=1), expected, atol=1e-5)


def test_top_is_stable_among_equals() -> None:
    values = np.array([1, 3, 3, 2, 3], dtype=np.float32)
    assert best_places(values, 3).tolist() == [1, 2, 4]
    assert best_places(values, 9).tolist() == [1, 2, 4, 3, 0]


def test_counting_sort_in_blocks_is_a_stable_sort() -> None:
    keys = np.random.default_rng(0).integers(0, 9, 500)
    places = Places(np.bincount(keys, minlength=9))
    taken = np.concatenate([places.take(keys[i : i + 37]) for i in range(0, 500, 37)])
    expected = np.empty(500, dtype=np.int64)
    expected[np.argsort(keys, kind="stable")] = np.arange(500)
    assert taken.tolist() == expected.tolist()
