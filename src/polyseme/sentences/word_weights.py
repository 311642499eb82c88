"""Data to fit a pooling on 拟合: word frequencies, and texts from which to compute principal components.

| given | counts | texts |
|---|---|---|
| a corpus, or texts | its own | its own, at most 100,000 |
| only word vectors | those of their vocabulary; by rank if it has none | random words |

A file of published vectors has no counts, but its words are sorted by frequency: the r-th word is given the count
1/(r + 2.7) (Mandelbrot's form of Zipf's law). Without texts, sentences are made of words drawn by frequency; this is
all that SIF and uSIF assume of a text, but real text gives better results.

Estimated reading times of words (阅读注意力): the scores of the poolings ``surprisal`` and ``pos``.

| pool | score of a word |
|---|---|
| `surprisal` | -log p(w | words before it), from a language model; without one -log p(w), from its frequency |
| `pos` | the mean of -log p(w) over all words with the same tag, its most frequent one in a tagged corpus |

Wang, Zhang and Zong, Learning Sentence Representation with Guidance of Human Attention, IJCAI 2017: reading times are
correlated with both. What differs: there the vectors of tags are learned from similar sentences; here there is one
number for each tag, from the tagged corpus alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints
from polyseme.errors import OptionError
from polyseme.interfaces import ContextEncoder, LanguageModel, Sentence, several, text_batches
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


UNSEEN = ""  # the key of the score for words that have none
_BLOCK = 1 << 22  # tokens counted at a time

Scores = Mapping[str, float]


def by_frequency(counts: Bow) -> Scores:
    """-log p(w) of every word; an unseen word counts as the rarest."""
    numbers = counts.vocabulary.counts
    scores = -np.log(np.maximum(numbers, 1) / max(int(numbers.sum()), 1))
    return dict(zip([*counts.vocabulary.words, UNSEEN], [*scores.tolist(), float(scores.max())], strict=True))


def by_part_of_speech(corpus: Corpus) -> Scores:
    """The score of each word's most frequent tag; an unseen word gets the mean score of words seen once."""
    if corpus.tags is None:
        raise OptionError("pool 'pos' learns from tagged text, word/TAG: fit it on such a file, or a corpus of one")
    n_words, n_tags = len(corpus.all_words), len(corpus.tag_names)
    words, tags, numbers = _counted_pairs(corpus.ids, corpus.tags, n_tags)
    counts = np.bincount(words, numbers, minlength=n_words)
    surprisal = -np.log(np.maximum(counts, 1) / len(corpus.ids))
    totals = np.bincount(tags, surprisal[words] * numbers, minlength=n_tags)
    of_tag = totals / np.maximum(np.bincount(tags, numbers, minlength=n_tags), 1)
    most_frequent = np.zeros(n_words, dtype=np.int64)
    rising = np.lexsort((-tags, numbers))  # of equally frequent tags the first in the table comes last, and stays
    most_frequent[words[rising]] = tags[rising]
    scores = of_tag[most_frequent]
    once = counts == 1
    unseen = float(scores[once].mean()) if once.any() else float(scores.mean())
    return dict(zip([*corpus.all_words, UNSEEN], [*scores.tolist(), unseen], strict=True))


def _counted_pairs(words: NDArray[Any], tags: NDArray[Any], n_tags: int) -> tuple[Ints, Ints, Ints]:
    """The words and tags that occur together and how often, ``(pairs,)`` each: few of all words times all tags."""
    keys, numbers = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    for start in range(0, len(words), _BLOCK):
        block = slice(start, start + _BLOCK)
        new, found = np.unique(words[block].astype(np.int64) * n_tags + tags[block], return_counts=True)
        keys, places = np.unique(np.concatenate([keys, new]), return_inverse=True)
        numbers = np.bincount(places, np.concatenate([numbers, found]), minlength=len(keys)).astype(np.int64)
    return keys // n_tags, keys % n_tags, numbers


def scores_of(texts: list[list[str]], reader: LanguageModel | Scores) -> FloatArray:
    """The scores of all words of all texts, concatenated, ``(N,)``."""
    if isinstance(reader, LanguageModel):
        return np.concatenate([np.zeros(0, dtype=np.float32), *reader.surprisals(texts)])
    unseen = reader[UNSEEN]
    return np.array([reader.get(token, unseen) for tokens in texts for token in tokens], dtype=np.float32)
