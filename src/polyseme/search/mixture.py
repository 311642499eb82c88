"""A mixture of Gaussians with diagonal covariances, its size chosen by BIC. 高斯混合

EM from the groups of k-means, these from k-means++ (Arthur and Vassilvitskii, 2007). scikit-learn has the same; a
question would wait longer for its import than for the answer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
