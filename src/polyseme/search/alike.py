"""What an index learns of itself: below which score hits are hardly used alike, and which words truly split.

Cut-off. Two words taken for one (a pseudo-word) are two uses that someone knows. Over many pairs, the scores of
occurrences of the same word are told from those of the other one by the bound that maximises hits − false hits
(Youden's J), where both are equally likely. Among other words, where no such truth is known, it is the score that one
of a hundred pairs of occurrences of different words reaches.

Words that split. Frequent words with letters that are no function words are looked at in two steps: two means in a few
main directions for all of them, then the clustering that also answers questions (cluster.py) for the most promising. A
word counts if its second use has a fair share; its score is the mean silhouette.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from polyseme.linear import principal_components
from polyseme.nouns import FloatArray, Progress, silent, unit_rows
from polyseme.search.cluster import cluster, silhouettes

SHARED = 0.5  # the part of a word's mean that is taken off where its occurrences are compared with each other
_ONE_IN_A_HUNDRED = 0.99
_AT_LEAST = 0.1  # the share of the second use of a word that splits
_LOOKED_CLOSELY = 48
_OFFERED = 24


def learn_cutoffs(words: Sequence[FloatArray]) -> tuple[float | None, float | None]:
    """The cut-offs among the occurrences of one word and among other words; None where there are too few to learn."""
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
    """The score that tells the two apart best: it maximises P(same ≥ t) − P(other ≥ t)."""
    bounds = np.linspace(-1, 1, 401)
    above = [1 - np.searchsorted(np.sort(scores), bounds) / max(len(scores), 1) for scores in (same, other)]
    return float(bounds[int((above[0] - above[1]).argmax())])


def find_splits(
    words: Sequence[str], vectors_of: Callable[[str], FloatArray], *, apart: float, progress: Progress = silent
) -> list[tuple[str, float]]:
    """The words that split and their scores, the clearest first; ``vectors_of`` gives occurrences of a word."""
    promise = []
    for number, word in enumerate(words):
        promise.append(two_means(vectors_of(word)))
        progress("look for words that split", number + 1, len(words))
    order = np.argsort(-np.array(promise), kind="stable")[:_LOOKED_CLOSELY]
    found = []
    for place in order.tolist():
        vectors = vectors_of(words[place])
        labels = cluster(vectors, apart=apart)
        shares = np.bincount(labels) / max(len(labels), 1)
        if len(shares) > 1 and shares[1] >= _AT_LEAST:
            found.append((words[place], float(silhouettes(vectors, labels).mean())))
    return sorted(found, key=lambda split: -split[1])[:_OFFERED]


def two_means(vectors: FloatArray, directions: int = 4, steps: int = 8) -> float:
    """How clearly two groups part: the mean silhouette of two means; −1 where one of them is nearly empty."""
    points = principal_components(vectors, directions)
    if len(points) < 2 or not points.shape[1]:
        return -1.0
    labels: NDArray[np.int64] = (points[:, 0] > 0).astype(np.int64)
    for _ in range(steps):
        if not _AT_LEAST <= labels.mean() <= 1 - _AT_LEAST:
            return -1.0
        means = np.array([points[labels == group].mean(axis=0) for group in (0, 1)])
        labels = np.linalg.norm(points[:, None] - means, axis=2).argmin(axis=1)
    if not _AT_LEAST <= labels.mean() <= 1 - _AT_LEAST:
        return -1.0
    return float(silhouettes(vectors, labels).mean())
