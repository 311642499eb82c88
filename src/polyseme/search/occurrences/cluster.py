"""How many groups do these vectors form, and which? One is a possible answer.

1. Each vector becomes the mean of its nearest ones: noise averages out, and the nearest are used the same way
   far more often than not.
2. A mixture of Gaussians is fitted in the few principal components of the vectors, its size chosen by BIC.
3. Real groups are no Gaussians, and BIC spends several on one of them; components that run into each other are joined
   again, by the directly estimated misclassification probability (Hennig, "Methods for merging Gaussian mixture
   components", 2010), τ being the posterior probabilities:

       q(i, j) = max( Σ τ_i·[assigned to j] / Σ τ_i ,  Σ τ_j·[assigned to i] / Σ τ_j )  >  0.05

4. What is left apart may still be one sense in two set phrases. Vectors are centred over all words, so the cosine of
   two means has a meaning of its own: groups with a cosine above ``apart`` are joined too. ``learn_apart`` finds that
   bound from the corpus itself: pairs of words taken for one (pseudo-words) should part, single words should not.

A mixture of Gaussians with diagonal covariances, its size chosen by BIC. 高斯混合

EM from the groups of k-means, these from k-means++ (Arthur and Vassilvitskii, 2007). scikit-learn has the same; a
question would wait longer for its import than for the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, principal_components, unit_rows
from polyseme.interfaces import Progress, silent

Points = NDArray[np.float64]

_PATIENCE = 3  # sizes tried beyond the best
_STEPS = 60
_TOLERANCE = 1e-3  # of the mean log-likelihood
_LEAST_VARIANCE = 1e-3  # of the points' own


def mixture(points: Points, most: int, seed: int) -> Points:
    """Posterior probabilities of the components of the mixture with the lowest BIC, ``(n, d) -> (n, k)``."""
    rng = np.random.default_rng(seed)
    least = _LEAST_VARIANCE * float(points.var(axis=0).mean())
    lowest, best = np.inf, np.ones((len(points), 1))
    for k in range(1, most + 1):
        posterior, likelihood = _fitted(points, _means(points, k, rng), least)
        free = k - 1 + 2 * k * points.shape[1]
        bic = -2 * likelihood + free * np.log(len(points))
        if bic < lowest:
            lowest, best = bic, posterior
        elif k >= best.shape[1] + _PATIENCE:
            break
    return best


def _fitted(points: Points, labels: NDArray[np.int64], least: float) -> tuple[Points, float]:
    """EM from a first grouping: posterior probabilities ``(n, k)`` and the log-likelihood of all points."""
    posterior, last = np.eye(int(labels.max()) + 1)[labels], -np.inf
    squares = points**2
    for _ in range(_STEPS):
        sizes = posterior.sum(axis=0) + 1e-10
        means = posterior.T @ points / sizes[:, None]
        variances = np.maximum(posterior.T @ squares / sizes[:, None] - means**2, 0) + least
        distances = (
            squares @ (1 / variances).T - 2 * points @ (means / variances).T + (means**2 / variances).sum(axis=1)
        )
        logs = np.log(sizes / len(points)) - 0.5 * (distances + np.log(2 * np.pi * variances).sum(axis=1))  # (n, k)
        top = logs.max(axis=1, keepdims=True)
        powers = np.exp(logs - top)
        sums = powers.sum(axis=1, keepdims=True)
        posterior, likelihood = powers / sums, float((np.log(sums) + top).mean())
        if abs(likelihood - last) < _TOLERANCE:
            break
        last = likelihood
    return posterior, likelihood * len(points)


def _means(points: Points, k: int, rng: np.random.Generator, steps: int = 20) -> NDArray[np.int64]:
    """Groups by k-means, ``(n,)``."""
    centres = _first_centres(points, k, rng)
    labels = np.zeros(len(points), dtype=np.int64)
    for _ in range(steps):
        labels = ((centres**2).sum(axis=1) - 2 * points @ centres.T).argmin(axis=1)
        moved = np.array([points[own].mean(axis=0) if (own := labels == g).any() else centres[g] for g in range(k)])
        if np.allclose(moved, centres):
            break
        centres = moved
    return labels


def _first_centres(points: Points, k: int, rng: np.random.Generator) -> Points:
    """Points far from each other: each drawn by its squared distance from those before it."""
    centres = [points[rng.integers(len(points))]]
    squares = ((points - centres[0]) ** 2).sum(axis=1)
    while len(centres) < k:
        total = squares.sum()
        centres.append(points[rng.choice(len(points), p=squares / total if total > 0 else None)])
        squares = np.minimum(squares, ((points - centres[-1]) ** 2).sum(axis=1))
    return np.array(centres)


DIRECTIONS = 8
SHARED = 0.5  # the part of a word's mean that is subtracted where its occurrences are compared with each other
APART = 0.2  # where the corpus is too small to learn it from
FEWEST = 12  # points below which there is nothing to find
_MOST = 10  # components that are tried
_POINTS_PER_DIRECTION = 12  # few points are looked at in fewer directions
_POINTS_PER_GROUP = 6
_OVERLAP = 0.05
_NEIGHBOURS = 20
_BOUNDS = np.arange(-0.2, 0.61, 0.02)  # that are tried
_LEFT_WHOLE = 0.5


def cluster(vectors: FloatArray, *, max_clusters: int = 8, apart: float = APART, seed: int = 1) -> NDArray[np.int64]:
    """A label for each vector, ``(n, d) -> (n,)``; 0 is the largest group, and they are numbered without gaps."""
    labels = _components(vectors, seed) if max_clusters > 1 else np.zeros(len(vectors), dtype=np.int64)
    return _joined(labels, _joins(vectors, labels), apart, max_clusters)


def silhouettes(vectors: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
    """How clearly each vector belongs to its group, ``(n,)`` within [−1, 1]; 0 if there is one group.

    (b − a) / max(a, b), a being the distance to the mean of its group and b that to the nearest other mean, in the main
    directions: the silhouette (Rousseeuw, 1987) as Hruschka et al. (2004) simplify it. Below 0 another group is nearer.
    """
    if labels.max(initial=0) == 0:
        return np.zeros(len(vectors), dtype=np.float32)
    points = principal_components(vectors, DIRECTIONS)
    means = np.array([points[labels == group].mean(axis=0) for group in range(int(labels.max()) + 1)])
    distances = np.linalg.norm(points[:, None] - means, axis=2)  # (n, groups)
    own = distances[np.arange(len(points)), labels]
    distances[np.arange(len(points)), labels] = np.inf
    other = distances.min(axis=1)
    return np.asarray((other - own) / np.maximum(np.maximum(other, own), 1e-12), dtype=np.float32)


def learn_apart(words: Sequence[FloatArray], *, seed: int = 1, progress: Progress = silent) -> float:
    """The bound that tells single words from pairs of them taken for one; ``words`` holds the vectors of each.

    Of the bounds that leave at least half of the single words whole (some do have several uses) it is the one with the
    largest mean V-measure of the pairs; of those about as good the highest, since two uses of a word are nearer to each
    other than two words.
    """
    if len(words) < 10:
        return APART
    pairs = [(a, b[: max(len(b) // 2, 1)]) for a, b in zip(words[::2], words[1::2], strict=False)]
    found = []
    for vectors in (*words, *(np.concatenate(pair) for pair in pairs)):
        labels = _components(vectors, seed)
        found.append((labels, _joins(vectors, labels)))
        progress("learn when uses are different", len(found), len(words) + len(pairs))
    truths = [np.repeat([0, 1], [len(a), len(b)]) for a, b in pairs]
    single, double = found[: len(words)], found[len(words) :]
    whole = np.array([np.mean([_joined(*one, bound).max() == 0 for one in single]) for bound in _BOUNDS])
    worth = np.array(
        [
            np.mean([v_measure(truth, _joined(*one, bound)) for one, truth in zip(double, truths, strict=True)])
            for bound in _BOUNDS
        ]
    )
    worth[1:][whole[1:] < _LEFT_WHOLE] = -np.inf  # where none does, the lowest is left
    about = 2 / len(words)  # so much can a single word change
    return float(_BOUNDS[np.flatnonzero(worth >= worth.max() - about)[-1]])


def v_measure(truth: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    """Harmonic mean of homogeneity and completeness (Rosenberg and Hirschberg, 2007)."""
    table = np.zeros((int(truth.max()) + 1, int(labels.max()) + 1))
    np.add.at(table, (truth, labels), 1 / len(labels))
    of_truth, of_labels, of_both = (_entropy(p) for p in (table.sum(axis=1), table.sum(axis=0), table.ravel()))
    shared = of_truth + of_labels - of_both
    return 1.0 if of_truth + of_labels == 0 else 2 * shared / (of_truth + of_labels)


def _entropy(shares: NDArray[np.float64]) -> float:
    some = shares[shares > 0]
    return float(-(some * np.log(some)).sum())


def _components(vectors: FloatArray, seed: int) -> NDArray[np.int64]:
    n = len(vectors)
    points = principal_components(_through_neighbours(vectors), min(DIRECTIONS, max(2, n // _POINTS_PER_DIRECTION)))
    if n < FEWEST or points.shape[1] == 0:
        return np.zeros(n, dtype=np.int64)
    posterior = mixture(points, min(_MOST, n // _POINTS_PER_GROUP), seed)
    return _by_size(_merged(posterior).argmax(axis=1))


def _through_neighbours(vectors: FloatArray) -> FloatArray:
    """Each vector as the mean of its nearest ones, itself among them. A second time, clouds would fall to pieces."""
    seen = unit_rows(vectors - SHARED * vectors.mean(axis=0))
    k = min(_NEIGHBOURS, max(len(vectors) // 3, 1))
    near = np.argpartition(-(seen @ seen.T), k - 1, axis=1)[:, :k]
    return unit_rows(seen[near].mean(axis=1))


def _merged(posterior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Join the two components that overlap most, until none overlap."""
    while posterior.shape[1] > 1:
        k = posterior.shape[1]
        assigned = np.eye(k)[posterior.argmax(axis=1)]  # (n, k)
        shares = (posterior.T @ assigned) / np.maximum(posterior.sum(axis=0)[:, None], 1e-12)
        overlap = np.maximum(shares, shares.T)
        np.fill_diagonal(overlap, 0.0)
        i, j = sorted(np.unravel_index(int(overlap.argmax()), overlap.shape))
        if overlap[i, j] <= _OVERLAP:
            break
        posterior[:, i] += posterior[:, j]
        posterior = np.delete(posterior, j, axis=1)
    return posterior


