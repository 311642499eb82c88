"""Pool token vectors into one vector per text, for whole groups of texts at once.

The vectors of all texts of a group are stacked, ``(N, D)``; ``starts`` says where each text begins. No text is empty:
the caller must leave those out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import OptionError
from polyseme.interfaces import FloatArray

Starts = NDArray[np.int64]
MOST_ATTENTION = 10.0  # nats of surprisal; a higher score does not increase the attention


def reduced(operation: np.ufunc, vectors: NDArray[Any], starts: Starts) -> NDArray[Any]:
    """Same as ``operation.reduceat``, computed on the first rows of all texts at once, then the second rows …

    NumPy's version goes through one dimension after another, and takes ten times as long.
    """
    lengths = np.diff(np.append(starts, len(vectors)))
    order = np.argsort(-lengths, kind="stable")
    shorter, begins = -lengths[order], starts[order]
    found = vectors[begins]
    for step in range(1, int(lengths.max())):
        n = int(np.searchsorted(shorter, -step))  # texts with more than ``step`` words
        operation(found[:n], vectors[begins[:n] + step], out=found[:n])
    result = np.empty_like(found)
    result[order] = found
    return result


def weighted_mean(
    vectors: FloatArray, starts: Starts, weights: FloatArray | None, divisor: str = "number"
) -> FloatArray:
    """Σ w·x over each text, divided by the ``number`` of its tokens or by the sum of their ``weights``."""
    from scipy.sparse import csr_array

    n, ends = len(vectors), np.append(starts[1:], len(vectors))
    given = np.ones(n, dtype=np.float32) if weights is None else weights
    rows = csr_array((given, np.arange(n), np.append(starts, n)), shape=(len(starts), n))
    total = (ends - starts).astype(np.float32) if divisor == "number" else np.add.reduceat(given, starts)
    total = np.where(total > 0, total, 1)
    return np.asarray((rows @ vectors) / total[:, None], dtype=np.float32)


def attended(vectors: FloatArray, starts: Starts, scores: FloatArray, residual: float) -> FloatArray:
    """Σ (r + a) x / Σ (r + a) over each text, a the softmax over its words of their scores, clipped to [0, 10]."""
    clipped = np.clip(scores, 0, MOST_ATTENTION)
    owner = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(vectors))))
    raised = np.exp(clipped - np.maximum.reduceat(clipped, starts)[owner])
    attention = raised / np.add.reduceat(raised, starts)[owner]
    return weighted_mean(vectors, starts, (residual + attention).astype(np.float32), divisor="weights")


def maximum(vectors: FloatArray, starts: Starts) -> FloatArray:
    """The maximum of each dimension."""
    return reduced(np.maximum, vectors, starts)


def first(vectors: FloatArray, starts: Starts) -> FloatArray:
    """The first token's vector."""
    return vectors[starts]


def last(vectors: FloatArray, starts: Starts) -> FloatArray:
    """The last token's vector."""
    return np.asarray(vectors[np.append(starts[1:], len(vectors)) - 1])


def end_max_mean(vectors: FloatArray, starts: Starts, end: str) -> FloatArray:
    """The ``first`` or ``last`` vector, the maximum and the mean, concatenated: ``(n, 3 D)``."""
    at_end = first(vectors, starts) if end == "first" else last(vectors, starts)
    return np.concatenate([at_end, maximum(vectors, starts), weighted_mean(vectors, starts, None)], axis=1)


def power_means(vectors: FloatArray, starts: Starts, powers: tuple[float, ...]) -> FloatArray:
    """The power means, concatenated, ``(n, D · powers)``."""
    return np.concatenate([_power_mean(vectors, starts, power) for power in powers], axis=1)


def _power_mean(vectors: FloatArray, starts: Starts, power: float) -> FloatArray:
    """The real part of (mean x^p)^(1/p), computed in complex numbers; the maximum or minimum for p = ±∞."""
    if np.isinf(power):
        return maximum(vectors, starts) if power > 0 else reduced(np.minimum, vectors, starts)
    if power == 1:
        return weighted_mean(vectors, starts, None)
    numbers = vectors.astype(np.complex128)
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = reduced(np.add, numbers**power, starts)
        means = (sums / np.diff(np.append(starts, len(vectors)))[:, None]) ** (1 / power)
    # With a negative power, a zero among the numbers makes the mean zero, the limit for small numbers.
    return np.nan_to_num(means.real, nan=0.0, posinf=0.0, neginf=0.0).astype(np.float32)


def read_powers(written: str) -> tuple[float, ...]:
    """Parse powers written as ``-inf,1,inf``."""
    try:
        powers = tuple(float(power) for power in written.split(","))
    except ValueError:
        raise OptionError(
            f"powers must be numbers separated by commas (-inf and inf allowed), not {written!r}"
        ) from None
    if not powers or any(power == 0 or np.isnan(power) for power in powers):
        raise OptionError(f"powers must be numbers other than 0, not {written!r}")
    return powers


def even_dimensions(vectors: FloatArray, starts: Starts) -> FloatArray:
    """Each dimension divided by its norm over the text's tokens, as the authors of uSIF do before weighting."""
    squares = reduced(np.add, vectors * vectors, starts)
    norms = np.sqrt(np.where(squares > 0, squares, 1))
    owner = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(vectors))))
    return np.asarray(vectors / norms[owner], dtype=np.float32)
