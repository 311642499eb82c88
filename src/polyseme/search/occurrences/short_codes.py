"""From an encoder's states to the short codes that an index keeps.

x ↦ z = (x − mean) / deviation ↦ y = zP / ‖zP‖ ↦ round(y / step). P holds the principal components (PCA) of a sample of
z; an inner product of two y is their cosine. With 8-bit codes ``step`` is one number per dimension: a query multiplied
by it once can be compared with the codes as they are on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from polyseme.arrays import main_directions
from polyseme.errors import FormatError
from polyseme.interfaces import FloatArray, unit_rows

CODES: dict[str, np.dtype[Any]] = {"int8": np.dtype(np.int8), "float16": np.dtype(np.float16)}
_TAIL = 1e-4  # the share of a sample's values that 8-bit codes may clip


@dataclass(frozen=True)
class Projection:
    """A fitted map from states to codes."""

    mean: FloatArray  # (D,)
    deviation: FloatArray  # (D,)
    directions: FloatArray  # (D, d)
    step: FloatArray  # (d,)
    precision: str

    @classmethod
    def fit(cls, sample: FloatArray, *, dim: int, precision: str) -> Projection:
        """Learn from a sample of states, ``(n, D)``: with one thread, so that their number does not change a bit."""
        with threadpool_limits(1):
            return cls._fit(sample, dim, precision)

    @classmethod
    def _fit(cls, sample: FloatArray, dim: int, precision: str) -> Projection:
        mean = sample.mean(axis=0, dtype=np.float64)
        deviation = sample.std(axis=0, dtype=np.float64)
        deviation = np.where(deviation > 1e-6 * max(deviation.max(initial=0.0), 1e-30), deviation, 1.0)
        z = sample - mean.astype(np.float32)
        z /= deviation.astype(np.float32)
        directions = main_directions(z, dim)[0].astype(np.float32)
        y = unit_rows(np.asarray(z @ directions, dtype=np.float32))
        step = np.ones(y.shape[1])
        if precision == "int8":
            top = np.quantile(np.abs(y), 1 - _TAIL, axis=0)
            step = np.where(top > 0, top, 1.0) / 127
        f32 = np.float32
        return cls(mean.astype(f32), deviation.astype(f32), directions, step.astype(f32), precision)

    @property
    def dim(self) -> int:
        """Numbers in one code."""
        return int(self.directions.shape[1])

    def vectors(self, states: FloatArray) -> FloatArray:
        """``(n, D) -> (n, d)``, rows of length one."""
        z = (states.astype(np.float32, copy=False) - self.mean) / self.deviation
        return unit_rows(np.asarray(z @ self.directions, dtype=np.float32))

    def codes(self, states: FloatArray) -> NDArray[Any]:
        """``(n, D) -> (n, d)`` as they are kept."""
        scaled = self.vectors(states) / self.step
        if self.precision == "int8":
            scaled = np.clip(np.rint(scaled), -127, 127)
        return scaled.astype(CODES[self.precision])

    def decode(self, codes: NDArray[Any]) -> FloatArray:
        """Vectors of codes, near to what ``vectors`` gave, of length one."""
        return decode(codes, self.step)

    def tensors(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays to keep, by name."""
        return {
            f"{prefix}.mean": self.mean,
            f"{prefix}.deviation": self.deviation,
            f"{prefix}.directions": self.directions,
            f"{prefix}.step": self.step,
        }

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, NDArray[Any]], prefix: str, precision: str, where: str) -> Projection:
        """What ``tensors`` gave."""
        found = [arrays.get(f"{prefix}.{name}") for name in ("mean", "deviation", "directions", "step")]
        mean, deviation, directions, step = found
        if mean is None or deviation is None or directions is None or step is None or precision not in CODES:
            raise FormatError(f"{where} was altered: the projection of {prefix} is not in it")
        fits = directions.ndim == 2 and mean.shape == deviation.shape == directions.shape[:1]
        if not fits or step.shape != directions.shape[1:] or any(a.dtype != np.float32 for a in found if a is not None):
            raise FormatError(f"{where} was altered: the projection of {prefix} has the wrong shape")
        return cls(mean, deviation, directions, step, precision)


def decode(codes: NDArray[Any], step: FloatArray) -> FloatArray:
    """Vectors of length one, ``(n, d)``: codes times their ``step`` ``(d,)``."""
    return unit_rows(codes.astype(np.float32) * step)
