"""GloVe: counts, cost and steps are those of a plain computation; interruption and further training."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

import polyseme
from polyseme.errors import TrainingError
from polyseme.nouns import silent
from polyseme.text.corpus import Corpus
from polyseme.words.cooccurrence import count_pairs
from polyseme.words.further import plan_words
from polyseme.words.kernels.glove import train_tiles
from polyseme.words.kernels.random import random_state
from polyseme.words.kernels.rows import padded
from polyseme.words.word2vec import read_only

SMALL = {"dim": 16, "epochs": 4, "min_count": 1, "seed": 7, "threads": 1}


def random_corpus(n_words, n_tokens, seed=0):
    random = np.random.default_rng(seed)
    words = random.integers(0, n_words, n_tokens)
    cuts = np.sort(random.integers(0, n_tokens, n_tokens // 20))
    return Corpus.from_sentences([[f"w{i}" for i in part] for part in np.split(words, cuts) if len(part)])


def counted_plainly(corpus, plan, window, symmetric, harmonic):
    """The count of each pair, by the definition."""
    pairs = defaultdict(float)
    for sentence in corpus:
        ids = [i for i in plan.vocabulary.ids(sentence).tolist() if i < len(plan.vocabulary)]
        for at, word in enumerate(ids):
            for distance in range(1, min(window, at) + 1):
                weight = 1 / distance if harmonic else 1.0
                pairs[word, ids[at - distance]] += weight
                if symmetric:
                    pairs[ids[at - distance], word] += weight
    return pairs


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("harmonic", [True, False])
def test_counts_are_those_of_the_definition(symmetric, harmonic):
    corpus = random_corpus(1200, 3000)
    plan = plan_words(corpus, 2, None, None)
    options = {"window": 4, "symmetric": symmetric, "harmonic": harmonic}
    cells = count_pairs(corpus, plan, **options, memory=64, progress=silent)
    expected = counted_plainly(corpus, plan, **options)
    rows, columns = cells.indices()
    found = {(i, j): x for i, j, x in zip(rows.tolist(), columns.tolist(), cells.sums.tolist(), strict=True)}
    if symmetric:
        assert all(i <= j for i, j in found)
        expected = {pair: x for pair, x in expected.items() if pair[0] <= pair[1]}
    assert found.keys() == expected.keys()
    assert all(found[pair] == pytest.approx(x, rel=1e-6) for pair, x in expected.items())


def test_counts_that_do_not_fit_the_memory_are_merged_on_disk_to_the_same():
    corpus = random_corpus(2000, 30_000)
    plan = plan_words(corpus, 1, None, None)
    options = {"window": 5, "symmetric": True, "harmonic": True, "progress": silent}
    at_once, in_runs = count_pairs(corpus, plan, memory=256, **options), count_pairs(corpus, plan, memory=1, **options)
    assert at_once.runs == 1
    assert in_runs.runs > 3
    np.testing.assert_array_equal(in_runs.keys, at_once.keys)
    np.testing.assert_allclose(in_runs.sums, at_once.sums, rtol=1e-6)


def test_a_pass_over_the_cells_is_that_of_numpy():
    n, dim, x_max, alpha, lr = 3, 10, 5.0, 0.75, 0.1
    cells = {(0, 1): 7.0, (0, 2): 0.5, (1, 1): 2.0}  # each row and column of weights meets one cell in each direction
    random = np.random.default_rng(1)
    weights = [padded(n, 24) for _ in range(4)]
    for matrix in weights[:2]:
        matrix[:, :dim], matrix[:, 16] = random.normal(size=(n, dim)), random.normal(size=n)
    for squares in weights[2:]:
        squares[:] = 1
    w, c = (m[:, :dim].astype(np.float64) for m in weights[:2])
    b, d = (m[:, 16].astype(np.float64) for m in weights[:2])
    expected = 0.0
    for (i, j), x in [((0, 1), 7.0)]:  # one cell, one direction
        diff = w[i] @ c[j] + b[i] + d[j] - np.log(x)
        f = min(1.0, (x / x_max) ** alpha)
        expected += 0.5 * f * diff**2
        step_w, step_c = f * diff * c[j], f * diff * w[i]
        w[i], c[j] = w[i] - lr * step_w, c[j] - lr * step_c  # AdaGrad's sums are 1 at first
        b[i], d[j] = b[i] - lr * f * diff, d[j] - lr * f * diff
        squares_w = 1 + step_w**2
    result = np.zeros(2)
    keys = read_only(np.array([(0 << 9) | 1], dtype=np.uint64))
    sums = read_only(np.array([cells[0, 1]], dtype=np.float32))
    bounds, tiles = np.array([0, 1]), np.array([0])
    train_tiles(keys, sums, bounds, tiles, 1, False, *weights, x_max, alpha, lr, random_state(1), result)
    assert result[1] == 1
    assert result[0] == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(weights[0][:, :dim], w, atol=1e-5)
    np.testing.assert_allclose(weights[1][:, :dim], c, atol=1e-5)
    np.testing.assert_allclose(weights[0][:, 16], b, atol=1e-5)
    np.testing.assert_allclose(weights[1][:, 16], d, atol=1e-5)
    np.testing.assert_allclose(weights[2][0, :dim], squares_w, rtol=1e-5)


def test_the_loss_is_the_cost_of_the_paper(topics):
    model = polyseme.train("glove", topics, **{**SMALL, "epochs": 30, "x_max": 10.0})
    plan = plan_words(topics, 1, None, None)
    pairs = counted_plainly(topics, plan, 10, True, True)
    i, j = (np.array(column) for column in zip(*pairs, strict=True))
    x = np.array(list(pairs.values()))
    predicted = np.einsum("ij,ij->i", model.input[i], model.output[j]) + model.biases[0][i] + model.biases[1][j]
    cost = 0.5 * np.minimum(1, (x / 10) ** 0.75) * (predicted - np.log(x)) ** 2
    losses = [record["loss"] for record in model.about.curve]
    assert losses[-1] < losses[0] / 4
    # The last epoch's loss was measured while it learned, so what is left afterwards is a little less.
    assert losses[-1] * 0.7 < cost.mean() < losses[-1] * 1.05


@pytest.mark.parametrize("threads", [1, 2])
def test_words_of_one_topic_come_together(topics, topic_margin, threads):
    model = polyseme.train("glove", topics, **{**SMALL, "epochs": 300, "x_max": 10.0, "threads": threads})
    assert topic_margin(model) > 0.2
    np.testing.assert_array_equal(model.vectors, model.input + model.output)


def test_an_interrupted_training_goes_on_to_the_same_bits(topics, tmp_path):
    def progress(what, done, total, /, **facts):
        if what == "training" and facts["epoch"] == 3:
            raise KeyboardInterrupt

    whole = polyseme.train("glove", topics, **SMALL)
    with pytest.raises(KeyboardInterrupt):
        polyseme.train("glove", topics, out=tmp_path / "m", progress=progress, **SMALL)
    resumed = polyseme.train("glove", topics, out=tmp_path / "m", resume=True, **SMALL)
    np.testing.assert_array_equal(resumed.input, whole.input)
    np.testing.assert_array_equal(resumed.biases, whole.biases)


def test_further_training_keeps_old_words_and_adds_new_ones(topics):
    old = polyseme.train("glove", topics, **SMALL)
    more = Corpus.from_sentences([["猫", "老虎", "狗"]] * 9)
    new = polyseme.train("glove", more, start=old, **{**SMALL, "lr": 1e-7})
    assert set(new.index_to_key) == {*old.index_to_key, "老虎"}
    np.testing.assert_allclose(new["一"], old["一"], atol=1e-5)
    np.testing.assert_allclose(new.biases[:, new.key_to_index["一"]], old.biases[:, old.key_to_index["一"]], atol=1e-5)


def test_words_that_never_meet_are_told_in_one_line():
    with pytest.raises(TrainingError, match="in the same sentence"):
        polyseme.train("glove", Corpus.from_sentences([["猫"], ["狗"]]), **SMALL)
