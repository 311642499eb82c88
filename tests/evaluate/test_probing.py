"""Probing: labels derived from text are right, and a probe finds what is known to be in the vectors."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import polyseme
from polyseme.arrays import FloatArray
from polyseme.errors import OptionError, TrainingError
from polyseme.evaluate.kinds import evaluate_file
from polyseme.evaluate.probing import content, length, order, sentences_of
from polyseme.evaluate.report import EvaluationSettings
from polyseme.interfaces import Sentence, SentenceEncoder

THREE = ("length", "content", "order")


class Known(SentenceEncoder):
    """Vectors that hold the number of words, or the number of adjacent words out of alphabetical order."""

    dim = 2

    def __init__(self, what: str) -> None:
        self.what = what

    def encode_batch(self, texts: list[Sentence]) -> FloatArray:
        if self.what == "length":
            return np.array([[len(text), 1] for text in texts], dtype=np.float32)
        return np.array([[sum(a > b for a, b in pairwise(t)), 1] for t in texts], dtype=np.float32)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thousand lines of five to twenty words each, in alphabetical order."""
    rng = np.random.default_rng(7)
    words = np.array([f"w{number:03}" for number in range(500)])
    lines = [" ".join(sorted(rng.choice(words, size=rng.integers(5, 21), replace=False))) for _ in range(1000)]
    path = tmp_path_factory.mktemp("probing") / "text.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_labels_of_length_are_even_stretches(text: Path) -> None:
    sentences, classes = length(sentences_of(text, None, 6000))
    by_class = [sorted({len(s) for s, c in zip(sentences, classes, strict=True) if c == k}) for k in range(6)]
    assert all(low[-1] < high[0] for low, high in pairwise(by_class))
    assert np.bincount(classes).max() < 2 * np.bincount(classes).min()


def test_labels_of_content_name_the_one_word_that_is_asked_about() -> None:
    rng = np.random.default_rng(1)
    fillers = [f"f{number}" for number in range(3)]  # too frequent to be asked about
    asked = [f"a{number}" for number in range(10)]
    sentences = [[*fillers, str(rng.choice(asked)), f"rare{i}"] for i in range(400)]
    kept, classes = content([*sentences, [*fillers, "a1", "a2"]])
    assert len(kept) == 400
    for kind in range(10):
        words = Counter(w for s, c in zip(kept, classes, strict=True) if c == kind for w in s if w.startswith("a"))
        assert len(words) == 1


def test_half_of_the_sentences_have_two_neighbours_exchanged(text: Path) -> None:
    sentences = sentences_of(text, None, 400)
    asked, classes = order(sentences)
    assert (np.bincount(classes) == 200).all()
    for before, after, changed in zip(sentences, asked, classes, strict=True):
        assert sorted(before) == sorted(after)
        assert sum(a != b for a, b in zip(before, after, strict=True)) == 2 * changed


def test_what_a_vector_holds_is_told_and_what_it_lacks_is_not(text: Path) -> None:
    found = {
        what: {row["section"]: row for row in evaluate_file(Known(what), text, EvaluationSettings(probe=THREE)).rows}
        for what in ("length", "order")
    }
    assert found["length"]["length"]["accuracy"] > 0.95
    assert found["length"]["order"]["accuracy"] < 0.6
    assert found["order"]["order"]["accuracy"] == 1.0
    assert found["order"]["content"]["accuracy"] < 0.1
    assert found["length"]["content"]["bag_of_words"] > 0.8
    assert found["length"]["order"]["bag_of_words"] < 0.6
    assert found["length"]["order"]["commonest"] == pytest.approx(0.5, abs=0.01)


def test_too_little_text_and_unknown_tasks_are_refused(text: Path, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("one two three four five six\n", encoding="utf-8")
    with pytest.raises(TrainingError, match="give more text"):
        evaluate_file(Known("length"), tmp_path / "short.txt", EvaluationSettings(probe=("length",)))
    with pytest.raises(OptionError, match="did you mean 'order'"):
        evaluate_file(Known("length"), text, EvaluationSettings(probe=("ordr",)))


def test_a_built_corpus_is_taken_as_it_is(text: Path, tmp_path: Path) -> None:
    corpus = polyseme.Corpus.build(text, tmp_path / "corpus")
    row = evaluate_file(Known("length"), corpus.path, EvaluationSettings(probe=("length",))).rows[0]
    assert row["accuracy"] > 0.95
