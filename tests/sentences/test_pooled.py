"""Pooled word vectors, beside the formulas written out in NumPy for one text at a time."""

from __future__ import annotations

import numpy as np
import pytest

import polyseme
from polyseme.contexts.stack import Stack
from polyseme.contexts.static import StaticEncoder
from polyseme.errors import OptionError
from polyseme.sentences.lift import lift
from polyseme.sentences.pooled import Pooled
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

WORDS = ["的", "猫", "狗", "打", "电话", "书"]
random = np.random.default_rng(5)
MATRIX = random.normal(size=(6, 4)).astype(np.float32)
TEXTS = [
    [WORDS[i] for i in random.choice(6, size=n, p=[0.5, 0.2, 0.1, 0.1, 0.05, 0.05])] for n in random.integers(1, 12, 60)
]
ASKED = [["猫", "的", "的", "未知"], ["未知"], [], ["狗"], *TEXTS[:4]]


@pytest.fixture(scope="module")
def static():
    return StaticEncoder(WordVectors(Vocabulary(WORDS, np.arange(6, 0, -1)), MATRIX))


def vectors(tokens):
    return np.array([MATRIX[WORDS.index(t)] for t in tokens if t in WORDS], dtype=np.float64).reshape(-1, 4)


def counts():
    flat = [token for tokens in TEXTS for token in tokens]
    return {word: flat.count(word) for word in WORDS}


def one_by_one(texts, function):
    return np.array([function([t for t in tokens if t in WORDS]) if vectors(tokens).size else np.zeros(4)
                     for tokens in texts])  # fmt: skip


def test_tfidf_weighs_a_word_by_its_rarity(static):
    df = {word: sum(word in tokens for tokens in TEXTS) for word in WORDS}

    def mean(tokens):
        idf = np.array([np.log((1 + len(TEXTS)) / (1 + df[t])) + 1 for t in tokens])
        return idf @ vectors(tokens) / idf.sum()

    found = Pooled.fitted(static, "tfidf", TEXTS).encode(ASKED)
    np.testing.assert_allclose(found, one_by_one(ASKED, mean), atol=1e-5)


def sif(tokens, a=1e-3):
    total = sum(counts().values())
    weights = np.array([a / (a + counts()[t] / total) for t in tokens])
    return weights @ vectors(tokens) / len(tokens)


def test_sif_is_the_formula_of_its_paper(static):
    plain = one_by_one(TEXTS, sif)
    u = np.linalg.svd(plain, full_matrices=False)[2][0]  # uncentred
    wanted = one_by_one(ASKED, sif)
    wanted -= np.outer(wanted @ u, u)
    found = Pooled.fitted(static, "sif", TEXTS)
    np.testing.assert_allclose(found.encode(ASKED), wanted, atol=1e-5)
    np.testing.assert_allclose(found.encode(TEXTS) @ u, 0, atol=1e-5)
    kept = Pooled.fitted(static, "sif", TEXTS, components=0)
    np.testing.assert_allclose(kept.encode(ASKED), one_by_one(ASKED, sif), atol=1e-6)


def test_sif_with_even_weights_and_no_direction_is_the_mean(static):
    found = Pooled.fitted(static, "sif", TEXTS, components=0, smoothing=1e6).encode(TEXTS)
    np.testing.assert_allclose(found, Pooled(static).encode(TEXTS), atol=1e-5)


