"""Data to fit a pooling on 拟合: word frequencies, and texts from which to compute principal components.

| given | counts | texts |
|---|---|---|
| a corpus, or texts | its own | its own, at most 100,000 |
| only word vectors | those of their vocabulary; by rank if it has none | random words |

A file of published vectors has no counts, but its words are sorted by frequency: the r-th word is given the count
1/(r + 2.7) (Mandelbrot's form of Zipf's law). Without texts, sentences are made of words drawn by frequency; this is
all that SIF and uSIF assume of a text, but real text gives better results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from polyseme.interfaces import ContextEncoder, Sentence, several, text_batches
from polyseme.sentences.bag_of_words import Bow, BowOptions
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.run import Run

SAMPLE = 100_000  # texts from which directions are computed
DRAWN = 20_000  # random texts if none are given
LENGTH = 20  # words of such a text, if the model does not know the length of its sentences
_SHIFT = 2.7
_SCALE = 1e8  # of counts derived from ranks

Fitting = tuple[Bow, Iterable[Sentence]]


def from_texts(encoder: ContextEncoder, data: Corpus | Iterable[Sentence]) -> Fitting:
    """The word counts of a corpus or of texts, and some of its sentences."""
    if not isinstance(data, Corpus):
        lists = (tokens for batch in text_batches(several(data)) for tokens in encoder.tokenize_all(batch))
        data = Corpus.from_sentences(lists, documents="line")
    step = max(1, -(-len(data) // SAMPLE))
    sentences = (data.sentence(i) for i in range(0, len(data), step))
    return Bow.train(data, BowOptions(texts="sentences"), Run()), sentences


def from_vocabulary(words: Any) -> Fitting:
    """The same from word vectors alone: the counts of their vocabulary, and random sentences drawn by these."""
    vocabulary = with_counts(words.vocabulary)
    about: About = words.about
    total, sentences = int(vocabulary.counts.sum()), about.corpus.get("sentences")
    n_texts = max(1, sentences if isinstance(sentences, int) and sentences > 0 else total // LENGTH)
    share = -np.expm1(-vocabulary.counts / n_texts)  # of texts with the word, if words were distributed at random
    frequencies = np.rint(share * n_texts).astype(np.int64)
    counts = Bow(vocabulary, frequencies, n_texts, options=BowOptions(texts="sentences"), about=About.of(words))
    return counts, _drawn(vocabulary, max(2, round(total / n_texts)))


def with_counts(vocabulary: Vocabulary) -> Vocabulary:
    """The vocabulary itself, or, if its file did not tell how often words occur, with counts by rank."""
    if vocabulary.counts.any():
        return vocabulary
    ranks = np.arange(1, len(vocabulary) + 1)
    return Vocabulary(vocabulary.words, np.maximum(_SCALE / (ranks + _SHIFT), 1).astype(np.int64))


def _drawn(vocabulary: Vocabulary, length: int) -> Iterator[list[str]]:
    random = np.random.default_rng(1)
    chances = vocabulary.counts / vocabulary.counts.sum()
    for row in random.choice(len(vocabulary), size=(DRAWN, min(length, 100)), p=chances).tolist():
        yield [vocabulary.words[i] for i in row]
