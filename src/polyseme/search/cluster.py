"""How many groups do these vectors form, and which? One is a possible answer.

1. A mixture of Gaussians is fitted in the few main directions of the vectors, its size chosen by BIC.
2. Real groups are no Gaussians, and BIC spends several on one of them; components that run into each other are joined
   again, by the directly estimated misclassification probability (Hennig, "Methods for merging Gaussian mixture
   components", 2010), τ being the posterior probabilities:

       q(i, j) = max( Σ τ_i·[assigned to j] / Σ τ_i ,  Σ τ_j·[assigned to i] / Σ τ_j )  >  0.05

3. What is left apart may still be one sense in two set phrases. Vectors are centred over all words, so the cosine of
   two means has a meaning of its own: groups with a cosine above ``apart`` are joined too. ``learn_apart`` finds that
   bound from the corpus itself: pairs of words taken for one (pseudo-words) should part, single words should not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyseme.linear import principal_components
from polyseme.nouns import FloatArray, Progress, silent
from polyseme.search.mixture import mixture

DIRECTIONS = 8
APART = 0.2  # where the corpus is too small to learn it from
FEWEST = 12  # points below which there is nothing to find
_MOST = 10  # components that are tried
_POINTS_PER_DIRECTION = 12  # few points are looked at in fewer directions
_POINTS_PER_GROUP = 6
_OVERLAP = 0.05


def cluster(vectors: FloatArray, *, max_clusters: int = 8, apart: float = APART, seed: int = 1) -> NDArray[np.int64]:
    """A label for each vector, ``(n, d) -> (n,)``; 0 is the largest group, and they are numbered without gaps."""
    labels = _components(vectors, seed) if max_clusters > 1 else np.zeros(len(vectors), dtype=np.int64)
    for joined, cosine in _joins(vectors, labels):
        if cosine <= apart and labels.max() < max_clusters:
            break
        labels = joined
    return labels


def nearest_parting(vectors: FloatArray, *, seed: int = 1) -> float:
    """The lowest ``apart`` with which the vectors form more than one group; 1 where no bound parts them."""
    return min((cosine for _, cosine in _joins(vectors, _components(vectors, seed))), default=1.0)


def silhouettes(vectors: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
    """How clearly each vector belongs to its group, ``(n,)`` within [−1, 1]; 0 where there is one group.

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
    """The bound that tells single words from pairs of them taken for one; ``words`` holds the vectors of each."""
    if len(words) < 10:
        return APART
    mixed = [np.concatenate([a, b[: max(len(b) // 2, 1)]]) for a, b in zip(words[::2], words[1::2], strict=False)]
    partings = []
    for vectors in (*words, *mixed):
        partings.append(nearest_parting(vectors, seed=seed))
        progress("how far senses lie apart", len(partings), len(words) + len(mixed))
    single, double = partings[: len(words)], partings[len(words) :]
    # Senses of a word lie nearer to each other than two words do: the bound is high enough to part nine of ten pairs,
    # with a margin, and never so high that most single words would part.
    whole = float(np.median(single))
    return float(np.clip((min(float(np.quantile(double, 0.9)), whole) + whole) / 2, 0.0, 0.6))


def _components(vectors: FloatArray, seed: int) -> NDArray[np.int64]:
    n = len(vectors)
    points = principal_components(vectors, min(DIRECTIONS, max(2, n // _POINTS_PER_DIRECTION)))
    if n < FEWEST or points.shape[1] == 0:
        return np.zeros(n, dtype=np.int64)
    posterior = mixture(points, min(_MOST, n // _POINTS_PER_GROUP), seed)
    return _by_size(_merged(posterior).argmax(axis=1))


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


def _by_size(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbered by falling size; of equal ones, that which comes first in the text."""
    found, first, places, counts = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    rank = np.empty(len(found), dtype=np.int64)
    rank[np.lexsort((first, -counts))] = np.arange(len(found))
    return rank[places]