def test_usif_is_the_formula_of_its_paper(static):
    total, size = sum(counts().values()), len(counts())
    n = total / len(TEXTS)
    p = {word: number / total for word, number in counts().items()}
    alpha = sum(value > 1 - (1 - 1 / size) ** n for value in p.values()) / size
    alpha = min(max(alpha, 1 / size), 1 - 1 / (size + 1))
    a = (1 - alpha) / (alpha * size / 2)

    def weighed(tokens):
        x = vectors(tokens) / np.linalg.norm(vectors(tokens), axis=0)  # each dimension, not each word
        return np.array([a / (a / 2 + p[t]) for t in tokens]) @ x / len(tokens)

    plain = one_by_one(TEXTS, weighed)
    _, s, v = np.linalg.svd(plain, full_matrices=False)
    shares = s[:3] ** 2 / (s[:3] ** 2).sum()
    wanted = one_by_one(ASKED, weighed)
    wanted = wanted - sum(share * np.outer(wanted @ u, u) for share, u in zip(shares, v, strict=False))
    found = Pooled.fitted(static, "usif", TEXTS, components=3).encode(ASKED)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_power_means_are_taken_in_complex_numbers_and_keep_their_real_part(static):
    powers = [1, 2, 3, 0.5, -1]
    found = Pooled(static, "pmean", powers="-inf,1,2,3,0.5,-1,inf").encode(ASKED)
    assert found.shape == (len(ASKED), 7 * 4)
    for row, tokens in zip(found, ASKED, strict=True):
        x = vectors(tokens)
        if not len(x):
            assert not row.any()
            continue
        wanted = [
            x.min(axis=0),
            *(((x.astype(complex) ** p).mean(axis=0) ** (1 / p)).real for p in powers),
            x.max(axis=0),
        ]
        np.testing.assert_allclose(row, np.concatenate(wanted), rtol=1e-4, atol=1e-5)
    minus_eight = WordVectors(Vocabulary(["x"], np.array([1])), np.array([[-8, 0]], dtype=np.float32))
    cube, inverse = (lift(minus_eight, "sentences", pool="pmean", powers=p).encode([["x"]])[0] for p in ("3", "-1"))
    np.testing.assert_allclose(cube, [4, 0], atol=1e-6)  # 8 · cos(π/3), and not -8
    np.testing.assert_allclose(inverse, [-8, 0], atol=1e-6)


@pytest.mark.parametrize("powers", ["", "0", "1,x", "nan"])
def test_powers_that_are_none_are_refused(static, powers):
    with pytest.raises(OptionError, match="powers"):
        Pooled(static, "pmean", powers=powers)


def test_a_pool_that_counts_words_wants_text_where_the_model_has_no_counts(static):
    with pytest.raises(OptionError, match="fit"):
        lift(Stack([static]), "sentences", pool="sif")


def test_text_is_read_in_groups_to_the_same_vectors(static, monkeypatch):
    monkeypatch.setattr("polyseme.sentences.pooled._GROUP_TOKENS", 7)
    pooled = Pooled.fitted(static, "sif", TEXTS)
    np.testing.assert_allclose(list(pooled.stream(iter(ASKED))), pooled.encode(ASKED), atol=1e-7)
    other = Pooled(Stack([static]), "max")  # read as vectors of any encoder are
    np.testing.assert_array_equal(other.encode(ASKED), Pooled(static, "max").encode(ASKED))


def test_a_fitted_pooling_opens_as_it_was_saved(static, tmp_path):
    for pool in ("tfidf", "sif", "usif"):
        before = Pooled.fitted(static, pool, TEXTS, smoothing=0.01)
        before.save(tmp_path / pool)
        again = polyseme.load(tmp_path / pool)
        assert again.options == before.options
        np.testing.assert_array_equal(again.encode(ASKED), before.encode(ASKED))


def test_word_vectors_are_pooled_by_the_counts_of_their_own_vocabulary(static):
    p = np.arange(6, 0, -1) / 21
    weights = 1e-3 / (1e-3 + p)

    def mean(tokens):
        return np.array([weights[WORDS.index(t)] for t in tokens]) @ vectors(tokens) / len(tokens)

    plain = lift(static, "sentences", pool="sif", components=0)
    np.testing.assert_allclose(plain.encode(ASKED), one_by_one(ASKED, mean), atol=1e-6)
    # The direction of texts of n words drawn by p: that of E[vvᵀ] = 1/n Σ p g² xxᵀ + (1 - 1/n) mmᵀ, m = Σ p g x
    m, n = (p * weights) @ MATRIX, 20
    u = np.linalg.eigh((MATRIX.T * (p * weights**2)) @ MATRIX / n + (1 - 1 / n) * np.outer(m, m))[1][:, -1]
    assert abs(lift(static, "sentences", pool="sif").directions[:, 0] @ u) > 0.999


def test_words_without_counts_are_weighed_by_their_rank():
    published = WordVectors(Vocabulary(WORDS, np.zeros(6, dtype=np.int64)), MATRIX)
    p = 1 / (np.arange(1, 7) + 2.7)
    p /= p.sum()
    found = lift(published, "sentences", pool="sif", components=0).encode([[word] for word in WORDS])
    np.testing.assert_allclose(found, (1e-3 / (1e-3 + p))[:, None] * MATRIX, rtol=1e-4)
