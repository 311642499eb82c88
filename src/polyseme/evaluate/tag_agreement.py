"""Do occurrences that are near each other mean the same? Measured with the tags of a tagged corpus. 词性一致率

For a word with several tags (里 is a place in 心里, a length in 三里路) each occurrence is a query, and its k nearest
other occurrences of the same word, among all of them in the corpus, are the answer:

    share  the part of these neighbours that carry the query's own tag
    vote   how often the tag that most of them carry is the query's own (equal numbers: the nearer ones decide)

next to what no vectors at all would give: ``chance``, the share among neighbours drawn at random, and ``commonest``,
the vote of always answering the word's most frequent tag. The model never sees a tag. Means are over words, each
counting once.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray
from polyseme.errors import TextError
from polyseme.interfaces import Progress, silent
from polyseme.search.occurrences.sorting import even_sample

if TYPE_CHECKING:
    from polyseme.search.occurrences.index import Index

QUERIES = 2000  # of a more frequent word an even sample of this many occurrences asks, among all of its occurrences
_ROWS = 256  # queries compared at a time


@dataclass(frozen=True)
class WordAgreement:
    """The measure for one word."""

    word: str
    count: int
    tags: dict[str, int]
    share: float
    vote: float
    chance: float
    commonest: float


@dataclass(frozen=True)
class Agreement:
    """The measure for all words that qualify, and its means over them."""

    words: list[WordAgreement]

    def to_json(self) -> dict[str, Any]:
        """For programs: the means, then every word."""
        means = {name: getattr(self, name) for name in ("share", "vote", "chance", "commonest")}
        return {**means, "words": [asdict(word) for word in self.words]}

    @property
    def share(self) -> float:
        """Mean share of neighbours with the query's own tag."""
        return _mean([word.share for word in self.words])

    @property
    def vote(self) -> float:
        """Mean share of queries whose neighbours' majority is right."""
        return _mean([word.vote for word in self.words])

    @property
    def chance(self) -> float:
        """The share that neighbours drawn at random would have."""
        return _mean([word.chance for word in self.words])

    @property
    def commonest(self) -> float:
        """The vote that always answers the most frequent tag."""
        return _mean([word.commonest for word in self.words])


def tag_agreement(
    index: Index,
    *,
    k: int = 10,
    min_count: int = 200,
    second: int = 60,
    layer: int | None = None,
    progress: Progress = silent,
) -> Agreement:
    """Measure on the words with ``min_count`` occurrences or more, ``second`` or more of them with a second tag."""
    corpus = index.corpus
    if corpus.tags is None:
        raise TextError(f"{corpus.path} has no tags, so neighbours cannot be compared")
    agreements = []
    words = [word for word in index.words if index.count(word) >= max(min_count, 2)]
    for place, word in enumerate(words):
        rows = index.occurrences(word)
        tags = np.asarray(corpus.tags[index.tokens(slice(rows.start, rows.stop))]).astype(np.int64)
        counts = np.sort(np.bincount(tags))[::-1]
        if len(counts) > 1 and counts[1] >= second:
            agreements.append(_word_agreement(word, index.centred_vectors(word, layer), tags, corpus.tag_names, k))
        progress("compare neighbours", place + 1, len(words))
    return Agreement(agreements)


def neighbour_scores(vectors: FloatArray, tags: NDArray[np.int64], k: int) -> tuple[float, float]:
    """(share, vote) of one word's occurrences, ``(n, d)`` of length one with tags ``(n,)``."""
    n, n_tags = len(vectors), int(tags.max()) + 1
    queries = even_sample(n, QUERIES)
    k = min(k, n - 1)
    same = right = 0
    for begin in range(0, len(queries), _ROWS):
        block = queries[begin : begin + _ROWS]
        scores = vectors[block] @ vectors.T  # (b, n)
        scores[np.arange(len(block)), block] = -np.inf  # an occurrence is not its own neighbour
        near = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        agrees = tags[near] == tags[block, None]
        same += int(agrees.sum())
        closeness = np.take_along_axis(scores, near, axis=1)
        votes = np.zeros((len(block), n_tags))
        # One vote each; the closeness, well below one vote in sum, decides between equal numbers.
        np.add.at(votes, (np.arange(len(block))[:, None], tags[near]), 1 + closeness / (4 * k))
        right += int((votes.argmax(axis=1) == tags[block]).sum())
    return same / (k * len(queries)), right / len(queries)


def _word_agreement(word: str, vectors: FloatArray, tags: NDArray[np.int64], names: list[str], k: int) -> WordAgreement:
    share, vote = neighbour_scores(vectors, tags, k)
    counts = np.bincount(tags)
    n = len(tags)
    chance = float((counts * (counts - 1.0)).sum() / (n * (n - 1.0)))
    shown = {names[i]: int(counts[i]) for i in np.argsort(-counts, kind="stable") if counts[i]}
    return WordAgreement(word, n, shown, share, vote, chance, float(counts.max() / n))


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
