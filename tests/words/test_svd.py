"""Counted vectors: the matrix is that of the formula, the factors are those of LAPACK."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import polyseme
from polyseme.errors import TrainingError
from polyseme.text.corpus import Corpus
from polyseme.types import silent
from polyseme.words.cooccurrence import count
from polyseme.words.growth import plan_words
from polyseme.words.svd import ppmi, symmetric_matrix

SMALL = {"dim": 8, "min_count": 1, "threads": 1}


def test_the_counts_are_a_symmetric_matrix():
    corpus = Corpus.from_sentences([["a", "a", "b"], ["b", "c"]])
    plot = plan_words(corpus, 1, None, None)
    cells = count(corpus, plot, window=2, symmetric=True, harmonic=False, memory=16, progress=silent)
    assert plot.vocabulary.words == ["a", "b", "c"]
    # a a: once in each order; a b: the first and the second a; b c: once
    np.testing.assert_array_equal(symmetric_matrix(cells).toarray(), [[2, 2, 0], [2, 0, 1], [0, 1, 0]])


def test_information_worked_out_by_hand():
    counts = csr_array(np.array([[2.0, 2.0, 0.0], [2.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    # Without smoothing: log(x · 8 / (row · column)), rows and columns being 4, 3, 1.
    plain = [[0, np.log(16 / 12), 0], [np.log(16 / 12), 0, np.log(8 / 3)], [0, np.log(8 / 3), 0]]
    np.testing.assert_allclose(ppmi(counts, 1.0, 1.0).toarray(), plain, atol=1e-6)
    # Shifted by log 2: 4/3 falls below 1.
    shifted = [[0, 0, 0], [0, 0, np.log(4 / 3)], [0, np.log(4 / 3), 0]]
    np.testing.assert_allclose(ppmi(counts, 1.0, 2.0).toarray(), shifted, atol=1e-6)
    # Columns smoothed to their square roots 2, 1.7320508, 1, whose sum is 4.7320508.
    smooth = ppmi(counts, 0.5, 1.0).toarray()
    assert smooth[1, 2] == pytest.approx(np.log(1 * 4.7320508 / (3 * 1)), abs=1e-6)
    assert smooth[0, 1] == pytest.approx(np.log(2 * 4.7320508 / (4 * 1.7320508)), abs=1e-6)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_the_factors_are_those_of_lapack(topics, exponent):
    model = polyseme.train("svd", topics, **SMALL, exponent=exponent, iterations=40)
    plot = plan_words(topics, 1, None, None)
    cells = count(topics, plot, window=2, symmetric=True, harmonic=False, memory=16, progress=silent)
    matrix = ppmi(symmetric_matrix(cells), 0.75, 1.0).toarray()
    left, values, _ = np.linalg.svd(matrix)
    expected = left[:, :8] * values[:8] ** exponent
    np.testing.assert_allclose(np.abs(model.vectors), np.abs(expected), atol=2e-3)
    left_out = 1 - (values[:18] ** 2).sum() / (matrix**2).sum()
    assert model.about.curve[-1]["loss"] == pytest.approx(left_out, abs=1e-5)


def test_words_of_one_topic_come_together(topics, topic_margin):
    assert topic_margin(polyseme.train("svd", topics, **SMALL)) > 0.3


def test_an_interrupted_training_goes_on_to_the_same_bits(topics, tmp_path):
    def progress(what, done, total, /, **facts):
        if what == "training" and done == 3:
            raise KeyboardInterrupt

    whole = polyseme.train("svd", topics, **SMALL)
    with pytest.raises(KeyboardInterrupt):
        polyseme.train("svd", topics, out=tmp_path / "m", progress=progress, **SMALL)
    resumed = polyseme.train("svd", topics, out=tmp_path / "m", resume=True, **SMALL)
    np.testing.assert_array_equal(resumed.vectors, whole.vectors)


def test_more_dimensions_than_words_are_filled_with_zeros():
    model = polyseme.train("svd", Corpus.from_sentences([["猫", "狗", "鱼"]] * 4), dim=10, min_count=1)
    assert model.vectors.shape == (3, 10)
    assert not model.vectors[:, 3:].any()


def test_it_cannot_be_trained_further(topics):
    model = polyseme.train("svd", topics, **SMALL)
    with pytest.raises(TrainingError, match="train anew"):
        polyseme.train("svd", topics, start=model, **SMALL)
