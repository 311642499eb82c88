"""The PIP loss equals its definition, and finds the rank of a planted signal."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from click.testing import CliRunner

from polyseme.cli.main import polyseme as polyseme_command
from polyseme.errors import OptionError, TrainingError
from polyseme.evaluate.dimension import (
    TRIED,
    DimensionReport,
    choose_dimension,
    pip_losses,
    scores_by_dimension,
    signal_behind,
)
from polyseme.text.corpus import Corpus

N = 300
FALLING = 40 * np.arange(1, 13) ** -0.8


@cache
def orthogonal(seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((N, N)))[0]


def planted(signal: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A signal with these singular values in random directions, its left directions, and the signal plus the noise."""
    left, right = orthogonal(1)[:, : len(signal)], orthogonal(2)[:, : len(signal)]
    clean = left * signal @ right.T
    return clean, left, clean + noise


def gaussian(sigma: float) -> np.ndarray:
    return np.random.default_rng(5).standard_normal((N, N)) * sigma


def uneven() -> np.ndarray:
    """Noise whose singular values decrease linearly from 6 to 0."""
    return orthogonal(3) * np.linspace(6, 0, N) @ orthogonal(4).T


def singular_values(matrix: np.ndarray) -> np.ndarray:
    return np.linalg.svd(matrix, compute_uv=False)


def losses_of(signal: np.ndarray, noise: np.ndarray, exponent: float) -> np.ndarray:
    observed = singular_values(planted(signal, noise)[2])
    return pip_losses(observed, *signal_behind(observed, singular_values(noise)), exponent)


@pytest.mark.parametrize("noise", [gaussian(0.2), uneven()], ids=["gaussian", "uneven"])
def test_the_signal_is_found_behind_noise_of_any_spectrum(noise):
    signal = np.linspace(30, 8, 10)
    _, left, noisy = planted(signal, noise)
    seen_left, observed, _ = np.linalg.svd(noisy)
    found, cosines = signal_behind(observed, singular_values(noise))
    np.testing.assert_allclose(found, signal, rtol=0.04)
    within = np.square(left.T @ seen_left[:, :10]).sum(axis=0)  # of an observed direction in the signal's space
    np.testing.assert_allclose(cosines, within, atol=0.05)


def test_two_strong_directions_of_the_noise_do_not_hide_the_signal():
    frequent = np.random.default_rng(6).standard_normal(N)
    noise = gaussian(0.2) + frequent[:, None] + frequent  # words that fell into one half more often
    signal = np.linspace(30, 8, 10)
    observed = singular_values(planted(signal, gaussian(0.2))[2])
    found, _ = signal_behind(observed, singular_values(noise))
    np.testing.assert_allclose(found, signal, rtol=0.04)


@pytest.mark.parametrize("exponent", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("noise", [gaussian(0.2), uneven()], ids=["gaussian", "uneven"])
def test_the_loss_is_that_of_its_definition(exponent, noise):
    signal = np.linspace(30, 8, 10)
    _, left, noisy = planted(signal, noise)
    seen_left, observed, _ = np.linalg.svd(noisy)
    products = left * signal ** (2 * exponent) @ left.T
    naive = [
        np.linalg.norm(products - seen_left[:, :k] * observed[:k] ** (2 * exponent) @ seen_left[:, :k].T)
        for k in range(1, 31)
    ]
    np.testing.assert_allclose(losses_of(signal, noise, exponent)[:30], naive, rtol=0.06)


def test_at_exponent_zero_the_loss_is_that_of_the_angles_between_two_subspaces():
    cosines, k = np.linspace(0.99, 0.5, 12), 7
    squared = pip_losses(np.linspace(30, 3, 40), np.linspace(30, 3, 12), cosines, 0.0)[k - 1] ** 2
    assert squared == pytest.approx(12 - k + 2 * (1 - cosines[:k]).sum())


def test_under_gaussian_noise_the_choice_is_the_best_threshold_for_singular_values():
    """4/√3 σ√n: Gavish and Donoho, The optimal hard threshold for singular values is 4/√3, 2014."""
    observed = singular_values(planted(np.linspace(20, 1, 40), gaussian(0.2))[2])
    above = int((observed > 4 / np.sqrt(3) * 0.2 * np.sqrt(N)).sum())
    assert abs(int(np.argmin(losses_of(np.linspace(20, 1, 40), gaussian(0.2), 0.5))) + 1 - above) <= 1


def test_without_noise_all_dimensions_of_the_signal_are_wanted():
    losses = losses_of(np.linspace(9, 2, 6), np.zeros((N, N)), 0.5)
    assert losses[5] == pytest.approx(0, abs=1e-5)
    assert (losses[:5] > 1).all()


def test_a_planted_rank_is_found():
    assert int(np.argmin(losses_of(np.full(8, 100.0), gaussian(0.5), 0.5))) + 1 == 8


def test_too_many_dimensions_hurt_less_the_greater_the_exponent():
    excess = []
    for exponent in (0.25, 0.5, 1.0):
        losses = losses_of(FALLING, gaussian(0.2), exponent)
        excess.append(losses[-1] / losses.min())
    assert excess == sorted(excess, reverse=True)


def test_ranges_reach_as_far_as_the_loss_stays_near_its_least():
    report = DimensionReport("svd", 9, 0.1, 9, 0.5, [2.0, 1.18, 1.04, 1.0, 1.03, 1.09, 1.5, 1.01, 3.0])
    assert report.best == 4
    assert report.ranges == {5: (3, 5), 10: (3, 6), 20: (2, 6)}  # 8 is good too, but behind a hill
    flat = DimensionReport("svd", 3, 0.1, 3, 0.5, [1.0, 1.0, 1.0])
    assert flat.ranges[5] == (1, 3)


def topical_text(n_topics: int, sentences: int) -> Corpus:
    """Sentences on ``n_topics`` topics, one each: a signal with as many directions, and noise."""
    random = np.random.default_rng(0)
    lines = [[f"t{topic}w{w}" for w in random.integers(0, 15, 12)] for topic in random.integers(0, n_topics, sentences)]
    return Corpus.from_sentences(lines)


@pytest.mark.parametrize("method", ["svd", "word2vec", "glove"])
def test_a_text_of_so_many_topics_wants_about_so_many_dimensions(method):
    report = choose_dimension(topical_text(6, 1500), method, max_size=90, min_count=1, window=5)
    assert report.words == 90
    assert 5 <= report.best <= 7
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
    uses = "".join(f"t{a}w1\tN\t0-0\tt{a}w1 t{a}w2\tt{a}w1 t{a}w3\n" for a in range(4))
    (tmp_path / "wic.data.txt").write_text(uses)
    (tmp_path / "wic.gold.txt").write_text("T\nF\nT\nF\n")
    assert scores_by_dimension(corpus, "svd", [2], [tmp_path / "wic.data.txt"], min_count=1)[0]["wic.data.txt"] == 0.5


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
