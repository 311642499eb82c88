"""WordRank: steps, ranks and objective are those of plain loops over all words and contexts."""

from __future__ import annotations

import numpy as np
import pytest

import polyseme
from polyseme.interfaces import silent
from polyseme.text.corpus import Corpus
from polyseme.words.cooccurrence import Cooccurrence, count_pairs
from polyseme.words.kernels.cells import _step, hinge_ranks
from polyseme.words.kernels.rows import below, random_state
from polyseme.words.vocabulary_plan import plan_words
from polyseme.words.wordrank import WordRankOptions, cell_weights, exact_ranks, rho, rho_slope

SMALL = {"dim": 8, "min_count": 1, "threads": 1}


def test_ranks_are_those_of_comparing_every_pair_of_contexts():
    random = np.random.default_rng(0)
    scores = random.normal(size=200).astype(np.float32)
    scores[50] = scores[60] - 1  # on the edge: a loss of exactly 0
    asked = random.choice(200, 37, replace=False)
    ranks = np.empty(37)
    hinge_ranks(scores, asked, ranks)
    expected = [np.maximum(0, 1 - scores[c].astype(float) + scores).sum() for c in asked]
    np.testing.assert_allclose(ranks, expected, rtol=1e-6)
    assert (ranks >= 1).all()  # the context itself is among the rivals


def counted(corpus: Corpus) -> Cooccurrence:
    plan = plan_words(corpus, 1, None, None)
    return count_pairs(corpus, plan, window=15, symmetric=True, harmonic=True, memory=16, progress=silent)


def objective(cells: Cooccurrence, words: np.ndarray, contexts: np.ndarray, options: WordRankOptions) -> float:
    """J by brute force over all (w, c) and all c'."""
    total = 0.0
    r = cell_weights(cells.sums, options)
    for cell, (i, j) in enumerate(zip(*cells.indices(), strict=True)):
        for w, c in [(i, j), (j, i)] if i != j else [(i, j)]:
            scores = words[w].astype(float) @ contexts.T.astype(float)
            rank = sum(max(0.0, 1 - scores[c] + rival) for rival in scores)
            total += r[cell] * float(rho(np.array((rank + options.rank_shift) / options.rank_scale), options))
    return total


def test_exact_ranks_give_the_objective_of_brute_force(topics):
    options, cells = WordRankOptions(), counted(topics)
    random = np.random.default_rng(1)
    words, contexts = (random.normal(size=(cells.n_words, 8)).astype(np.float32) for _ in range(2))
    ranked = exact_ranks(cells, [words, contexts], options)
    rows, columns = cells.indices()
    r = cell_weights(cells.sums, options)
    both = rho(ranked, options) * r[:, None]
    found = both[:, 0].sum() + both[rows != columns, 1].sum()
    assert found == pytest.approx(objective(cells, words, contexts, options), rel=1e-5)


@pytest.mark.parametrize("name", ["identity", "log", "inverse-log", "power"])
def test_rho_is_concave_and_its_slope_is_its_derivative(name):
    options = WordRankOptions(rho=name)
    x = np.linspace(1.0, 40, 200)
    step = 1e-5
    measured = (rho(x + step, options) - rho(x - step, options)) / (2 * step)
    np.testing.assert_allclose(rho_slope(x, options), measured, rtol=1e-4)
    # Linearised at any point it is an upper bound that touches there.
    for at in (1.0, 7.0):
        bound = rho(np.array(at), options) + rho_slope(np.array(at), options) * (x - at)
        assert (bound >= rho(x, options) - 1e-9).all()


def test_a_step_goes_down_the_gradient_of_the_hinge():
    random = np.random.default_rng(2)
    words, contexts = (random.normal(size=(6, 8)).astype(np.float32) * 0.3 for _ in range(2))
    i, j, coefficient, lr = 2, 4, 0.7, 1e-4
    state = random_state(5)
    drawn = [int(below(state, 5)) for _ in range(3)]
    rivals = [other + (other >= j) for other in drawn]

    def loss(words: np.ndarray, contexts: np.ndarray) -> float:
        score = words[i] @ contexts[j]
        return coefficient / 3 * sum(max(0.0, 1 - score + words[i] @ contexts[c]) for c in rivals)

    before = words.astype(float), contexts.astype(float)
    gradients = []
    for which in (0, 1):
        gradient = np.zeros((6, 8))
        for place in np.ndindex(6, 8):
            moved = [matrix.copy() for matrix in before]
            moved[which][place] += 1e-6
            gradient[place] = (loss(*moved) - loss(*before)) / 1e-6
        gradients.append(gradient)
    found = _step(words, i, contexts, j, coefficient, 3, lr, np.zeros(8, np.float32), random_state(5))
    assert found == pytest.approx(loss(*before), rel=1e-4)
    for matrix, was, gradient in zip((words, contexts), before, gradients, strict=True):
        np.testing.assert_allclose(matrix - was, -lr * gradient, atol=2e-7)
    assert np.abs(words - before[0]).max() > 1e-5


@pytest.mark.parametrize("name", ["identity", "log", "inverse-log", "power"])
def test_the_objective_falls_with_training(topics, name):
    options = WordRankOptions(**SMALL, rho=name)
    cells = counted(topics)
    values = []
    for epochs in (1, 10, 40):
        model = polyseme.train("wordrank", topics, **SMALL, rho=name, epochs=epochs, period=5)
        values.append(objective(cells, model.input, model.output, options))
    assert values[0] > values[1] > values[2]


def test_words_of_one_topic_come_together(topics, topic_margin):
    assert topic_margin(polyseme.train("wordrank", topics, **SMALL)) > 0.3


def test_an_interrupted_training_goes_on_to_the_same_bits(topics, tmp_path):
    def progress(what, done, total, /, **facts):
        if what == "training" and facts.get("epoch") == 12:
            raise KeyboardInterrupt

    whole = polyseme.train("wordrank", topics, **SMALL)
    with pytest.raises(KeyboardInterrupt):
        polyseme.train("wordrank", topics, out=tmp_path / "m", progress=progress, **SMALL)
    resumed = polyseme.train("wordrank", topics, out=tmp_path / "m", resume=True, **SMALL)
    np.testing.assert_array_equal(resumed.input, whole.input)
    np.testing.assert_array_equal(resumed.output, whole.output)


def test_words_as_frequent_as_in_real_text_do_not_let_it_diverge():
    random = np.random.default_rng(0)
    ranks = np.minimum(random.zipf(1.3, 60_000), 2000)
    corpus = Corpus.from_sentences([[f"w{rank}" for rank in line] for line in ranks.reshape(-1, 20)])
    model = polyseme.train("wordrank", corpus, dim=16, epochs=3, threads=1)
    assert np.abs(model.vectors).max() < 100