def _joins(vectors: FloatArray, labels: NDArray[np.int64]) -> list[tuple[NDArray[np.int64], float]]:
    """Join the two groups with the most alike means, again and again: the labels after each join, and that cosine."""
    found = []
    while labels.max(initial=0) > 0:
        groups = range(int(labels.max()) + 1)
        means = np.array([vectors[labels == g].mean(axis=0) for g in groups], dtype=np.float64)
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        cosines = means @ means.T
        np.fill_diagonal(cosines, -2.0)
        i, j = sorted(np.unravel_index(int(cosines.argmax()), cosines.shape))
        labels = _by_size(np.where(labels == j, i, labels))
        found.append((labels, float(cosines[i, j])))
    return found


def _joined(
    labels: NDArray[np.int64], joins: list[tuple[NDArray[np.int64], float]], apart: float, most: int = 8
) -> NDArray[np.int64]:
    """The labels after all joins of groups that are nearer than ``apart``, or are too many."""
    for joined, cosine in joins:
        if cosine <= apart and labels.max() < most:
            break
        labels = joined
    return labels


def _by_size(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbered by falling size; of equal ones, that which comes first in the text."""
    found, first, places, counts = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    rank = np.empty(len(found), dtype=np.int64)
    rank[np.lexsort((first, -counts))] = np.arange(len(found))
    return rank[places]
