"""MT-DNN: the answer network against NumPy, heads against formulas, and tasks that a small network learns together."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import polyseme
from polyseme.data.examples import Examples
from polyseme.errors import OptionError, TrainingError
from polyseme.neural.layers import StochasticAnswer
from polyseme.tasks.multitask import FIRST, NEITHER, SECOND, PairInputs, PlainScale, RankedTexts, Ranking

ANIMALS, ACTS = ["cat", "dog", "bird"], ["sleeps", "eats", "runs"]
SMALL = {"dim": 32, "n_layers": 2, "n_heads": 2, "length": 16, "batch_size": 16, "max_size": 200, "threads": 1}


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def answered(net, states, premise, hypothesis, n_steps):
    """The answer network by the paper's formulas, for one pair, step by step."""
    w = {name: parameter.detach().numpy() for name, parameter in net.named_parameters()}
    p, h = states[premise], states[hypothesis]
    s, found = softmax(h @ w["first.weight"][0]) @ h, []
    for _ in range(n_steps):
        x = softmax(p @ (w["attend.weight"] @ s)) @ p
        found.append(softmax(w["judge.weight"] @ np.concatenate([s, x, abs(s - x), s * x]) + w["judge.bias"]))
        of_x = w["cell.weight_ih"] @ x + w["cell.bias_ih"]
        of_s = w["cell.weight_hh"] @ s + w["cell.bias_hh"]
        (xr, xz, xn), (sr, sz, sn) = np.split(of_x, 3), np.split(of_s, 3)
        r, z = sigmoid(xr + sr), sigmoid(xz + sz)
        s = (1 - z) * np.tanh(xn + r * sn) + z * s
    return np.log(np.mean(found, axis=0))


@pytest.mark.parametrize("n_steps", [1, 5])
def test_the_answer_is_the_mean_of_the_judgements_of_all_steps(n_steps):
    torch.manual_seed(0)
    net = StochasticAnswer(6, 3, n_steps=n_steps).eval()
    states = torch.randn(2, 8, 6)
    owner = torch.tensor([[-1, 0, 0, 0, -1, 1, 1, -1], [-1, 0, -1, 1, 1, 1, 1, -1]])
    found = net(states, owner == 0, owner == 1).detach().numpy()
    for row in range(2):
        own = owner[row].numpy()
        np.testing.assert_allclose(
            found[row], answered(net, states[row].numpy(), own == 0, own == 1, n_steps), atol=1e-5
        )
    assert np.isfinite(net(states, owner == 5, owner == 5).detach().numpy()).all()  # texts without a piece


def test_in_training_steps_are_left_out_but_never_all():
    net = StochasticAnswer(4, 2, n_steps=3, dropout=0.8).train()
    torch.manual_seed(0)
    kept = net._kept(2000, torch.device("cpu"))
    assert (kept.sum(dim=1) > 0).all()
    one = 0.2 * 0.8**2 * 3 / (1 - 0.8**3)  # exactly one of three, where not all are dropped
    assert (kept.sum(dim=1) == 1).float().mean() == pytest.approx(one * (1 - 0.8**3), abs=0.03)
    assert net.eval()._kept(5, torch.device("cpu")).all()


def test_ranking_is_a_softmax_over_bounded_relevances():
    relevance, goal = sigmoid(np.random.default_rng(0).normal(size=(2, 3))), Ranking()
    expected = -sum(math.log(softmax(row)[0]) for row in relevance)
    assert goal.loss(torch.from_numpy(relevance), goal.wanted(relevance)).item() == pytest.approx(expected, rel=1e-5)


def test_scores_are_told_by_their_correlation():
    random = np.random.default_rng(0)
    said, gold = random.normal(size=(50, 1)).astype(np.float32), random.uniform(1, 5, size=50)
    examples = Examples.of([("a", "b", float(score)) for score in gold], scored=True)
    goal = PlainScale(1, 5)
    score = goal.score(said, examples, goal.primary)
    assert score.facts["pearson"] == pytest.approx(np.corrcoef(said[:, 0], gold)[0, 1], abs=1e-6)
    loss = goal.loss(torch.from_numpy(said), goal.wanted(examples)).item()
    assert loss == pytest.approx(np.square(said[:, 0] - (gold - 1) / 4).sum(), rel=1e-5)
    assert goal.figures(np.ones((50, 1), dtype=np.float32), examples)["pearson"] == 0


def test_candidates_are_the_wrong_ones_of_the_same_text_and_then_others():
    texts = [("q1", "right"), ("q1", "wrong a"), ("q1", "wrong b"), ("q2", "alone")]
    rows = RankedTexts(None, texts, np.array([True, False, False, True]), 3, 16)
    found = rows.candidates(np.array([0, 1]), np.random.default_rng(0))
    assert found[0] == ("q1", "right")
    assert set(found[1:3]) == {("q1", "wrong a"), ("q1", "wrong b")}
    assert found[3] == ("q2", "alone")
    assert {first for first, _ in found[4:]} == {"q2"}


