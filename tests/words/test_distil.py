"""Word vectors of a context encoder: means that NumPy computes from the same vectors, in one pass and in two."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

import polyseme
from polyseme.errors import OptionError, TrainingError
from polyseme.interfaces import ContextEncoder, EncodedSentence, Layers
from polyseme.store.model import About, Model
from polyseme.text.corpus import Corpus
from polyseme.training.run import Run
from polyseme.words import distil
from polyseme.words.distil import Distilled, DistilOptions

WORDS = ("打", "电话", "篮球", "窗户", "书", "水")


class ByPlace(Model, ContextEncoder):
    """Two layers: a number for the word, its position and the sentence length; and ten times these."""

    method = "static"  # any name of the catalog: it is not saved
    dim, n_layers = 3, 2

    def __init__(self):
        self.about, self.read = About(), 0

    def encode_tokens(self, sentences, *, layers="all"):
        chosen = Layers.read(layers, self.n_layers)
        for tokens in self.token_lists(sentences):
            self.read += 1
            low = np.array([[ord(t[0]) % 97, i, len(tokens)] for i, t in enumerate(tokens)], dtype=np.float32)
            low = low.reshape(len(tokens), 3)
            yield EncodedSentence(tokens, chosen.planes(np.stack([low, 10 * low])))

    def parts(self):
        raise AssertionError("not saved")

    from_parts = parts


@pytest.fixture(scope="module")
def sentences():
    random = np.random.default_rng(3)
    return [[WORDS[i] for i in random.integers(0, len(WORDS), size)] for size in random.integers(1, 30, 300)]


def states(sentences, word, layer=1):
    """The vectors of all occurrences of a word at a layer."""
    found = ByPlace().encode_tokens(sentences, layers=layer)
    return np.array([v for s in found for t, v in zip(s.tokens, s.layers[0], strict=True) if t == word])


def test_a_word_s_vector_is_the_mean_over_its_occurrences(sentences):
    vectors = polyseme.distil(ByPlace(), Corpus.from_sentences(sentences), layers="1")
    assert len(vectors) == len(WORDS)
    for word in WORDS:
        np.testing.assert_allclose(vectors[word], states(sentences, word).mean(axis=0), rtol=1e-5)
    assert vectors.vocabulary.counts.sum() == sum(map(len, sentences))


def test_every_document_counts_the_same_where_that_is_asked_for(sentences):
    lines = [["打", "书"], ["书", "打", "水", "打"], ["打"]]
    corpus = Corpus.from_sentences(lines, documents="line")
    vectors = polyseme.distil(ByPlace(), corpus, weight="document", layers="0", min_count=1)
    wanted = np.mean([states([line], "打", 0).mean(axis=0) for line in lines], axis=0)
    np.testing.assert_allclose(vectors["打"], wanted, rtol=1e-6)
    one_document = polyseme.distil(ByPlace(), Corpus.from_sentences(sentences), weight="document", layers="0")
    np.testing.assert_allclose(one_document["书"], states(sentences, "书", 0).mean(axis=0), rtol=1e-5)


def test_components_are_those_of_scikit_learn(sentences):
    corpus = Corpus.from_sentences(sentences)
    whole, reduced = (polyseme.distil(ByPlace(), corpus, pca=n, layers="mean") for n in (0, 2))
    wanted = PCA(2).fit_transform(whole.vectors)
    assert reduced.vectors.shape == (len(WORDS), 2)
    np.testing.assert_allclose(np.abs(reduced.vectors), np.abs(wanted), atol=1e-3)


def test_sentences_are_passed_over_when_their_words_were_read_often_enough(sentences, monkeypatch):
    monkeypatch.setattr(distil, "_BLOCK_TOKENS", 50)
    encoder = ByPlace()
    vectors = polyseme.distil(encoder, Corpus.from_sentences(sentences), occurrences=20)
    assert encoder.read < len(sentences) / 4
    assert np.isfinite(vectors.vectors).all()


@pytest.mark.parametrize("weight", ["occurrence", "document"])
def test_an_interrupted_run_goes_on_to_the_same_vectors(sentences, tmp_path, monkeypatch, weight):
    monkeypatch.setattr(distil, "_BLOCK_TOKENS", 200)
    monkeypatch.setattr(distil, "_CHECKPOINT_TOKENS", 400)
    corpus = Corpus.from_sentences(sentences)

    def stop(what, done, total, /, **facts):
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        polyseme.distil(ByPlace(), corpus, out=tmp_path / "m", weight=weight, progress=stop)
    encoder = ByPlace()
    again = polyseme.distil(encoder, corpus, out=tmp_path / "m", weight=weight, resume=True)
    assert 0 < encoder.read < len(sentences)
    np.testing.assert_array_equal(again.vectors, polyseme.distil(ByPlace(), corpus, weight=weight).vectors)
    assert not (tmp_path / "m.checkpoint").exists()
    assert polyseme.load(tmp_path / "m").most_similar("打", topn=1)


def test_what_cannot_be_distilled_is_said(sentences):
    corpus = Corpus.from_sentences(sentences)
    with pytest.raises(OptionError, match="one layer"):
        polyseme.distil(ByPlace(), corpus, layers="all")
    with pytest.raises(TrainingError, match="or min_count=1"):
        Distilled.of(ByPlace(), corpus, DistilOptions(min_count=100_000), Run())
