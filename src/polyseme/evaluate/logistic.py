"""Logistic regression 逻辑回归 with an L2 penalty, on classes or on distributions over them.

    minimise  -1/n Σ_i Σ_k t_ik log p_ik + λ/2 |W|²,   p_i = softmax(x_i W + b)

The rows are centred and scaled once, each block of columns by one number, so that rows have the mean square 1: λ means
the same to vectors of any length and scale. Dense rows of moderate width are also turned to their main axes, which
changes nothing but how soon L-BFGS is done: there each direction is given the step that suits it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PENALTIES = tuple(10.0**-power for power in range(1, 8))  # from the strongest: each start is the end before it
PATIENCE = 2  # weaker penalties in a row that were no better, after which none weaker is tried
TURNED = 1200  # columns up to which main axes cost less than they save
STEPS = 300

Rows = Any  # (n, D): a float32 array, or a sparse one
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scaling:
    """What training rows say of the columns: centre, scale and main axes."""

    centre: NDArray[np.float32]  # (D,); zeros for sparse rows, which stay sparse
    scale: NDArray[np.float32]  # (D,)
    axes: NDArray[np.float32] | None  # (D, D)

    @classmethod
    def of(cls, rows: Rows, blocks: int = 1) -> Scaling:
        """``blocks`` of columns of equal width are scaled each by itself."""
        dense = isinstance(rows, np.ndarray)
        centre = rows.mean(axis=0) if dense else np.zeros(rows.shape[1])
        squares = rows.var(axis=0) if dense else np.asarray(rows.multiply(rows).mean(axis=0)).ravel()
        lengths = squares.reshape(blocks, -1).sum(axis=1)
        scale = np.repeat(1 / np.sqrt(np.where(lengths > 0, lengths, 1) * blocks), rows.shape[1] // blocks)
        made = cls(centre.astype(np.float32), scale.astype(np.float32), None)
        if not dense or rows.shape[1] > TURNED:
            return made
        scaled = made(rows)
        axes = np.linalg.eigh((scaled.T @ scaled).astype(np.float64))[1]
        return cls(made.centre, made.scale, axes.astype(np.float32))

    def __call__(self, rows: Rows) -> Rows:
        if not isinstance(rows, np.ndarray):
            return rows.multiply(self.scale[None]).tocsr()
        scaled = (rows - self.centre) * self.scale
        return scaled if self.axes is None else scaled @ self.axes


@dataclass(frozen=True)
class Logistic:
    """A fitted regression."""

    weights: NDArray[np.float32]  # (D, K)
    bias: NDArray[np.float32]  # (K,)

    def chances(self, rows: Rows) -> NDArray[np.float32]:
        """The chance of each class, ``(n, K)``."""
        return np.exp(_log_softmax(np.asarray(rows @ self.weights) + self.bias))


def fit(rows: Rows, targets: NDArray[Any], penalty: float, start: Logistic | None = None) -> Logistic:
    """The regression of ``targets`` ``(n, K)``, distributions, on the rows; ``start`` is a guess near it."""
    from scipy.optimize import minimize

    n, width = rows.shape
    n_classes = targets.shape[1]
    targets = targets.astype(np.float32)
    squares = (rows * rows).mean(axis=0) if isinstance(rows, np.ndarray) else rows.multiply(rows).mean(axis=0)
    # The curvature is about p(1 - p) x² + λ: in these units it is about the same along every column.
    unit = 1 / np.sqrt(np.asarray(squares, dtype=np.float64).ravel() / (2 * n_classes) + penalty)
    unit = np.append(unit, np.sqrt(2 * n_classes))[:, None]  # the bias at the end

    def loss(values: Floats) -> tuple[float, Floats]:
        inside = values.reshape(width + 1, n_classes) * unit
        weights, bias = inside[:-1].astype(np.float32), inside[-1].astype(np.float32)
        logs = _log_softmax(np.asarray(rows @ weights) + bias)
        error = (np.exp(logs) - targets) / np.float32(n)
        slope = np.empty_like(inside)
        slope[:-1] = np.asarray(rows.T @ error) + penalty * inside[:-1]
        slope[-1] = error.sum(axis=0)
        value = -float((targets * logs).sum(dtype=np.float64)) / n + penalty / 2 * float((inside[:-1] ** 2).sum())
        return value, (slope * unit).ravel()

    begin = np.zeros((width + 1, n_classes))
    if start is not None:
        begin[:-1], begin[-1] = start.weights, start.bias
        begin /= unit
    found = minimize(loss, begin.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": STEPS, "gtol": 1e-5})
    values = (found.x.reshape(width + 1, n_classes) * unit).astype(np.float32)
    return Logistic(values[:-1], values[-1])


def path(rows: Rows, targets: NDArray[Any], penalties: Sequence[float] = PENALTIES) -> Iterator[tuple[float, Logistic]]:
    """A regression for each penalty, from the strongest to the weakest."""
    found: Logistic | None = None
    for penalty in penalties:
        found = fit(rows, targets, penalty, found)
        yield penalty, found


def best(
    rows: Rows, targets: NDArray[Any], judge: Callable[[Logistic], float], penalties: Sequence[float] = PENALTIES
) -> tuple[float, Logistic]:
    """The penalty whose regression ``judge`` likes most, and that regression; of equals the strongest penalty."""
    chosen: tuple[float, float, Logistic] | None = None
    worse = 0
    for penalty, found in path(rows, targets, penalties):
        value = judge(found)
        if chosen is None or value > chosen[0]:
            chosen, worse = (value, penalty, found), 0
        else:
            worse += 1
        if worse == PATIENCE:
            break
    assert chosen is not None
    return chosen[1], chosen[2]


def _log_softmax(values: NDArray[Any]) -> NDArray[np.float32]:
    values = values - values.max(axis=1, keepdims=True)
    return np.asarray(values - np.log(np.exp(values).sum(axis=1, keepdims=True)), dtype=np.float32)
