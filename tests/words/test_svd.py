"""Counted vectors: the matrix is that of the formula, the factors are those of LAPACK."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.decomposition import PCA

import polyseme
from polyseme.errors import FormatError, TrainingError
from polyseme.interfaces import silent
from polyseme.text.corpus import Corpus
from polyseme.words.cooccurrence import count_pairs
from polyseme.words.counts import half_matrix, ppmi, symmetric_matrix
from polyseme.words.svd import Svd
from polyseme.words.vectors import WordVectors
from polyseme.words.vocabulary_plan import plan_words

SMALL = {"dim": 8, "min_count": 1, "threads": 1}


def test_the_counts_are_a_symmetric_matrix():
    corpus = Corpus.from_sentences([["a", "a", "b"], ["b", "c"]])
    plan = plan_words(corpus, 1, None, None)
    cells = count_pairs(corpus, plan, window=2, symmetric=True, harmonic=False, memory=16, progress=silent)
    assert plan.vocabulary.words == ["a", "b", "c"]
    # a a: once in each order; a b: the first and the second a; b c: once
    np.testing.assert_array_equal(symmetric_matrix(half_matrix(cells)).toarray(), [[2, 2, 0], [2, 0, 1], [0, 1, 0]])


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
    plan = plan_words(topics, 1, None, None)
    cells = count_pairs(topics, plan, window=2, symmetric=True, harmonic=False, memory=16, progress=silent)
    matrix = ppmi(symmetric_matrix(half_matrix(cells)), 0.75, 1.0).toarray()
    left, values, _ = np.linalg.svd(matrix)
    expected = left[:, :8] * values[:8] ** exponent
    np.testing.assert_allclose(np.abs(model.vectors), np.abs(expected), atol=2e-3)
    left_out = 1 - (values[:18] ** 2).sum() / (matrix**2).sum()
    assert model.about.curve[-1]["loss"] == pytest.approx(left_out, abs=1e-5)


@pytest.mark.parametrize("cells", ["raw", "log", "ppmi"])
def test_centred_factors_are_principal_components(topics, cells):
    rows = polyseme.train("counts", topics, min_count=1, cells=cells)
    model = polyseme.train("svd", topics, **SMALL, cells=cells, centre=True, exponent=1.0, iterations=60)
    expected = PCA(8, svd_solver="full").fit_transform(rows[rows.index_to_key])
    np.testing.assert_allclose(np.abs(model.vectors), np.abs(expected), rtol=1e-3, atol=2e-3 * np.abs(expected).max())


def test_what_the_factors_leave_out_are_the_smaller_singular_values(topics):
    rows = polyseme.train("counts", topics, min_count=1)
    values = np.linalg.svd(rows[rows.index_to_key], compute_uv=False)
    for dim in (1, 2):  # so that ten spare directions still leave some out
        model = polyseme.train("svd", topics, dim=dim, min_count=1, threads=1, iterations=60)
        left_out = (values[dim + 10 :] ** 2).sum() / (values**2).sum()  # Eckart and Young
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


def random_sentences(n_words, n_sentences, seed):
    random = np.random.default_rng(seed)
    ranks = random.zipf(1.3, (n_sentences, 12)) % n_words
    return [[f"w{i}" for i in row] for row in ranks]


@pytest.mark.parametrize("weights", ["flat", "harmonic"])
def test_trained_further_it_is_the_model_of_both_texts(tmp_path, weights):
    first, second = random_sentences(900, 400, seed=1), random_sentences(1500, 300, seed=2)
    # Words of equal count may stand in another order, so the random start differs: iterate until it does not matter.
    options = {**SMALL, "weights": weights, "window": 3, "iterations": 150}
    polyseme.train("svd", Corpus.from_sentences(first), out=tmp_path / "first", **options)
    grown = polyseme.train("svd", Corpus.from_sentences(second), start=tmp_path / "first", **options)
    at_once = polyseme.train("svd", Corpus.from_sentences(first + second), **options)
    old = polyseme.load(tmp_path / "first")
    assert len(at_once) > len(old) > 500  # more than one tile of pairs, and words that only the second text has
    assert old.index_to_key != grown.index_to_key[: len(old)]  # words change places, and pairs their order with them
    assert set(grown.index_to_key) == set(at_once.index_to_key)
    assert named_counts(grown) == pytest.approx(named_counts(at_once), rel=1e-6)
    np.testing.assert_allclose(grown[at_once.index_to_key], at_once.vectors, atol=1e-4)
    assert grown.vocabulary.counts.sum() == 12 * 700


def named_counts(model):
    """{pair of words: how often they co-occur}"""
    words, pairs = model.index_to_key, model.pairs
    rows = np.repeat(np.arange(len(words)), np.diff(pairs.starts)).tolist()
    cells = zip(rows, pairs.columns.tolist(), pairs.sums.tolist(), strict=True)
    return {tuple(sorted((words[i], words[j]))): x for i, j, x in cells}


def test_training_further_twice_adds_twice():
    texts = [random_sentences(200, 60, seed) for seed in (1, 2, 3)]
    model = None
    for text in texts:
        model = polyseme.train("svd", Corpus.from_sentences(text), start=model, **SMALL)
    at_once = polyseme.train("svd", Corpus.from_sentences([line for text in texts for line in text]), **SMALL)
    assert named_counts(model) == named_counts(at_once)


def test_an_interrupted_further_training_goes_on_to_the_same_bits(topics, tmp_path):
    def progress(what, done, total, /, **facts):
        if what == "training" and done == 3:
            raise KeyboardInterrupt

    old = polyseme.train("svd", topics, **SMALL)
    more = Corpus.from_sentences([["猫", "老虎", "狗"], ["一", "老虎"]] * 9)
    whole = polyseme.train("svd", more, start=old, **SMALL)
    with pytest.raises(KeyboardInterrupt):
        polyseme.train("svd", more, start=old, out=tmp_path / "m", progress=progress, **SMALL)
    other = polyseme.train("svd", Corpus.from_sentences([*topics, *topics]), **SMALL)
    with pytest.raises(TrainingError, match="model to train further"):
        polyseme.train("svd", more, start=other, out=tmp_path / "m", resume=True, **SMALL)
    resumed = polyseme.train("svd", more, start=old, out=tmp_path / "m", resume=True, **SMALL)
    np.testing.assert_array_equal(resumed.vectors, whole.vectors)


@pytest.mark.parametrize("changed", [{"window": 3}, {"weights": "harmonic"}, {"dim": 9}])
def test_counts_of_another_kind_are_not_added(topics, changed):
    model = polyseme.train("svd", topics, **SMALL)
    [name] = changed
    with pytest.raises(TrainingError, match=f"give {name}="):
        polyseme.train("svd", topics, start=model, **{**SMALL, **changed})


def test_a_model_without_counts_says_what_to_do(topics, tmp_path):
    model = polyseme.train("svd", topics, **SMALL)
    for start in (WordVectors(model.vocabulary, model.vectors), without_pairs(model)):
        start.save(tmp_path / "m", force=True)
        opened = polyseme.load(tmp_path / "m")
        np.testing.assert_array_equal(opened.vectors, model.vectors)
        with pytest.raises(TrainingError, match=r"no counts .* train again"):
            polyseme.train("svd", topics, start=opened, **SMALL)


def without_pairs(model):
    return Svd(model.vocabulary, model.vectors, options=model.options, about=model.about, pairs=None)


@pytest.mark.parametrize(
    "altered",
    [
        lambda pairs: pairs._replace(columns=pairs.columns + 99),
        lambda pairs: pairs._replace(columns=pairs.columns - 99),
        lambda pairs: pairs._replace(starts=pairs.starts[::-1].copy()),
        lambda pairs: pairs._replace(starts=pairs.starts + (1 << 40)),
        lambda pairs: pairs._replace(sums=-pairs.sums),
        lambda pairs: pairs._replace(sums=pairs.sums * np.float32(np.nan)),
        lambda pairs: pairs._replace(sums=pairs.sums[:-1]),
        lambda pairs: pairs._replace(sums=pairs.sums.astype(np.float64)),
        lambda pairs: pairs._replace(starts=pairs.starts[1:]),
    ],
)
def test_altered_counts_are_refused_in_one_line(topics, tmp_path, altered):
    model = polyseme.train("svd", topics, **SMALL)
    model.pairs = altered(model.pairs)
    model.save(tmp_path / "m")
    with pytest.raises(FormatError, match="altered") as error:
        polyseme.train("svd", topics, start=tmp_path / "m", **SMALL)
    assert "\n" not in str(error.value)


def test_counts_are_mapped_and_take_eight_bytes_a_pair(topics, tmp_path):
    model = polyseme.train("svd", topics, out=tmp_path / "m", **SMALL)
    opened = polyseme.load(tmp_path / "m")
    assert not opened.pairs.sums.flags.owndata
    assert not opened.pairs.sums.flags.writeable
    n_pairs = len(model) * (len(model) + 1) // 2  # in this text every word meets every other and itself
    assert opened.pairs.columns.nbytes + opened.pairs.sums.nbytes == 8 * n_pairs
