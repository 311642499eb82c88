"""Transfer: a logistic regression on frozen vectors tells labels and scores, as scikit-learn's would."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import polyseme
from polyseme.cli.main import polyseme as command
from polyseme.data.examples import Examples
from polyseme.errors import OptionError
from polyseme.evaluate.kinds import evaluate_file, recognise_kind
from polyseme.evaluate.report import EvaluationSettings
from polyseme.evaluate.transfer import Scaling, features, fit_logistic, goal_of, read_examples
from polyseme.sentences.lift import lift
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

GOOD, BAD = ("好", "棒", "美"), ("差", "烂", "丑")


@pytest.fixture(scope="module")
def tones() -> WordVectors:
    """Vectors with words of praise on the right, words of blame on the left, and others in between."""
    rng = np.random.default_rng(3)
    words = [*GOOD, *BAD, "的", "了", "书"]
    vectors = rng.normal(scale=0.1, size=(len(words), 6)).astype(np.float32)
    vectors[:3, 0] += 1
    vectors[3:6, 0] -= 1
    return WordVectors(Vocabulary(words, np.arange(len(words), 0, -1)), vectors)


def reviews(n: int) -> list[tuple[str, str]]:
    rng = np.random.default_rng(5)
    rows = []
    for i in range(n):
        words = [*rng.choice(GOOD if i % 2 else BAD, size=2), *rng.choice(["的", "了", "书"], size=3)]
        rows.append((" ".join(rng.permutation(words)), "正" if i % 2 else "负"))
    return rows


def written(folder: Path, rows: list[tuple[str, ...]], name: str = "file.tsv") -> Path:
    path = folder / name
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def noisy_rows(n: int, n_classes: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(n, 12)) * np.linspace(3, 0.1, 12) + 1).astype(np.float32)
    chosen = (rows @ rng.normal(size=(12, n_classes)) + rng.normal(scale=2, size=(n, n_classes))).argmax(axis=1)
    return rows, chosen


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("penalty", [1e-1, 1e-3])
def test_the_regression_is_scikit_learns(n_classes: int, sparse: bool, penalty: float) -> None:
    from scipy.sparse import csr_array

    rows, chosen = noisy_rows(400, n_classes)
    given = csr_array(np.where(rows > 1, rows, 0)) if sparse else rows
    scaled = Scaling.of(given)(given)
    ours = fit_logistic(scaled, np.eye(n_classes)[chosen], penalty)
    # Of two classes scikit-learn penalises the difference of the weights, which here are opposite numbers.
    strength = penalty / 2 if n_classes == 2 else penalty
    peer = LogisticRegression(C=1 / (strength * len(rows)), tol=1e-8, max_iter=5000).fit(scaled, chosen)
    np.testing.assert_allclose(ours.chances(scaled), peer.predict_proba(scaled), atol=2e-3)


def test_scaling_makes_the_penalty_mean_the_same_to_vectors_of_any_length() -> None:
    rows, chosen = noisy_rows(300, 3)
    small, large = (Scaling.of(x)(x) for x in (rows, rows * 1000))
    assert (small**2).sum(axis=1).mean() == pytest.approx(1, abs=1e-4)
    one, other = (fit_logistic(x, np.eye(3)[chosen], 1e-3).chances(x) for x in (small, large))
    np.testing.assert_allclose(one, other, atol=1e-3)


def test_folds_predict_every_row_by_a_regression_that_has_not_seen_it(tones: WordVectors, tmp_path: Path) -> None:
    path = written(tmp_path, reviews(120))
    found = evaluate_file(tones, path, EvaluationSettings(folds=5)).whole
    assert (found["accuracy"], found["f1"], found["commonest"], found["total"]) == (1.0, 1.0, 0.5, 120)
    rng = np.random.default_rng(1)
    shuffled = [(text, str(rng.choice(["正", "负"]))) for text, _ in reviews(120)]
    assert 0.3 < evaluate_file(tones, written(tmp_path, shuffled), EvaluationSettings(folds=5)).whole["accuracy"] < 0.7


def test_a_labelled_file_means_transfer(tmp_path: Path) -> None:
    assert recognise_kind(written(tmp_path, reviews(30))).name == "transfer"
    pairs = [(f"这 一本 好 书 {i}", f"那 一本 差 书 {i}", str(i % 2)) for i in range(30)]
    assert recognise_kind(written(tmp_path, pairs, "pairs.tsv")).name == "transfer"


@pytest.mark.parametrize(("file", "kind"), [
    ("trec/TREC.train", "transfer"), ("mrpc/msr_paraphrase_train.txt", "transfer"), ("rte/train.tsv", "transfer"),
    ("lcqmc/dev.tsv", "transfer"), ("chnsenticorp/dev.tsv", "transfer"), ("sick/SICK_trial.txt", "sts"),
    ("stsb/stsb-en-dev.csv", "sts"),
])  # fmt: skip
def test_classes_mean_transfer_and_scores_of_pairs_similarity(file: str, kind: str, shared_data: Path) -> None:
    assert recognise_kind(shared_data / "tasks" / file).name == kind


def test_texts_without_a_known_word_are_counted(tones: WordVectors, tmp_path: Path) -> None:
    path = written(tmp_path, [*reviews(60), ("hello world", "正")])
    found = evaluate_file(tones, path).whole
    assert (found["used"], found["total"]) == (60, 61)


def test_one_label_cannot_be_told_apart(tones: WordVectors, tmp_path: Path) -> None:
    path = written(tmp_path, [(text, "正") for text, _ in reviews(20)])
    with pytest.raises(OptionError, match="only one label"):
        evaluate_file(tones, path, EvaluationSettings(transfer=True))


def test_scores_beyond_a_hundred_steps_are_learned_too(tones: WordVectors, tmp_path: Path) -> None:
    rows = [(text, str(500.5 if label == "正" else 100.25)) for text, label in reviews(80)]
    assert evaluate_file(tones, written(tmp_path, rows), EvaluationSettings(transfer=True)).whole["pearson"] > 0.99


def test_pairs_are_read_by_their_difference_and_product(tones: WordVectors) -> None:
    encoder = lift(tones, "sentences")
    u, v = encoder.encode(["好 书"]), encoder.encode(["差 书"])
    rows = features(encoder, Examples.of([("好 书", "差 书", "0"), ("差 书", "差 书", "1")]))
    np.testing.assert_allclose(rows[0], np.concatenate([np.abs(u - v)[0], (u * v)[0]]), atol=1e-6)
    np.testing.assert_allclose(rows[1][:6], 0)
    bow = polyseme.train("bow", polyseme.Corpus.from_sentences([["好", "书"], ["差", "书"]]))
    sparse = features(bow, Examples.of([("好 书", "差 书", "0"), ("差 书", "差 书", "1")]))
    dense = bow.encode(["好 书", "差 书"])
    np.testing.assert_allclose(sparse.toarray()[0], [*np.abs(dense[0] - dense[1]), *(dense[0] * dense[1])])


def test_sick_relatedness_is_scikit_learns_regression_on_soft_labels(shared_data: Path) -> None:
    """A row with the score 3.6 stands twice: as a 3 with the weight .4 and as a 4 with the weight .6."""
    glove = polyseme.load(shared_data / "models" / "glove" / "glove.6B.50d.top20k.txt")
    train, trial = (shared_data / "tasks" / "sick" / f"SICK_{name}.txt" for name in ("train", "trial"))
    found = evaluate_file(glove, train, EvaluationSettings(test=trial)).whole
    encoder = lift(glove, "sentences")
    examples, tested = read_examples(train, EvaluationSettings()), read_examples(trial, EvaluationSettings())
    scaling = Scaling.of(features(encoder, examples), blocks=2)
    rows, targets = scaling(features(encoder, examples)), goal_of(examples).targets(examples)
    row, step = np.nonzero(targets)
    peer = LogisticRegression(C=1 / (found["penalty"] * len(rows)), solver="newton-cholesky")
    peer.fit(rows[row], step + 1, sample_weight=targets[row, step])
    guess = peer.predict_proba(scaling(features(encoder, tested))) @ peer.classes_
    reference = np.corrcoef(guess, np.asarray(tested.targets))[0, 1]
    assert found["pearson"] == pytest.approx(reference, abs=0.005)
    assert (found["trained_on"], found["total"]) == (4500, 500)


def test_models_stand_beside_each_other_on_the_command_line(tones: WordVectors, tmp_path: Path) -> None:
    tones.save(tmp_path / "tones")
    corpus = polyseme.Corpus.from_sentences([text.split() for text, _ in reviews(40)])
    polyseme.train("tfidf", corpus, out=tmp_path / "tfidf")
    path = written(tmp_path, reviews(60))
    asked = ["evaluate", str(tmp_path / "tones"), str(path), "--also", str(tmp_path / "tfidf"), "--transfer"]
    answered = CliRunner().invoke(command, [*asked, "--json"], catch_exceptions=False)
    reports = json.loads(answered.stdout)
    assert [Path(report["model"]).name for report in reports] == ["tones", "tfidf"]
    assert all(report["rows"][-1]["accuracy"] == 1 for report in reports)
    table = CliRunner().invoke(command, asked, catch_exceptions=False).stdout
    assert len(table.splitlines()) == 4
    assert "accuracy" in table
