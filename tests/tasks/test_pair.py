"""Pair: every head learns classes or scores of pairs, is saved and loaded, and answers the same."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.tasks.conftest import BAD, GOOD, PLAIN
from tests.tasks.test_classify import CountingEncoder

import polyseme
from polyseme.data.examples import Examples
from polyseme.data.labels import spread
from polyseme.errors import OptionError, PolysemeError
from polyseme.learn.goals import Classes, ClassLoss
from polyseme.learn.options import LabelOptions
from polyseme.tasks.options import PAIR_HEADS
from polyseme.tasks.pair import Scale

SMALL = {
    "linear": {}, "mlp": {}, "dan": {"hidden": 16}, "textcnn": {"filters": "1x16 2x16"}, "rnn": {"hidden": 8},
    "bilstm-max": {"hidden": 8}, "self-attention": {"hidden": 8, "rows": 2}, "arc1": {"filters": "3x16"},
    "arc2": {"filters": "3x16"}, "cnn-sm": {"filters": "2x2 2x2", "k_top": 2},
    "bi-cnn": {"filters": "2x2 2x2", "k_top": 2}, "mpcnn": {"filters": "2x8", "dimension_maps": 2},
}  # fmt: skip


def pairs(n: int = 80, seed: int = 0, *, scored: bool = False) -> Examples:
    """Pairs of remarks, labelled by whether both praise or both blame, or scored by how many of them praise."""
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        kinds = [rng.random() < 0.5 for _ in range(2)]
        first, second = (f"{rng.choice(PLAIN)}很{rng.choice(GOOD if kind else BAD)}。" for kind in kinds)
        label = float(sum(kinds)) + 0.5 if scored else ("same" if kinds[0] == kinds[1] else "other")
        rows.append((first, second, label))
    return Examples.of(rows, scored=scored)


def fitted(examples: Examples, head: str, vectors, **options: object):
    known = {
        "threads": 1,
        "epochs": 15,
        "batch_size": 8,
        "lr": 0.01,
        "patience": 0,
        "dropout": 0.0,
        "input_dropout": 0.0,
    }
    return polyseme.fit("pair", examples, encoder=vectors, head=head, **{**known, **SMALL[head], **options})


@pytest.mark.parametrize("head", sorted({*PAIR_HEADS} - {"cross", "cosine"}))  # which take a Transformer
def test_every_head_learns_and_answers_the_same_when_loaded(head, vectors, tmp_path):
    model = fitted(pairs(), head, vectors)
    report = model.score(pairs(40, seed=1))
    assert report.metric == "accuracy"
    assert report.figures["accuracy"] >= 0.8
    rows = [("房间很干净。", "服务很热情。"), ("", "服务很冷淡。"), ("", ""), ("房间" * 50, "前台")]
    before = model.probabilities(rows)
    np.testing.assert_allclose(before.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(model.probabilities(rows[:1]), before[:1], atol=1e-4)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(polyseme.load(tmp_path / "m").probabilities(rows), before)
    assert model.predict(rows[:1])[0].label == "same"


@pytest.mark.parametrize(
    ("head", "regression"), [("linear", "distribution"), ("linear", "mse"), ("dan", "distribution")]
)
def test_scores_are_learned_and_kept_within_their_scale(head, regression, vectors, tmp_path):
    examples = pairs(scored=True)
    model = fitted(examples, head, vectors, regression=regression)
    report = model.score(pairs(40, seed=1, scored=True))
    assert report.metric == "pearson"
    assert report.figures["pearson"] > 0.8
    rows = [("房间很干净。", "服务很热情。"), ("", "")]
    found = [answer.score for answer in model.predict(rows)]
    assert all(-0.01 <= score <= 3.01 for score in found)
    model.save(tmp_path / "m")
    assert [answer.score for answer in polyseme.load(tmp_path / "m").predict(rows)] == found


def test_a_score_is_a_distribution_over_the_whole_numbers():
    scale = Scale(1, 5, "distribution")
    np.testing.assert_allclose(
        spread(np.array([3.6, 1.0, 5.0]), scale.steps),
        [[0, 0, 0.4, 0.6, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1]],
        atol=1e-6,
    )
    sure = np.full((1, 5), -50.0, dtype=np.float32)
    sure[0, 2:4] = np.log([0.4, 0.6])
    assert scale.values(sure)[0] == pytest.approx(3.6, abs=1e-4)
    assert Scale(0, 1000, "distribution").n_outputs == 1


def test_classes_weigh_their_losses():
    import torch

    targets = np.array([0, 0, 0, 1])  # weights of 4 / (2 · 3) and 4 / (2 · 1)
    goal = Classes(["a", "b"], ClassLoss(targets, 2, LabelOptions(class_weights="balanced")))
    outputs = torch.zeros(2, 2)
    assert goal.loss(outputs, np.array([0, 1])).item() == pytest.approx(np.log(2) * (2 / 3 + 2))


def test_smoothed_labels_are_partly_of_the_other_classes():
    import torch

    loss = ClassLoss(np.array([0, 1, 2]), 3, LabelOptions(label_smoothing=0.3))
    chances = np.array([0.7, 0.2, 0.1])
    expected = -(0.8 * np.log(0.7) + 0.1 * np.log(0.2) + 0.1 * np.log(0.1))
    found = loss(torch.from_numpy(np.log(chances))[None], np.array([0]))
    assert found.item() == pytest.approx(expected)


def test_smoothing_keeps_answers_from_certainty():
    models = [fitted(pairs(), "arc1", None, epochs=8, label_smoothing=share) for share in (0.0, 0.5)]
    rows = [("房间很干净。", "服务很热情。"), ("房间很干净。", "服务很冷淡。")]
    sure, unsure = (model.probabilities(rows).max(axis=1).mean() for model in models)
    assert unsure < sure


def test_a_frozen_encoder_reads_every_text_once(vectors):
    encoder, examples = CountingEncoder(vectors), pairs(30)
    fitted(examples, "arc1", encoder, epochs=3, held_out=0.0)
    texts = {text for row in examples for text in (row.first, row.second)}
    assert len(texts) < 60  # some are in several pairs
    assert encoder.tokens == sum(len(vectors.tokenize(text)) for text in texts)


def test_without_an_encoder_vectors_are_learned():
    model = fitted(pairs(), "arc1", None, epochs=2)
    assert model.score(pairs()).n == 80


def test_of_errors_the_least_is_kept(vectors):
    options = {"epochs": 8, "metric": "mse", "lr": 0.05, "regression": "mse", "dev": pairs(20, seed=1, scored=True)}
    model = fitted(pairs(40, scored=True), "linear", vectors, **options)
    errors = [report["mse"] for report in model.about.curve]
    assert max(errors) > min(errors) + 0.1
    assert model.score(options["dev"]).figures["mse"] == pytest.approx(min(errors), abs=1e-3)


def test_a_metric_that_there_is_not_is_told_before_anything_is_read(vectors):
    encoder = CountingEncoder(vectors)
    with pytest.raises(OptionError, match="there is no metric 'accuracy' here: there are pearson, spearman, mse"):
        polyseme.fit("pair", pairs(20, scored=True), encoder=encoder, head="linear", metric="accuracy", threads=1)
    assert encoder.tokens == 0


@pytest.mark.parametrize(
    ("head", "filters", "said"),
    [
        ("arc1", "5x16", "the filters of arc1 are 3 wide: give 3x16, not '5x16'"),
        ("arc2", "3x16 4x16", "the head arc2 has filters of one kind, such as 3x50, not '3x16 4x16'"),
        ("mpcnn", "2x8 3x8", "the head mpcnn has filters of one kind"),
    ],
)
def test_filters_that_a_matcher_would_not_have_are_refused(head, filters, said, vectors):
    with pytest.raises(OptionError, match=said):
        fitted(pairs(8), head, vectors, filters=filters)


def test_wrong_uses_are_told_in_one_line(vectors):
    model = fitted(pairs(20), "linear", vectors, epochs=1)
    with pytest.raises(OptionError, match="has scores but the model learned classes"):
        model.score(pairs(20, scored=True))
    scored = fitted(pairs(20, scored=True), "linear", vectors, epochs=1)
    with pytest.raises(OptionError, match="scores, not labels"):
        scored.probabilities([("a", "b")])
    with pytest.raises(OptionError, match="mpcnn has no hidden states"):
        fitted(pairs(20), "mpcnn", CountingEncoder(vectors), elmo_at="both")
    with pytest.raises(PolysemeError, match="nothing to learn"):
        fitted(Examples.of([("a", "b", 1.5), ("c", "d", 1.5)], scored=True), "linear", vectors)
