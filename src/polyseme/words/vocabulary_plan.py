"""Vocabularies for training: the frequent words of a corpus, and those of an older model if there is one. 增量词表"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints
from polyseme.errors import TrainingError, as_given
from polyseme.store.model import Model
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors


@dataclass(frozen=True)
class WordPlan:
    """The words to train, and where they come from."""

    vocabulary: Vocabulary
    numbers: NDArray[np.int32]  # corpus word -> its index in the vocabulary; len(vocabulary) if it is not in it
    old_rows: Ints  # vocabulary word -> its row in the older model, or -1


def frequent_words(corpus: Corpus, min_count: int, max_size: int | None) -> Vocabulary:
    """The frequent words of the corpus; an error if there are none."""
    vocabulary = corpus.vocabulary.cut(min_count=min_count, max_size=max_size)
    if not len(vocabulary):
        raise TrainingError(
            f"none of the {len(corpus.all_words):,} words occurs {min_count} times or more: give "
            f"more text, or {as_given('min_count', 1)}"
        )
    return vocabulary


def plan_words(corpus: Corpus, min_count: int, max_size: int | None, start: WordVectors | None) -> WordPlan:
    """The frequent words of the corpus and all words of the older model ``start``, with the counts of both added."""
    seen = corpus.vocabulary.cut(min_count=min_count, max_size=max_size)
    if not len(corpus.ids):
        raise TrainingError("the corpus holds no words: nothing to train on")
    if start is None:
        vocabulary, old_rows = seen, np.full(len(seen), -1, dtype=np.int64)
    else:
        vocabulary, old_rows = _merged(start.vocabulary, seen, corpus.vocabulary)
    if len(vocabulary) < 2:
        raise TrainingError(
            f"{len(vocabulary)} of {len(corpus.vocabulary):,} words occur {min_count} times or "
            f"more, and training needs two: give more text, or {as_given('min_count', 1)}"
        )
    numbers = np.full(max(len(corpus.all_words), 1), len(vocabulary), dtype=np.int32)
    if start is None:
        numbers[: len(seen)] = np.arange(len(seen))
    else:
        for place, word in enumerate(corpus.vocabulary.words):
            numbers[place] = vocabulary.index.get(word, len(vocabulary))
    if not (numbers < len(vocabulary)).any():  # every word of a corpus occurs in it somewhere
        raise TrainingError("no word of this corpus is in the model or occurs min_count times: nothing to train on")
    return WordPlan(vocabulary, numbers, old_rows)


def _merged(old: Vocabulary, seen: Vocabulary, everything: Vocabulary) -> tuple[Vocabulary, Ints]:
    counts = dict(zip(old.words, old.counts.tolist(), strict=True))
    more = dict(zip(everything.words, everything.counts.tolist(), strict=True))
    merged = {word: count + more.get(word, 0) for word, count in counts.items()}
    merged.update((word, more[word]) for word in seen.words if word not in counts)
    vocabulary = Vocabulary.from_counts(merged, min_count=0)
    return vocabulary, np.array([old.index.get(word, -1) for word in vocabulary.words], dtype=np.int64)


def older_words(start: Model | None) -> WordVectors | None:
    """The model to continue from, checked to hold word vectors."""
    if start is not None and not isinstance(start, WordVectors):
        raise TrainingError(f"training cannot continue from a {start.method} model: it holds no word vectors")
    return start


def older_vectors(start: Model | None, dim: int) -> WordVectors | None:
    """The model to continue from, checked to hold dense word vectors of the same dimension."""
    start = older_words(start)
    if start is None:
        return None
    if not isinstance(start.vectors, np.ndarray):
        raise TrainingError(f"training cannot continue from the sparse vectors of a {start.method} model")
    size = int(older_rows(start).shape[1])
    if size != dim:
        raise TrainingError(
            f"the model to train further has vectors of dimension {size}: give {as_given('dim', size)}, not {dim}"
        )
    return start


def older_rows(start: WordVectors) -> FloatArray:
    """The vectors that the older model has for its words as inputs, (V, D)."""
    rows: FloatArray = getattr(start, "input", start.vectors)
    return rows


def older_output(start: WordVectors) -> FloatArray | None:
    """The vectors of its words as predicted, (V, D); None if it predicts labels or the nodes of a tree."""
    kept = start.options
    other = getattr(kept, "architecture", "") == "supervised" or getattr(kept, "loss", "") == "hierarchical"
    return None if other else start.output


def carried_over(target: FloatArray, old_rows: Ints, source: FloatArray | None) -> None:
    """Copy the rows of the older matrix to the new rows of their words; ``target`` may be padded."""
    if source is not None:
        known = old_rows >= 0
        target[: len(old_rows)][known, : source.shape[1]] = source[old_rows[known]]
