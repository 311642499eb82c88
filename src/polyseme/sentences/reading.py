"""Estimated reading times of words (阅读注意力): the scores of the poolings ``surprisal`` and ``pos``.

| pool | score of a word |
|---|---|
| `surprisal` | -log p(w | words before it), from a language model; without one -log p(w), from its frequency |
| `pos` | the mean of -log p(w) over all words with the same tag, its most frequent one in a tagged corpus |

Wang, Zhang and Zong, Learning Sentence Representation with Guidance of Human Attention, IJCAI 2017: reading times are
correlated with both. What differs: there the vectors of tags are learned from similar sentences; here there is one
number for each tag, from the tagged corpus alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import OptionError
from polyseme.interfaces import ContextEncoder, FloatArray
from polyseme.sentences.bag_of_words import Bow
from polyseme.text.corpus import Corpus

UNSEEN = ""  # the key of the score for words that have none
_BLOCK = 1 << 22  # tokens counted at a time

Scores = Mapping[str, float]
Ints = NDArray[np.int64]


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


def scores_of(texts: list[list[str]], reader: ContextEncoder | Scores) -> FloatArray:
    """The scores of all words of all texts, concatenated, ``(N,)``."""
    if isinstance(reader, ContextEncoder):
        found = [np.zeros(0, dtype=np.float32), *reader.surprisals(texts)]
        return np.concatenate(found)
    unseen = reader[UNSEEN]
    return np.array([reader.get(token, unseen) for tokens in texts for token in tokens], dtype=np.float32)
