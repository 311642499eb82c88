"""NNLM and Polyglot: windows, losses and gradients are those of their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import polyseme
from polyseme.text.corpus import Corpus
from polyseme.training.task import Part
from polyseme.words.kernels.polyglot import rank_windows, tanh_all
from polyseme.words.kernels.rows import below, random_state
from polyseme.words.networks import HuffmanPaths, NnlmNet, NnlmTask, PolyglotNet, window_losses
from polyseme.words.neural import Batches, WordStream, split_sentences
from polyseme.words.nnlm import Nnlm, NnlmOptions
from polyseme.words.polyglot import PolyglotOptions, held_out_scores

SMALL = {
    "nnlm": {"dim": 12, "hidden": 10, "min_count": 1, "threads": 1, "batch_size": 128},
    "polyglot": {"dim": 12, "hidden": 10, "min_count": 1, "threads": 1},
}


def stream(*sentences: list[int], n_words: int = 9) -> WordStream:
    return WordStream.of_sentences([np.array(s, dtype=np.int32) for s in sentences], n_words)


def test_windows_end_at_the_boundaries_of_their_sentence():
    text = stream([1, 2, 3], [4], [5, 6])
    unknown, boundary = 9, 10
    assert text.numbers.tolist() == [boundary, 1, 2, 3, boundary, 4, boundary, 5, 6, boundary]
    places = np.array([1, 3, 4, 5, 9])
    assert text.before(places, 3).tolist() == [
        [boundary] * 3, [2, 1, boundary], [3, 2, 1], [boundary] * 3, [6, 5, boundary],
    ]  # fmt: skip
    assert text.after(places, 2).tolist() == [[2, 3], [boundary] * 2, [4, boundary], [boundary] * 2, [boundary] * 2]
    assert unknown == text.unknown


def test_a_corpus_is_the_stream_of_its_sentences(topics):
    from polyseme.words.vocabulary_plan import plan_words

    plan = plan_words(topics, 1, 6, None)
    training, held_out = split_sentences(topics, 0.1)
    assert not (training & held_out).any()
    assert 0.02 < held_out.mean() < 0.2
    text = WordStream.of_corpus(topics, plan, training)
    expected = [plan.vocabulary.ids(topics.sentence(i)) for i in np.flatnonzero(training)]
    np.testing.assert_array_equal(text.numbers, WordStream.of_sentences(expected, 6).numbers)


@pytest.mark.parametrize(("n", "size"), [(1000, 100), (999, 64), (10, 128), (130, 7)])
def test_every_place_comes_once_in_an_epoch_and_in_another_order_in_the_next(n, size):
    batches = Batches(np.arange(n), size, seed=1)
    epochs = [np.concatenate([batches(epoch, i) for i in range(len(batches))]) for epoch in (0, 1)]
    for seen in epochs:
        assert sorted(seen.tolist()) == list(range(n))
    assert n < 100 or not np.array_equal(*epochs)


def test_the_number_of_weights_is_that_of_the_paper():
    options = NnlmOptions(order=4, dim=6, hidden=5, direct=True)
    v, n, m, h = 20 + 2, 4, 6, 5  # words with the two specials
    net = NnlmNet(20, options)
    assert sum(p.numel() for p in net.parameters()) == v * (1 + n * m + h) + h * (1 + (n - 1) * m)


def test_the_scores_are_those_of_the_formula():
    net = NnlmNet(7, NnlmOptions(order=3, dim=4, hidden=5, direct=True)).eval()
    contexts = torch.tensor([[1, 2], [8, 0]])
    c, h, d = net.words.weight, net.inner.weight, net.inner.bias
    u, w = net.table[:, :5], net.table[:, 5:]
    for context, scores in zip(contexts, F.linear(net.states(contexts), net.table, net.bias), strict=True):
        x = torch.cat([c[i] for i in context])  # the nearest word first, and in order
        torch.testing.assert_close(scores, net.bias + w @ x + u @ torch.tanh(d + h @ x))


def test_with_words_as_units_it_is_a_table_of_bigrams_that_learns_their_frequencies():
    text = stream([0, 1, 0, 2], [0, 1], [1, 2, 0], n_words=3)
    options = NnlmOptions(order=2, dim=5, hidden=1, direct=True, softmax="full", dropout=0.0, batch_size=100)
    net = NnlmNet(3, options)
    with torch.no_grad():
        net.words.weight.copy_(torch.eye(5))
        net.table[:, :1] = 0
    task = NnlmTask(net, text, text, np.ones(5, dtype=np.int64), options)
    optimiser = torch.optim.LBFGS([net.table, net.bias], max_iter=300)

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        total, n = task.loss(0, 0, Part())
        (total / n).backward()
        net.table.grad[:, :1] = 0
        return total / n

    optimiser.step(loss)
    counted = np.zeros((5, 5))
    for previous, word in zip(text.numbers[:-1], text.numbers[1:], strict=True):
        counted[previous, word] += 1
    seen = counted.sum(axis=1) > 0
    expected = counted[seen] / counted[seen].sum(axis=1, keepdims=True)
    learned = torch.softmax(F.linear(net.states(torch.arange(5)[:, None]), net.table, net.bias), dim=1)
    np.testing.assert_allclose(learned.detach().numpy()[seen], expected, atol=0.02)


def test_the_chances_of_a_huffman_tree_add_up_to_one_and_its_gradient_is_right():
    counts = np.array([50, 3, 20, 1, 7, 30])  # not in order
    paths = HuffmanPaths(counts)
    states = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    table, bias = (torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in ((5, 3), (5,)))
    every = torch.stack([paths.losses(states, np.full(4, c), table, bias) for c in range(6)])
    torch.testing.assert_close(torch.exp(-every).sum(dim=0), torch.ones(4, dtype=torch.float64))
    for row in range(4):
        found = paths.all_losses(states[row].detach(), table.detach(), bias.detach())
        torch.testing.assert_close(found, every[:, row].detach(), check_dtype=False)
    assert paths.lengths[paths.place[0]] <= paths.lengths.min() + 1  # the commonest class is near the root
    classes = np.array([0, 3, 5, 2])
    total = paths.losses(states, classes, table, bias).sum()
    gradient = torch.autograd.grad(total, [states, table])
    step = 1e-6
    for which, matrix in enumerate((states, table)):
        moved = matrix.detach().clone()
        moved[1, 2] += step
        again = paths.losses(*((moved, classes, table) if which == 0 else (states, classes, moved)), bias).sum()
        assert float((again - total).detach() / step) == pytest.approx(
            float(gradient[which].to_dense()[1, 2]), abs=1e-4
        )


@pytest.mark.parametrize("softmax", ["sampled", "hierarchical", "full"])
def test_held_out_perplexity_falls_below_that_of_word_frequencies(topics, softmax):
    model = polyseme.train("nnlm", topics, **SMALL["nnlm"], softmax=softmax, order=3, epochs=6, lr=0.02, hold_out=0.1)
    frequencies = np.append(model.vocabulary.counts, 600) / (model.vocabulary.counts.sum() + 600)
    chance = np.exp(-(frequencies * np.log(frequencies)).sum())
    assert model.about.curve[-1]["perplexity"] < 0.98 * chance
    assert model.about.curve[-1]["perplexity"] < model.about.curve[0]["perplexity"] + 0.2


@pytest.fixture(scope="module")
def nnlm(fifty_lines) -> Nnlm:
    model: Nnlm = polyseme.train(
        "nnlm", Corpus.from_sentences(fifty_lines), **SMALL["nnlm"], epochs=40, lr=0.02, order=3, hold_out=0.0
    )
    return model


def test_it_expects_the_words_it_has_read(nnlm):
    assert nnlm.substitutes(["坐火车", "去", "X"], 2)[0][0] == "北京"
    assert nnlm.substitutes(["老王", "打开", "X", "，"], 2)[0][0] == "窗户"
    assert sum(p for _, p in nnlm.substitutes(["小明", "打"], 1, topn=len(nnlm))) == pytest.approx(1, abs=1e-5)
    assert nnlm.substitutes("小明喜欢看书", 1) == nnlm.substitutes(nnlm.tokenize("小明喜欢看书"), 1)


def test_a_window_scores_as_the_plain_network_scores_it():
    net = PolyglotNet(9, PolyglotOptions(dim=4, hidden=6, radius=2))
    windows, centres = torch.tensor([[1, 2, 3, 4], [0, 0, 10, 8]]), torch.tensor([[5, 6], [7, 7]])
    scores = net(windows, centres)
    for row in range(2):
        for k in range(2):
            ids = torch.cat([windows[row, :2], centres[row, k : k + 1], windows[row, 2:]])
            plain = net.out(torch.tanh(net.inner(net.words(ids).flatten())))
            torch.testing.assert_close(scores[row, k], plain[0])


def polyglot_net(radius: int = 1) -> tuple[PolyglotNet, WordStream]:
    torch.manual_seed(1)
    text = stream([0, 1, 2, 3], [4, 5, 9, 5, 6], n_words=9)
    return PolyglotNet(9, PolyglotOptions(dim=3, hidden=4, radius=radius)), text


def test_the_loss_is_the_hinge_of_true_and_replaced_windows():
    net, text = polyglot_net()
    places = np.array([2, 3])
    wrong = np.array([8, 7])
    windows = torch.tensor([[0, 2], [1, 3]])
    true, replaced = (net(windows, torch.tensor(c)[:, None])[:, 0] for c in ([1, 2], [8, 7]))
    torch.testing.assert_close(window_losses(net, text, places, wrong), torch.relu(1 - true + replaced))
    with torch.no_grad():
        net.out.weight *= 1e4  # so that margins are far beyond 1
        far = window_losses(net, text, places, wrong)
        sure = net(windows, torch.tensor([[1, 8], [2, 7]]))
        assert bool(((sure[:, 0] - sure[:, 1] >= 1) == (far == 0)).all())


@pytest.mark.parametrize("place", [1, 7, 9])  # at the boundary; with one word twice; beside an unknown word
@pytest.mark.parametrize("radius", [1, 2])
def test_a_step_goes_against_the_gradient_of_the_loss(place, radius):
    net, text = polyglot_net(radius)
    lr = 0.1
    wrong = below(random_state(5), 9)
    around = np.concatenate([text.before(np.array([place]), radius)[:, ::-1], text.after(np.array([place]), radius)], 1)
    scores = net(torch.from_numpy(around), torch.tensor([[int(text.numbers[place]), wrong]]))[0]
    loss = torch.relu(1 - scores[0] + scores[1])
    loss.backward()
    parameters = [net.words.weight, net.inner.weight, net.inner.bias, net.out.weight]
    expected = [(p - lr * p.grad.to_dense()).detach().numpy() for p in parameters]
    weights, result = [p.detach().numpy() for p in parameters], np.zeros(2)
    rank_windows(text.numbers, np.array([place]), 9, *weights[:3], weights[3][0], lr, random_state(5), result)
    assert result.tolist() == [pytest.approx(float(loss.detach()), abs=1e-6), 1]
    for found, wanted in zip(weights, expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_tanh_of_the_kernel_is_tanh():
    values = np.append(np.linspace(-20, 20, 10001), [-1e30, 1e30, 0]).astype(np.float32)
    expected = np.tanh(values)
    tanh_all(values)
    np.testing.assert_allclose(values, expected, atol=3e-7)


def test_a_window_that_is_right_by_the_margin_teaches_nothing():
    net, text = polyglot_net()
    with torch.no_grad():
        net.out.weight *= 1e4
    places = np.flatnonzero(text.numbers < 9)
    right = places[[bool(window_losses(net, text, places[[i]], np.array([8])) == 0) for i in range(len(places))]]
    assert len(right)
    weights = [p.detach().numpy() for p in (net.words.weight, net.inner.weight, net.inner.bias)]
    before = [w.copy() for w in weights]
    state = next(s for s in (random_state(i) for i in range(999)) if below(s.copy(), 9) == 8)
    rank_windows(text.numbers, right[:1], 9, *weights, net.out.weight.detach().numpy()[0], 0.1, state, np.zeros(2))
    for was, weight in zip(before, weights, strict=True):
        np.testing.assert_array_equal(was, weight)


def test_reports_tell_the_loss_of_held_out_windows_and_how_many_are_right():
    net, text = polyglot_net()
    places = np.flatnonzero(text.numbers < 9)  # unknown words stand in windows but never at their centre
    assert text.numbers[places].tolist() == [0, 1, 2, 3, 4, 5, 5, 6]
    found = held_out_scores(net, text)
    assert 0 <= found["right"] <= 1
    assert found["held_out_loss"] == pytest.approx(1, abs=0.2)  # near the margin, before anything was learned
    assert held_out_scores(net, stream([9], n_words=9)) == {}


def test_in_a_world_of_fixed_pairs_the_true_centre_comes_first():
    pairs = [[f"a{i}", f"b{i}"] for i in range(8)] * 40
    model = polyseme.train("polyglot", Corpus.from_sentences(pairs), **SMALL["polyglot"], radius=1, epochs=200, lr=0.05)
    n, boundary = len(model), len(model) + 1
    right = 0
    for i in range(8):
        window = torch.tensor([[model.key_to_index[f"a{i}"], boundary]])
        scores = model.module(window, torch.arange(n)[None])[0]
        right += model.index_to_key[int(scores.argmax())] == f"b{i}"
    assert right == 8


@pytest.mark.parametrize("method", ["nnlm", "polyglot"])
def test_an_interrupted_training_goes_on_to_the_same_bits(topics, tmp_path, method):
    def progress(what, done, total, /, **facts):
        if what == "training" and facts.get("epoch", 0) > 2:
            raise KeyboardInterrupt

    options = {**SMALL[method], "epochs": 4}
    whole = polyseme.train(method, topics, **options)
    with pytest.raises(KeyboardInterrupt):
        polyseme.train(method, topics, out=tmp_path / "m", progress=progress, **options)
    resumed = polyseme.train(method, topics, out=tmp_path / "m", resume=True, **options)
    np.testing.assert_array_equal(resumed.vectors, whole.vectors)


@pytest.mark.parametrize("method", ["nnlm", "polyglot"])
def test_a_model_trained_further_begins_where_the_first_ended(topics, method):
    first = polyseme.train(method, topics, **SMALL[method], epochs=3)
    further = polyseme.train(method, topics, start=first, **SMALL[method], epochs=0)
    for word in first.index_to_key:
        np.testing.assert_array_equal(first[word], further[word])
    torch.testing.assert_close(first.module.inner.weight, further.module.inner.weight)
    np.testing.assert_array_equal(first.module.words.weight[-2:].detach(), further.module.words.weight[-2:].detach())


def test_the_nodes_of_a_tree_are_taken_over_only_by_the_same_tree():
    options = {**SMALL["nnlm"], "softmax": "hierarchical", "hold_out": 0.0}
    often = Corpus.from_sentences([["b"] * 8 + ["c"] * 4 + ["d"] * 2 + ["a"]] * 4)
    first = polyseme.train("nnlm", often, **options, epochs=20, lr=0.02)
    again = polyseme.train("nnlm", often, start=first, **options, epochs=0)
    torch.testing.assert_close(again.module.table, first.module.table)  # with all counts twice as high
    seldom = Corpus.from_sentences([["a"] * 8 + ["b"]] * 40)  # the tree turns over, the vocabulary stays
    other = polyseme.train("nnlm", seldom, start=first, **options, epochs=0)
    full = polyseme.train("nnlm", often, start=first, **{**options, "softmax": "full"}, epochs=0)
    assert other.module.table.shape == first.module.table.shape
    assert float(first.module.table.detach().abs().max()) > 0.06
    for further in (other, full):
        assert float(further.module.table.detach().abs().max()) < 0.06  # random: five and a half deviations at most
        np.testing.assert_array_equal(further["a"], first["a"])


def test_a_network_of_another_size_takes_over_the_vectors_and_what_fits(topics):
    first = polyseme.train("nnlm", topics, **SMALL["nnlm"], direct=True, epochs=1)
    further = polyseme.train("nnlm", topics, start=first, **{**SMALL["nnlm"], "hidden": 5}, epochs=0)
    for word in first.index_to_key:
        np.testing.assert_array_equal(first[word], further[word])
    np.testing.assert_array_equal(np.sort(first.module.bias.detach()), np.sort(further.module.bias.detach()))
