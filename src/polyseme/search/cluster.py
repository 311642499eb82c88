"""How many groups do these vectors form, and which? One is a possible answer.

A mixture of Gaussians is fitted in the few main directions of the vectors, its size chosen by BIC. Real clusters are no
Gaussians, and BIC spends several on one of them; so components that run into each other are joined again, by the
directly estimated misclassification probability (Hennig, "Methods for merging Gaussian mixture components", 2010):

    q(i, j) = max( Σ τ_i·[assigned to j] / Σ τ_i ,  Σ τ_j·[assigned to i] / Σ τ_j )

τ being the posterior probabilities. Groups remain apart when hardly any point could belong to either.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from polyseme.types import FloatArray

DIRECTIONS = 8
_POINTS_PER_DIRECTION = 12  # few points are looked at in fewer directions
FEWEST = 12  # points below which there is nothing to find
_POINTS_PER_GROUP = 6
_OVERLAP = 0.05


def cluster(vectors: FloatArray, *, max_clusters: int = 8, seed: int = 1) -> NDArray[np.int64]:
    """A label for each vector, ``(n, d) -> (n,)``; 0 is the largest group, and they are numbered without gaps."""
    n = len(vectors)
    if n < FEWEST or max_clusters < 2:
        return np.zeros(n, dtype=np.int64)
    points = principal(vectors, min(DIRECTIONS, max(2, n // _POINTS_PER_DIRECTION)))
    if points.shape[1] == 0:
        return np.zeros(n, dtype=np.int64)
    posterior = _mixture(points, min(max_clusters, n // _POINTS_PER_GROUP), seed)
    return _by_size(_merged(posterior).argmax(axis=1))


def principal(vectors: FloatArray, n: int) -> NDArray[np.float64]:
    """Coordinates in the ``n`` main directions, as far as the vectors differ at all."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    values, directions = np.linalg.eigh(centred.T @ centred / max(len(vectors), 1))
    leading = np.argsort(values)[::-1][:n]
    leading = leading[values[leading] > 1e-9 * max(float(values.max(initial=0.0)), 1e-9)]
    chosen = directions[:, leading]
    largest = np.take_along_axis(chosen, np.abs(chosen).argmax(axis=0)[None], axis=0) if chosen.size else chosen[:1]
    return np.asarray(centred @ (chosen * np.where(largest < 0, -1.0, 1.0)))


def plane(vectors: FloatArray) -> FloatArray:
    """A map of the vectors: their two main directions, ``(n, d) -> (n, 2)``."""
    found = principal(vectors, 2)
    return np.pad(found, ((0, 0), (0, 2 - found.shape[1]))).astype(np.float32)


def _mixture(points: NDArray[np.float64], most: int, seed: int) -> NDArray[np.float64]:
    """Posterior probabilities of the components of the mixture with the lowest BIC, ``(n, k)``."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    best, posterior = np.inf, np.ones((len(points), 1))
    scale = float(points.var(axis=0).mean())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for k in range(1, most + 1):
            mixture = GaussianMixture(k, covariance_type="diag", reg_covar=1e-3 * scale, random_state=seed, max_iter=60)
            mixture.fit(points)
            bic = float(mixture.bic(points))
            if bic < best:
                best, posterior = bic, mixture.predict_proba(points)
    return np.asarray(posterior)


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


def _by_size(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    found, places, counts = np.unique(labels, return_inverse=True, return_counts=True)
    rank = np.empty(len(found), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(found))
    return rank[places]
