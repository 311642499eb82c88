"""What a pooling is fitted on 拟合: how often words stand in texts, and texts to find principal components in.

| given | counts | texts |
|---|---|---|
| a corpus, or texts | theirs | theirs, 100,000 at most |
| nothing, to word vectors | those of their vocabulary; by rank where it keeps none | words drawn at random |

A file of published vectors keeps no counts, but its words occur in the order of their frequency: the r-th counts as
1/(r + 2.7) (Mandelbrot's form of Zipf's law). Without a text, words are drawn by frequency, as many as a sentence has;
SIF and uSIF assume no more of a text, but real text fits better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from polyseme.nouns import ContextEncoder, Sentence, several, text_batches
from polyseme.sentences.counts import Bow, BowOptions
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.run import Run

SAMPLE = 100_000  # texts that directions are found on
DRAWN = 20_000  # texts drawn where none are given
LENGTH = 20  # words of such a text, where the model does not know
_SHIFT = 2.7
_SCALE = 1e8  # of counts made from ranks

Fitting = tuple[Bow, Iterable[Sentence]]


def from_texts(encoder: ContextEncoder, data: Corpus | Iterable[Sentence]) -> Fitting:
    """The words of a corpus or of texts counted, and some of its sentences."""
    if not isinstance(data, Corpus):
        lists = (tokens for batch in text_batches(several(data)) for tokens in encoder.tokenize_all(batch))
        data = Corpus.from_sentences(lists, documents="line")
    step = max(1, -(-len(data) // SAMPLE))
    sentences = (data.sentence(i) for i in range(0, len(data), step))
    return Bow.train(data, BowOptions(texts="sentences"), Run()), sentences


def from_vocabulary(words: Any) -> Fitting:
    """The same of word vectors alone: the counts their vocabulary keeps, and words drawn by them."""
    vocabulary = _with_counts(words.vocabulary)
    about: About = words.about
    total, sentences = int(vocabulary.counts.sum()), about.corpus.get("sentences")
    n_texts = max(1, sentences if isinstance(sentences, int) and sentences > 0 else total // LENGTH)
    share = -np.expm1(-vocabulary.counts / n_texts)  # of texts that have the word, were words thrown among them
    frequencies = np.rint(share * n_texts).astype(np.int64)
    counts = Bow(vocabulary, frequencies, n_texts, options=BowOptions(texts="sentences"), about=About.of(words))
    return counts, _drawn(vocabulary, max(2, round(total / n_texts)))


def _with_counts(vocabulary: Vocabulary) -> Vocabulary:
    if vocabulary.counts.any():
        return vocabulary
    ranks = np.arange(1, len(vocabulary) + 1)
    return Vocabulary(vocabulary.words, np.maximum(_SCALE / (ranks + _SHIFT), 1).astype(np.int64))


def _drawn(vocabulary: Vocabulary, length: int) -> Iterator[list[str]]:
    random = np.random.default_rng(1)
    chances = vocabulary.counts / vocabulary.counts.sum()
    for row in random.choice(len(vocabulary), size=(DRAWN, min(length, 100)), p=chances).tolist():
        yield [vocabulary.words[i] for i in row]
