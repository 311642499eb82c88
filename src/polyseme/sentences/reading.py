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

import numpy as np

from polyseme.errors import OptionError
from polyseme.nouns import ContextEncoder, FloatArray
from polyseme.sentences.counts import Bow
from polyseme.text.corpus import Corpus

UNSEEN = ""  # the key of the score for words that have none

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
    ids, tags = np.asarray(corpus.ids, dtype=np.int64), np.asarray(corpus.tags, dtype=np.int64)
    n_tags, n_words = int(tags.max()) + 1, len(corpus.all_words)
    pairs = np.bincount(ids * n_tags + tags, minlength=n_words * n_tags).reshape(n_words, n_tags)
    counts = pairs.sum(axis=1)
    surprisal = -np.log(np.maximum(counts, 1) / len(ids))
    of_tag = (surprisal @ pairs) / np.maximum(pairs.sum(axis=0), 1)
    scores = of_tag[pairs.argmax(axis=1)]
    once = counts == 1
    unseen = float(scores[once].mean()) if once.any() else float(scores.mean())
    return dict(zip([*corpus.all_words, UNSEEN], [*scores.tolist(), unseen], strict=True))


def scores_of(texts: list[list[str]], reader: ContextEncoder | Scores) -> FloatArray:
    """The scores of all words of all texts, concatenated, ``(N,)``."""
    if isinstance(reader, ContextEncoder):
        found = [np.zeros(0, dtype=np.float32), *reader.surprisals(texts)]
        return np.concatenate(found)
    unseen = reader[UNSEEN]
    return np.array([reader.get(token, unseen) for tokens in texts for token in tokens], dtype=np.float32)