def test_a_right_text_is_never_drawn_as_a_wrong_candidate():
    texts = [("q1", "right"), ("q1", "right too"), ("q2", "alone")]
    rows = RankedTexts(None, texts, np.ones(3, dtype=bool), 3, 16)
    found = rows.candidates(np.zeros(20, dtype=np.int64), np.random.default_rng(0))
    assert {second for _, second in found[1::3] + found[2::3]} == {"alone"}
    only = RankedTexts(None, texts[:2], np.ones(2, dtype=bool), 3, 16)  # nothing else to draw
    assert len(only.candidates(np.zeros(1, dtype=np.int64), np.random.default_rng(0))) == 3


def sources() -> dict[str, Examples]:
    sentences = [f"the {a} {x}" for a in ANIMALS for x in ACTS]
    pairs = [(s, t, "same" if s.split()[1] == t.split()[1] else "other") for s in sentences for t in sentences]
    size = {animal: number for number, animal in enumerate(ANIMALS)}
    scored = [(s, t, float(size[s.split()[1]] + size[t.split()[1]])) for s in sentences for t in sentences]
    asked = [(f"who {x}", s, "yes" if s.endswith(x) else "no") for x in ACTS for s in sentences]
    return {
        "animals": Examples.of([(s, s.split()[1]) for s in sentences] * 6),
        "alike": Examples.of(pairs * 2),
        "sizes": Examples.of(scored),
        "answers": Examples.of(asked * 4),
    }


def test_all_kinds_of_tasks_are_learned_by_one_network_and_fine_tuned_after():
    data = sources()
    model = polyseme.train(
        "mtdnn", data, ranking="answers=yes", candidates=3, epochs=10, lr=1.5e-3, dropout=0.0, **SMALL
    )
    best = {name: max(report[name] for report in model.about.curve) for name in model.about.curve[-1]}
    assert best["animals_accuracy"] > 0.9
    assert best["alike_accuracy"] > 0.85
    assert best["sizes_pearson"] > 0.85
    assert best["answers_found"] > 0.7
    tuned = polyseme.fit("pair", data["alike"], encoder=model, encoder_mode="finetune", epochs=1, threads=1)
    assert len(tuned.predict([("the cat eats", "the cat runs")])) == 1


def test_a_given_transformer_is_taken_over_and_left_as_it_was(tmp_path):
    from polyseme.text.corpus import Corpus

    lines = [f"the {a} {x} and a {b} {y}" for a in ANIMALS for b in ANIMALS for x in ACTS for y in ACTS]
    shape = {
        name: SMALL[name] for name in ("dim", "n_layers", "n_heads", "length", "batch_size", "max_size", "threads")
    }
    bert = polyseme.train("bert", Corpus.from_sentences(lines), epochs=1, **shape)
    bert.save(tmp_path / "bert")
    before = next(iter(bert.encode_tokens(["the cat eats"]))).layers.copy()
    model = polyseme.train("mtdnn", sources(), transformer=str(tmp_path / "bert"), epochs=1, threads=1, lr=1e-3)
    assert (model.dim, model.n_layers) == (bert.dim, bert.n_layers)
    assert model.language == "masked"
    after = next(iter(polyseme.load(tmp_path / "bert").encode_tokens(["the cat eats"]))).layers
    np.testing.assert_array_equal(before, after)
    assert not np.allclose(next(iter(model.encode_tokens(["the cat eats"]))).layers, after)
    pieces = PairInputs(model.runner)([("the cat", "a dog eats"), "the cat"])
    assert pieces.owner.tolist() == [
        [NEITHER, FIRST, FIRST, NEITHER, SECOND, SECOND, SECOND, NEITHER],
        [NEITHER, FIRST, FIRST, *[NEITHER] * 5],
    ]
    assert pieces.tokens.types[0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_what_cannot_be_learned_is_said_in_a_line():
    data = sources()
    with pytest.raises(OptionError, match="SOURCE=LABEL"):
        polyseme.train("mtdnn", data, ranking="answers", **SMALL)
    with pytest.raises(OptionError, match="no pair of answers"):
        polyseme.train("mtdnn", data, ranking="answers=perhaps", **SMALL)
    with pytest.raises(OptionError, match="not a source of pairs"):
        polyseme.train("mtdnn", data, ranking="animals=cat", **SMALL)
    with pytest.raises(TrainingError, match="one label"):
        polyseme.train("mtdnn", {"x": Examples.of([("a", "b"), ("c", "b")])}, **SMALL)
