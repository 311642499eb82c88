"""GloVe: counts, cost and steps are those of a plain computation; interruption and further training."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

import polyseme
from polyseme.errors import TrainingError
from polyseme.interfaces import silent
from polyseme.text.corpus import Corpus
from polyseme.words.cooccurrence import count_pairs
from polyseme.words.kernels.cells import train_glove_tiles
from polyseme.words.kernels.rows import padded, random_state
from polyseme.words.vocabulary_plan import plan_words
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


# Weights and AdaGrad's sums that the paper's program (glove.c) computed in four passes over the cells of TINY, at
# x_max 5, alpha 0.75 and a rate of 0.5, from the weights START: a row for each of three words, then for each of three
# contexts; two components and the bias.
TINY = {(0, 1): 7.0, (2, 2): 0.5}  # with (1, 0), no two cells share a row, so that their order does not matter
START = np.array([
    [-0.9, -0.2, 0.5], [-0.6, 0.1, 0.8], [-0.3, 0.4, -0.7],
    [0.0, 0.7, -0.4], [0.3, -0.8, -0.1], [0.6, -0.5, 0.2],
])  # fmt: skip
WEIGHTS = np.array([
    [-0.427275, -0.481117, 1.091245], [-0.480661, 0.443333, 1.360470], [-0.273072, 0.377671, -0.654757],
    [-0.306271, 0.610857, 0.160470], [-0.224632, -0.553287, 0.491245], [0.586869, -0.482270, 0.245243],
])  # fmt: skip
SQUARES = np.array([
    [1.138526, 1.812527, 2.165593], [1.023490, 1.340862, 1.677164], [1.000201, 1.000138, 1.000564],
    [1.240748, 1.051366, 1.677164], [1.731472, 1.323455, 2.165593], [1.000048, 1.000088, 1.000564],
])  # fmt: skip
COSTS = [0.821093, 0.329295, 0.079323, 0.000909]  # of each pass, for a cell


def passes_over(cells, start, passes, *, mirrored, lr):
    """Costs of a few passes, the weights and AdaGrad's sums after them; all laid out as in ``WEIGHTS``."""
    n, dim = len(start) // 2, start.shape[1] - 1
    columns = [*range(dim), 8]  # a row is padded to 8 floats; the bias is the first of another 8
    matrices = [padded(n, 16) for _ in range(4)]
    for matrix, rows in zip(matrices[:2], np.split(start, 2), strict=True):
        matrix[:, columns] = rows
    for squares in matrices[2:]:
        squares[:] = 1
    keys = read_only(np.array([(i << 9) | j for i, j in cells], dtype=np.uint64))
    sums = read_only(np.array(list(cells.values()), dtype=np.float32))
    costs = []
    for _ in range(passes):
        bounds, tiles, result = np.array([0, len(cells)]), np.array([0]), np.zeros(2)
        train_glove_tiles(keys, sums, bounds, tiles, 1, mirrored, *matrices, 5.0, 0.75, lr, random_state(1), result)
        costs.append(result[0] / result[1])
    rows = [matrix[:, columns] for matrix in matrices]
    return costs, np.vstack(rows[:2]), np.vstack(rows[2:])


def test_passes_over_the_cells_are_those_of_the_papers_program():
    costs, weights, squares = passes_over(TINY, START, 4, mirrored=True, lr=0.5)
    np.testing.assert_allclose(costs, COSTS, atol=2e-6)
    np.testing.assert_allclose(weights, WEIGHTS, atol=2e-6)
    np.testing.assert_allclose(squares, SQUARES, atol=2e-6)


def test_a_component_of_a_gradient_is_clipped_at_100_as_in_the_papers_program():
    start = np.array([[300.0, 0.0, 0.0], [2.0, 1.0, 0.0]])  # g = 600 f(1) = 179.4
    _, weights, squares = passes_over({(0, 0): 1.0}, start, 1, mirrored=False, lr=0.5)
    np.testing.assert_allclose(weights[:, :2], [[250.0, -50.0], [-48.0, 1.0]])
    np.testing.assert_allclose(squares[:, :2], [[2501.0, 2501.0], [2501.0, 1.0]])


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
