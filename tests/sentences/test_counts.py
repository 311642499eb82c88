"""Sentence vectors from word counts, against scikit-learn's for the same words."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

import polyseme
from polyseme.errors import TrainingError
from polyseme.text.corpus import Corpus
from polyseme.text.segment import Segmentation

NEW = ["小明打电话，打电话。", "从未见过", "", "打"]
tokens = Segmentation().tokens


@pytest.fixture(scope="module")
def corpus(fifty_lines):
    return Corpus.from_sentences(fifty_lines)


def same(model, theirs, texts):
    """Assert that our vectors equal theirs, with their columns in our order."""
    assert set(theirs.vocabulary_) == set(model.vocabulary.words)
    columns = [theirs.vocabulary_[word] for word in model.vocabulary.words]
    np.testing.assert_allclose(model.encode(texts), theirs.transform(texts).toarray()[:, columns], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("entries", ["counts", "presence"])
def test_bow_is_scikit_learn_s(corpus, fifty_lines, entries):
    theirs = CountVectorizer(tokenizer=tokens, token_pattern=None, lowercase=False, binary=entries == "presence")
    theirs.fit(fifty_lines)
    same(polyseme.train("bow", corpus, entries=entries), theirs, [*fifty_lines[:5], *NEW])


@pytest.mark.parametrize(("idf", "norm", "entries"), [("smooth", "l2", "counts"), ("plain", "none", "log")])
def test_tfidf_is_scikit_learn_s(corpus, fifty_lines, idf, norm, entries):
    theirs = TfidfVectorizer(
        tokenizer=tokens, token_pattern=None, lowercase=False, smooth_idf=idf == "smooth",
        norm=norm if norm == "l2" else None, sublinear_tf=entries == "log",
    ).fit(fifty_lines)  # fmt: skip
    same(polyseme.train("tfidf", corpus, idf=idf, norm=norm, entries=entries), theirs, [*fifty_lines[:5], *NEW])


def test_lsa_spans_what_scikit_learn_s_truncated_svd_spans(corpus, fifty_lines):
    model = polyseme.train("lsa", corpus, dim=10, iterations=10)
    rows = polyseme.train("tfidf", corpus).encode_sparse(fifty_lines)
    theirs = TruncatedSVD(10, n_iter=10, random_state=0).fit(rows)
    ours = model.encode(fifty_lines)
    np.testing.assert_allclose(np.linalg.norm(ours), np.linalg.norm(theirs.transform(rows)), rtol=1e-4)
    np.testing.assert_allclose(ours @ ours.T, theirs.transform(rows) @ theirs.transform(rows).T, atol=2e-3)
    with pytest.raises(TrainingError, match="lower dim"):
        polyseme.train("lsa", corpus, dim=51)


def test_documents_are_the_texts_where_a_corpus_has_several():
    lines = ["猫 狗", "猫 狗", "猫 鱼"]
    by_line = Corpus.from_sentences(lines, documents="line", segment="space")
    one = Corpus.from_sentences(lines, segment="space")
    for corpus, texts, wanted in (
        (by_line, "auto", [3, 2, 1]),
        (one, "auto", [3, 2, 1]),  # all is one document: sentences
        (one, "documents", [1, 1, 1]),
    ):
        model = polyseme.train("bow", corpus, texts=texts)
        assert model.vocabulary.words == ["猫", "狗", "鱼"]
        assert model.frequencies.tolist() == wanted


def test_words_in_too_many_texts_are_left_out():
    corpus = Corpus.from_sentences(["猫 狗", "猫 狗", "猫 鱼"], segment="space")
    assert polyseme.train("bow", corpus, max_share=0.7).vocabulary.words == ["狗", "鱼"]
    assert polyseme.train("lsa", corpus, max_share=0.7, dim=1).encode(["鱼"]).shape == (1, 1)
    with pytest.raises(TrainingError, match="max_share"):
        polyseme.train("bow", corpus, max_share=0.1)


def test_similarities_of_sparse_vectors_are_cosines(corpus, fifty_lines):
    model = polyseme.train("tfidf", corpus, norm="none")
    dense = model.encode(fifty_lines[:6]).astype(np.float64)
    units = dense / np.linalg.norm(dense, axis=1, keepdims=True)
    np.testing.assert_allclose(model.similarity(fifty_lines[:6], fifty_lines[:6]), units @ units.T, atol=1e-6)
    assert not model.similarity([""], fifty_lines[:2]).any()
    np.testing.assert_array_equal(list(model.stream(iter(fifty_lines[:6]))), model.encode(fifty_lines[:6]))
