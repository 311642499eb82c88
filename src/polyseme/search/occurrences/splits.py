"""What an index learns of itself: below which score hits are hardly used the same way, and which words truly split.

Cut-off. Two words taken for one (a pseudo-word) are two uses that someone knows. Over many pairs, it is the lowest
score from which on nine of ten pairs of occurrences are of the same word, where same and other are equally frequent.
Among other words, where no such truth is known, it is the score that one of a hundred pairs of occurrences of different
words reaches.

Words that split. Frequent words with letters that are not function words are looked at in two steps: two means in a few
principal components for all of them, then the clustering that also answers questions (cluster.py) for the most
promising. A group whose occurrences mostly have the same word next to them is a set phrase, a date line or a list; a
word counts if two other groups have a fair share. Its score is the mean silhouette of these.

Words that are worth a look in an index. 示例词
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, principal_components, unit_rows
from polyseme.interfaces import Progress, silent
from polyseme.search.occurrences.cluster import SHARED, cluster, silhouettes
from polyseme.search.occurrences.index import Index
from polyseme.search.word_selection import tells_something

_ONE_IN_A_HUNDRED = 0.99
_RIGHT = 0.9
_SAME_NEIGHBOUR = 0.5  # the share of one word next to a group's occurrences from which on it is a set phrase
_AT_LEAST = 0.1  # the share of the second use of a word that splits
_LOOKED_CLOSELY = 60
_OFFERED = 24


def learn_cutoffs(words: Sequence[FloatArray]) -> tuple[float | None, float | None]:
    """The cut-offs among the occurrences of one word and among other words; None if there are too few to learn."""
    pairs = list(zip(words[::2], words[1::2], strict=False))
    if len(pairs) < 5:
        return None, None
    same, other, random = [], [], []
    for a, b in pairs:
        n = min(len(a), len(b))
        both = np.concatenate([a[:n], b[:n]])
        seen = unit_rows(both - SHARED * both.mean(axis=0))
        cosines = seen @ seen.T
        upper = np.triu_indices(n, 1)
        same.append(np.concatenate([cosines[:n, :n][upper], cosines[n:, n:][upper]]))
        other.append(cosines[:n, n:].ravel())
        random.append((a[:n] @ b[:n].T).ravel())
    return _best_bound(np.concatenate(same), np.concatenate(other)), float(
        np.quantile(np.concatenate(random), _ONE_IN_A_HUNDRED)
    )


def _best_bound(same: FloatArray, other: FloatArray) -> float:
    """The lowest score t with P(same ≥ t) / (P(same ≥ t) + P(other ≥ t)) ≥ 0.9; 1 if there is none."""
    bounds = np.linspace(-1, 1, 401)
    hits, false = (1 - np.searchsorted(np.sort(scores), bounds) / max(len(scores), 1) for scores in (same, other))
    good = np.flatnonzero((hits > 0) & (hits >= _RIGHT * (hits + false)))
    return float(bounds[good[0]]) if len(good) else 1.0


class WordSample(NamedTuple):
    """Occurrences of a word: their vectors, ``(n, d)``, and the words next to them by number, ``(n, 2)``."""

    vectors: FloatArray
    neighbours: NDArray[np.int64]


def find_splits(
    words: Sequence[str],
    sample: Callable[[str], tuple[FloatArray, NDArray[np.int64]]],
    *,
    apart: float,
    progress: Progress = silent,
) -> list[tuple[str, float]]:
    """The words that split and their scores, the clearest first; ``sample`` gives a ``WordSample`` of a word."""
    quick = np.full(len(words), np.nan)  # NaN: cannot split
    for number, word in enumerate(words):
        quick[number] = _two_means_silhouette(*sample(word))
        progress("look for words that split", number + 1, len(words))
    promising = np.argsort(-quick, kind="stable")[:_LOOKED_CLOSELY]
    splits = []
    for number in promising[np.isfinite(quick[promising])].tolist():
        vectors, neighbours = sample(words[number])
        labels = cluster(vectors, apart=apart)
        groups = range(int(labels.max()) + 1)
        varied = [group for group in groups if _is_varied(neighbours[labels == group], len(labels))]
        if len(varied) > 1:
            clear = silhouettes(vectors, labels)
            splits.append((words[number], float(clear[np.isin(labels, varied)].mean())))
    return sorted(splits, key=lambda split: -split[1])[:_OFFERED]


def _is_varied(neighbours: NDArray[np.int64], n: int) -> bool:
    """Whether a group has a fair share of ``n`` occurrences, and not the same word next to most of them."""
    if len(neighbours) < _AT_LEAST * n:
        return False
    commonest = max(int(np.unique(side, return_counts=True)[1].max()) for side in neighbours.T)
    return commonest < _SAME_NEIGHBOUR * len(neighbours)


def _two_means_silhouette(
    vectors: FloatArray, neighbours: NDArray[np.int64], directions: int = 4, steps: int = 8
) -> float:
    """How clearly two means part the occurrences of a word: their silhouette; NaN if a group is small or a phrase."""
    points = principal_components(vectors, directions)
    if len(points) < 2 or not points.shape[1]:
        return math.nan
    labels: NDArray[np.int64] = (points[:, 0] > 0).astype(np.int64)
    for _ in range(steps):
        if not _AT_LEAST <= labels.mean() <= 1 - _AT_LEAST:
            return math.nan
        means = np.array([points[labels == group].mean(axis=0) for group in (0, 1)])
        labels = np.linalg.norm(points[:, None] - means, axis=2).argmin(axis=1)
    if not all(_is_varied(neighbours[labels == group], len(labels)) for group in (0, 1)):
        return math.nan
    return float(silhouettes(vectors, labels).mean())


_LOOKED_AT = 2000  # most frequent words
_CHINESE = 0x2E80  # the first character of the scripts whose words are short


def split_words(index: Index) -> list[tuple[str, float]]:
    """The words that were seen to split when the index was made, the clearest first, with their scores."""
    known = index.facts.get("splits")
    pairs = [pair for pair in known if isinstance(pair, list) and len(pair) == 2] if isinstance(known, list) else []
    return [(str(word), float(score)) for word, score in pairs if index.count(str(word))]


def example_words(index: Index, n: int = 12) -> list[str]:
    """Words to begin with: those that split, or else the frequent ones that are not function words."""
    splitting = [word for word, _ in split_words(index)]
    frequent = (word for word in index.words.words if tells_something(word))
    return [*splitting, *(word for word in islice(frequent, n) if word not in splitting)][:n]


def frequent_words(words: Iterable[str], n: int = 12) -> list[str]:
    """Of words, the frequent ones first, those that are not function words; the full ones, if there are any."""
    known = [word for word in islice(words, _LOOKED_AT) if tells_something(word)]
    full = [word for word in known if len(word) > (1 if ord(word[0]) >= _CHINESE else 4)]
    return (full or known)[:n]
