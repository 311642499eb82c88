"""``polyseme compare``: models and methods on the same files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from scipy.stats import spearmanr

import polyseme
from polyseme.cli.evaluate import compare
from polyseme.evaluate.compare import compare as compare_models

PAIRS = [("a", "b", 9.0), ("a", "c", 5.0), ("b", "c", 4.0), ("a", "d", 1.0)]
GOOD = {"a": (1, 0), "b": (1, 0.1), "c": (1, 1), "d": (-1, 0)}
BAD = {"a": (1, 0), "b": (-1, 0.2), "c": (0.5, 1), "d": (1, 0.1)}


def cosine(x: tuple[float, float], y: tuple[float, float]) -> float:
    return float((x[0] * y[0] + x[1] * y[1]) / ((x[0] ** 2 + x[1] ** 2) * (y[0] ** 2 + y[1] ** 2)) ** 0.5)


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    for name, vectors in (("good", GOOD), ("bad", BAD), ("small", {w: GOOD[w] for w in "abc"})):
        lines = [f"{word} {x} {y}" for word, (x, y) in vectors.items()]
        (tmp_path / f"{name}.vec").write_text(f"{len(lines)} 2\n" + "\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "pairs.txt").write_text("".join(f"{a}\t{b}\t{s}\n" for a, b, s in PAIRS), encoding="utf-8")
    return tmp_path


def test_each_model_has_its_row_with_the_figure_of_each_file(ground: Path) -> None:
    asked = [str(ground / "good.vec"), str(ground / "bad.vec"), "--on", str(ground / "pairs.txt"), "--json"]
    found = json.loads(CliRunner().invoke(compare, asked).stdout)
    for entry, vectors in zip(found, (GOOD, BAD), strict=True):
        judged = [score for *_, score in PAIRS]
        expected = spearmanr([cosine(vectors[a], vectors[b]) for a, b, _ in PAIRS], judged).statistic
        (report,) = entry["files"].values()
        assert report["rows"][-1]["spearman"] == pytest.approx(expected, abs=1e-6)


def test_figures_over_different_items_are_said_to_be_so(ground: Path, caplog: pytest.LogCaptureFixture) -> None:
    asked = [str(ground / "good.vec"), str(ground / "small.vec"), "--on", str(ground / "pairs.txt")]
    with caplog.at_level("WARNING"):
        CliRunner().invoke(compare, asked)
    assert "different numbers of items" in caplog.text
    assert "small.vec 3" in caplog.text


def test_methods_are_trained_on_a_text_and_drawn(ground: Path) -> None:
    (ground / "text.txt").write_text("a b c d . b a d c .\n" * 60, encoding="utf-8")
    asked = [str(ground / "text.txt"), "--methods", "svd,counts", "--on", str(ground / "pairs.txt")]
    result = CliRunner().invoke(compare, [*asked, "--picture", str(ground / "bars.svg")])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["model", "svd", "counts"]
    assert "<svg" in (ground / "bars.svg").read_text(encoding="utf-8")


def test_a_method_that_needs_more_than_text_is_refused_before_any_work(ground: Path) -> None:
    (ground / "text.txt").write_text("a b c d .\n" * 60, encoding="utf-8")
    asked = [str(ground / "text.txt"), "--methods", "svd,infersent", "--on", str(ground / "pairs.txt")]
    result = CliRunner().invoke(compare, asked)
    assert result.exit_code != 0
    assert "infersent" in str(result.exception)
    assert "pairs" in str(result.exception)


def test_a_file_without_the_usual_figure_is_compared_by_another(ground: Path) -> None:
    (ground / "wic.data.txt").write_text("".join(f"{w}\tN\t0-1\t{w} b\tc {w}\n" for w in "abcd"), encoding="utf-8")
    (ground / "wic.gold.txt").write_text("T\nF\nT\nF\n", encoding="utf-8")  # and no file to choose a threshold on
    pairs = "".join(f"This is line {n} of a b.\t这是第{n}行。\n" for n in range(30))
    (ground / "translated.tsv").write_text(pairs, encoding="utf-8")
    files = [ground / "wic.data.txt", ground / "translated.tsv"]
    header, (row,) = compare_models({"good": polyseme.load(ground / "good.vec")}, files).table()
    assert header[-2:] == ["wic.data.txt auc", "translated.tsv forward"]
    assert all(isinstance(value, float) for value in row[-2:])
