"""fit, predict and score as commands, from files as people have them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.processes import run_command
from tests.tasks.conftest import reviews

from polyseme.cli.main import polyseme

SMALL = ["--head", "dan", "--hidden", "8", "--epochs", "6", "--lr", "0.02", "--batch-size", "8", "--threads", "1"]


def run(*arguments: object) -> str:
    done = CliRunner().invoke(polyseme, [str(a) for a in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name, seed in (("train", 0), ("dev", 1)):
        lines = [f"{label}\t{text}" for text, label in reviews(60, seed)]
        (folder / f"{name}.tsv").write_text("\n".join(["label\ttext_a", *lines]) + "\n", encoding="utf-8")
    run("fit", "classify", "--train", folder / "train.tsv", "--dev", folder / "dev.tsv", "-o", folder / "m", *SMALL)
    return folder


def test_score_prints_the_figures_by_their_names(files):
    found = json.loads(run("score", files / "m", files / "dev.tsv", "--json"))
    assert found["n"] == 60
    assert found["accuracy"] >= 0.9
    assert {"macro_f1", "micro_f1", "matthews", "f1", "per_label", "confusion"} <= set(found)
    assert "accuracy" in run("score", files / "m", files / "dev.tsv")


def test_predict_writes_a_record_for_every_line_labelled_or_not(files):
    run("predict", files / "m", files / "dev.tsv", "-o", files / "out.jsonl")
    records = [json.loads(line) for line in (files / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [record["text"] for record in records] == [text for text, _ in reviews(60, 1)]
    assert all(sum(record["probabilities"].values()) == pytest.approx(1, abs=1e-5) for record in records)
    (files / "plain.txt").write_text("房间很干净。\n服务很冷淡。\n", encoding="utf-8")
    labels = [json.loads(line)["label"] for line in run("predict", files / "m", files / "plain.txt").splitlines()]
    assert labels == ["good", "bad"]


def test_folds_and_seeds_print_mean_and_deviation(files):
    found = json.loads(run("fit", "classify", "--train", files / "train.tsv", "--folds", 3, "--json", *SMALL))
    assert len(found["each"]) == 3
    assert found["mean"]["accuracy"] == pytest.approx(sum(each["accuracy"] for each in found["each"]) / 3)
    both = json.loads(
        run("fit", "classify", "--train", files / "train.tsv", "--folds", 2, "--seeds", 2, "--json", *SMALL)
    )
    assert len(both["each"]) == 4
    table = run("fit", "classify", "--train", files / "train.tsv", "--seeds", 2, "-o", files / "best", *SMALL)
    assert "deviation" in table
    assert "accuracy" in run("score", files / "best", files / "dev.tsv")


@pytest.mark.parametrize("flags", [("--resume",), ("--picture", "curve.png")])
def test_what_belongs_to_one_training_run_is_refused_with_several(files, flags):
    arguments = ["fit", "classify", "--train", str(files / "train.tsv"), "--folds", "3", *flags]
    done = CliRunner().invoke(polyseme, arguments)
    assert done.exit_code == 2
    assert "leave it out with --folds and --seeds" in " ".join(done.output.split())


def test_pictures_of_the_confusion_and_of_the_curve(files):
    run("score", files / "m", files / "dev.tsv", "--picture", files / "confusion.svg")
    run("fit", "classify", "--train", files / "train.tsv", "-o", files / "n", "--picture", files / "curve.png", *SMALL)
    assert (files / "confusion.svg").read_text(encoding="utf-8").count("<path") > 10
    assert (files / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_labels_are_cut_in_score_as_they_were_in_fit(files, tmp_path, caplog):
    rows = "".join(f"{'GOOD:much' if label == 'good' else 'BAD:little'} {text}\n" for text, label in reviews(60))
    (tmp_path / "parts.txt").write_text(rows, encoding="utf-8")
    run("fit", "classify", "--train", tmp_path / "parts.txt", "-o", tmp_path / "m", "--label-parts", 1, *SMALL)
    found = json.loads(run("score", tmp_path / "m", tmp_path / "parts.txt", "--json"))
    assert found["labels"] == ["BAD", "GOOD"]
    assert found["accuracy"] >= 0.9
    (tmp_path / "more.tsv").write_text("label\ttext\nGOOD\t很干净\nUGLY\t很破旧\n", encoding="utf-8")
    run("score", tmp_path / "m", tmp_path / "more.tsv")
    assert "'UGLY' is not in the training examples (1 rows, first row 2)" in caplog.text


def test_three_rows_are_read_as_the_many_that_it_was_fitted_to(tmp_path):
    lines = [f"{label.upper()}:{n % 7} {text}" for n, (text, label) in enumerate(reviews(60))]
    (tmp_path / "train.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "few.txt").write_text("\n".join(lines[:3]) + "\n", encoding="utf-8")
    how = ["--dev", tmp_path / "few.txt", "--format", "first"]
    run("fit", "classify", "--train", tmp_path / "train.txt", *how, "-o", tmp_path / "m", *SMALL)
    predicted = [json.loads(line) for line in run("predict", tmp_path / "m", tmp_path / "few.txt").splitlines()]
    assert [record["text"] for record in predicted] == [line.split(" ", 1)[1] for line in lines[:3]]
    assert json.loads(run("score", tmp_path / "m", tmp_path / "few.txt", "--json"))["n"] == 3


def test_a_sentence_a_line_is_tagged_whatever_its_words(tmp_path):
    rows = "".join(f"{a} B-N\n{b} E-N\n来 O\n了 O\n\n" for a in "王李张陈" for b in "明红伟")
    (tmp_path / "train.bmes").write_text(rows, encoding="utf-8")
    run("fit", "tag", "--train", tmp_path / "train.bmes", "-o", tmp_path / "m", "--head", "linear", "--epochs", 1)
    (tmp_path / "plain.txt").write_text("plain line one\nplain line two\n", encoding="utf-8")
    records = [json.loads(line) for line in run("predict", tmp_path / "m", tmp_path / "plain.txt").splitlines()]
    assert ["".join(record["tokens"]) for record in records] == ["plainlineone", "plainlinetwo"]
    records = [json.loads(line) for line in run("predict", tmp_path / "m", tmp_path / "train.bmes").splitlines()]
    assert len(records) == 12


def test_a_published_language_identifier_predicts(shared_data, files):
    (files / "languages.txt").write_text("bonjour tout le monde\n你好，世界\n", encoding="utf-8")
    found = run("predict", shared_data / "models" / "fasttext" / "lid.176.ftz", files / "languages.txt")
    assert [json.loads(line)["label"] for line in found.splitlines()] == ["fr", "zh"]


def test_what_is_wrong_is_said_in_one_line(files, tmp_path):
    (tmp_path / "empty.tsv").write_text("", encoding="utf-8")
    (tmp_path / "others.tsv").write_text("label\ttext\nyes\t好\nno\t坏\n", encoding="utf-8")
    for arguments in (
        ["fit", "classify", "--train", str(tmp_path / "empty.tsv"), "-o", str(tmp_path / "m")],
        ["fit", "classify", "--train", str(files / "train.tsv")],
        ["score", str(files / "m"), str(files / "plain.txt")],
        ["score", str(files / "m"), str(tmp_path / "others.tsv")],
    ):
        done = CliRunner().invoke(polyseme, arguments)
        assert done.exit_code
        assert done.exception
        assert "\n" not in str(done.exception).strip()


def test_advice_is_given_in_the_words_of_the_command(tmp_path):
    (tmp_path / "numbers.tsv").write_text("".join(f"a{i}\tb{i}\tc{i}\n" for i in range(40)), encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("sentence1\tsentence2\n甲\t乙\n丙\t丁\n", encoding="utf-8")
    said = [
        run_command("fit", task, "--train", tmp_path / name, "-o", tmp_path / "m", text=True).stderr
        for task, name in (("classify", "numbers.tsv"), ("pair", "pairs.tsv"))
    ]
    assert all("--columns " in line and "columns=" not in line and "unlabelled" not in line for line in said), said


def test_a_file_of_a_person_is_not_overwritten_unasked(files, tmp_path):
    mine = tmp_path / "mine.png"
    mine.write_bytes(b"my photograph")
    (tmp_path / "text.txt").write_text("a b c a b d\n" * 200, encoding="utf-8")
    examples = ["--train", files / "train.tsv"]
    for arguments in (
        ["predict", files / "m", files / "dev.tsv", "-o", mine],
        ["score", files / "m", files / "dev.tsv", "--picture", mine],
        ["fit", "classify", *examples, "-o", tmp_path / "m", "--picture", mine, *SMALL],
        ["dimension", tmp_path / "text.txt", "--max-size", 10, "--picture", mine],
    ):
        done = CliRunner().invoke(polyseme, [str(a) for a in arguments])
        assert "mine.png is a file of 13 bytes: replace it with --force" in str(done.exception)
        assert mine.read_bytes() == b"my photograph"
    assert not (tmp_path / "m").exists()  # told before the work
    run("predict", files / "m", files / "dev.tsv", "-o", mine, "--force")
    assert mine.read_bytes().startswith(b"{")
    run("score", files / "m", files / "dev.tsv", "--picture", mine, "--force")
    assert mine.read_bytes().startswith(b"\x89PNG")


def test_a_model_is_not_replaced_by_the_best_of_several_seeds_unasked(files):
    before = (files / "m" / "model.json").read_bytes()
    arguments = ["fit", "classify", "--train", files / "train.tsv", "--seeds", 2, "-o", files / "m", *SMALL]
    done = CliRunner().invoke(polyseme, [str(a) for a in arguments])
    assert "m holds a model of classify" in str(done.exception)
    assert (files / "m" / "model.json").read_bytes() == before
