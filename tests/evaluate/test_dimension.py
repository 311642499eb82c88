"""The PIP loss is that of its definition, and finds the rank of a planted signal."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from polyseme.cli.main import polyseme as polyseme_command
from polyseme.errors import OptionError, TrainingError
from polyseme.evaluate.dimension import TRIED, DimensionReport, choose_dimension, pip_losses, scores_by_dimension
from polyseme.text.corpus import Corpus


def naive_losses(signal: np.ndarray, noise: float, n: int, exponent: float, seed: int) -> list[float]:
    """‖E Eᵀ - Ê Êᵀ‖ for each k, from an SVD of the noisy matrix."""
    clean = np.zeros((n, n))
    clean[np.arange(len(signal)), np.arange(len(signal))] = signal
    left, values, _ = np.linalg.svd(clean + np.random.default_rng(seed).standard_normal((n, n)) * noise)
    oracle = np.eye(n)[:, : len(signal)] * signal**exponent
    products = oracle @ oracle.T
    found = []
    for k in range(1, n + 1):
        estimate = left[:, :k] * values[:k] ** exponent
        found.append(float(np.linalg.norm(products - estimate @ estimate.T)))
    return found


@pytest.mark.parametrize("exponent", [0.25, 0.5, 1.0])
def test_the_running_sum_is_the_loss_of_its_definition(exponent):
    signal = np.linspace(30, 3, 12)
    losses = pip_losses(signal, 0.5, 40, exponent, seed=3)
    np.testing.assert_allclose(losses, naive_losses(signal, 0.5, 40, exponent, seed=3), rtol=1e-6, atol=1e-5)


def test_at_exponent_zero_the_loss_is_that_of_the_angle_between_two_subspaces():
    signal, n, k = np.linspace(30, 3, 12), 40, 7
    noisy = np.diag(np.append(signal, np.zeros(n - 12))) + 0.5 * np.random.default_rng(3).standard_normal((n, n))
    left, _, _ = np.linalg.svd(noisy)
    outside = np.square(left[12:, :k]).sum()
    assert pip_losses(signal, 0.5, n, 0.0, seed=3)[k - 1] ** 2 == pytest.approx(12 - k + 2 * outside, rel=1e-6)


def test_without_noise_all_dimensions_of_the_signal_are_wanted():
    losses = pip_losses(np.linspace(9, 2, 6), 0.0, 20, 0.5)
    assert int(np.argmin(losses)) + 1 == 6
    assert losses[5] == pytest.approx(0, abs=1e-5)


def test_a_planted_rank_is_found():
    losses = pip_losses(np.full(8, 100.0), 0.5, 80, 0.5)
    assert int(np.argmin(losses)) + 1 == 8


def test_too_many_dimensions_hurt_less_the_greater_the_exponent():
    signal = 60 * np.arange(1, 41) ** -0.7
    excess = []
    for exponent in (0.25, 0.5, 1.0):
        losses = pip_losses(signal, 0.6, 120, exponent)
        excess.append(losses[-1] / losses.min())
    assert excess == sorted(excess, reverse=True)


def test_ranges_reach_as_far_as_the_loss_stays_near_its_least():
    report = DimensionReport("svd", 9, 0.1, 9, 0.5, [2.0, 1.18, 1.04, 1.0, 1.03, 1.09, 1.5, 1.01, 3.0])
    assert report.best == 4
    assert report.ranges == {5: (3, 5), 10: (3, 6), 20: (2, 6)}  # 8 is good too, but behind a hill
    flat = DimensionReport("svd", 3, 0.1, 3, 0.5, [1.0, 1.0, 1.0])
    assert flat.ranges[5] == (1, 3)


def topical_text(n_topics: int, sentences: int) -> Corpus:
    """Words of ``n_topics`` topics, each sentence of one topic: so many directions, and noise."""
    random = np.random.default_rng(0)
    lines = [[f"t{topic}w{w}" for w in random.integers(0, 15, 12)] for topic in random.integers(0, n_topics, sentences)]
    return Corpus.from_sentences(lines)


@pytest.mark.parametrize("method", ["svd", "word2vec", "glove"])
def test_a_text_of_so_many_topics_wants_about_so_many_dimensions(method):
    report = choose_dimension(topical_text(6, 1500), method, max_size=90, min_count=1, window=5)
    assert report.words == 90
    assert 4 <= report.best <= 8
    assert report.rank >= report.best


def test_the_choice_is_scored_on_test_files(tmp_path):
    corpus = topical_text(4, 400)
    file = tmp_path / "similarity"
    file.write_text(
        "\n".join(f"t{a}w1 t{b}w{w} {9 if a == b else 1}" for a in range(4) for b in range(4) for w in (2, 3))
    )
    rows = scores_by_dimension(corpus, "svd", [1, 4, 4], [file], min_count=1)
    assert [row["dim"] for row in rows] == [1, 4]
    assert rows[1]["similarity"] > rows[0]["similarity"]
    assert rows[1]["similarity"] > 0.6


def test_what_cannot_be_answered_is_one_clear_line():
    with pytest.raises(OptionError, match="svd, word2vec, glove"):
        choose_dimension(topical_text(2, 20), "elmo")
    with pytest.raises(TrainingError, match="more text"):
        choose_dimension(Corpus.from_sentences([["a", "b", "a", "b"]]), min_count=1)


def test_the_command_answers_in_json_and_draws_a_picture(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(" ".join(sentence) for sentence in topical_text(4, 600)), encoding="utf-8")
    (tmp_path / "pairs.txt").write_text("t1w1 t1w2 9\nt1w1 t2w2 1\nt3w1 t3w2 8\nt0w1 t2w2 2\n")
    picture = tmp_path / "loss.svg"
    arguments = ["dimension", str(text), "--max-size", "60", "--picture", str(picture), "--json"]
    result = CliRunner().invoke(polyseme_command, [*arguments, "--on", str(tmp_path / "pairs.txt")])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    low, high = answer["within"]["5 %"]
    assert low <= answer["best"] <= high <= len(answer["losses"]) == 60
    assert [row["dim"] for row in answer["scores"]] == sorted({*TRIED, answer["best"]})
    assert picture.read_text().startswith("<?xml")
    table = CliRunner().invoke(polyseme_command, ["dimension", str(text), "--max-size", "60"])
    assert str(answer["best"]) in table.stdout
