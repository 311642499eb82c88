"""The soft bag of words, beside its definition written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import polyseme
from polyseme.sentences.softbow import SoftBow, SoftBowOptions
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

random = np.random.default_rng(4)
WORDS = [f"w{i}" for i in range(30)]
MATRIX = random.normal(size=(30, 5)).astype(np.float32)
TEXTS = [[WORDS[i] for i in random.integers(0, 30, n)] for n in random.integers(1, 9, 40)] + [[], ["unknown"]]


@pytest.fixture(scope="module")
def words():
    return WordVectors(Vocabulary(WORDS, np.arange(30, 0, -1)), MATRIX)


def by_definition(text, k):
    """max over w of cos(w, j), if j is among the k nearest words of w."""
    units = MATRIX.astype(np.float64) / np.linalg.norm(MATRIX, axis=1, keepdims=True)
    vector = np.zeros(30)
    for word in set(text) & set(WORDS):
        cosines = units @ units[WORDS.index(word)]
        for j in np.argsort(-cosines)[:k]:
            vector[j] = max(vector[j], cosines[j])
    return vector


@pytest.mark.parametrize("k", [1, 4, 10, 30])
def test_an_entry_is_the_greatest_cosine_with_any_word_of_the_text(words, k):
    found = SoftBow.of(words, SoftBowOptions(neighbours=k)).encode(TEXTS)
    np.testing.assert_allclose(found, [by_definition(text, k) for text in TEXTS], atol=1e-6)


def test_with_one_neighbour_it_is_the_bag_of_words(words):
    found = SoftBow.of(words, SoftBowOptions(neighbours=1)).encode(TEXTS)
    np.testing.assert_array_equal(found, [[word in text for word in WORDS] for text in TEXTS])


def test_its_rows_are_sparse_and_grow_with_the_text(words):
    model = SoftBow.of(words)
    rows = model.encode_sparse(TEXTS)
    assert all(row.nnz <= 10 * len(set(text)) for row, text in zip(rows, TEXTS, strict=True))
    longer = model.encode([[*text, "w3"] for text in TEXTS])
    assert (longer >= model.encode(TEXTS)).all()


def test_it_is_trained_with_the_vectors_that_are_named(words, tmp_path):
    words.save(tmp_path / "wv")
    (tmp_path / "t.txt").write_text("\n".join(" ".join(text) for text in TEXTS), encoding="utf-8")
    given = polyseme.train(
        "softbow", tmp_path / "t.txt", word_vectors=str(tmp_path / "wv"), max_size=20, segment="space"
    )
    assert given.dim == 20
    expected = SoftBow.of(words, SoftBowOptions(max_size=20))
    np.testing.assert_array_equal(given.encode(TEXTS), expected.encode(TEXTS))
