"""The labels of texts and pairs: classes or scores. 标签

Scores as distributions over the integers of their scale (Tai et al., 2015):

p(⌊r⌋) = ⌊r⌋ + 1 - r,   p(⌊r⌋ + 1) = r - ⌊r⌋
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray
from polyseme.data.rows import LabelledRows
from polyseme.data.tables import TOLD, BadRows

MOST_STEPS = 100  # whole numbers of a scale; a longer one is learned as one number
NO_GOLD = "-"  # where annotators did not agree: SNLI, OCNLI


class Labels:
    """Collects labels as they are written; ``finish`` decides whether they are classes or scores and numbers them.

    They are scores if they are numbers with fractions, if pairs have more than three different integers, or if the
    column's name says so; otherwise classes. ``-`` means that there is no label, unless ``+`` is a label too.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}  # in order of first appearance
        self._of_row = array("i")
        self._places: dict[int, list[str]] = {}  # the first rows with each label
        self.scored = False
        self.missing = 0

    def add(self, label: str, where: str) -> None:
        """Add the label of the next row ("" if it has none); ``where`` names the row in error messages."""
        number = self._numbers.setdefault(label, len(self._numbers))
        self._of_row.append(number)
        met = self._places.setdefault(number, [])
        if len(met) < TOLD:
            met.append(where)

    def finish(self, rows: LabelledRows, bad: BadRows, *, scored: bool | None, called_score: bool) -> NDArray[np.bool_]:
        """Set the labels of the rows; returns a mask of the rows whose label can be used."""
        names = list(self._numbers)
        of_row = np.array(self._of_row, dtype=np.int64)
        if names in ([], [""]):
            rows.finish([], of_row)
            return np.ones(len(of_row), dtype=bool)
        counts = dict(zip(names, np.bincount(of_row).tolist(), strict=True))
        if NO_GOLD in counts and "+" not in counts:
            self.missing = counts.pop(NO_GOLD)
        self.scored = scored if scored is not None else are_scores(counts, rows.kind, called_score=called_score)
        if self.scored:
            values = [number(name) for name in names]
            good = [value is not None and math.isfinite(value) for value in values]
            for name in (name for name, is_good in zip(names, good, strict=True) if name in counts and not is_good):
                self._tell(bad, name, counts[name])
            rows.finish([math.nan if value is None else value for value in values], of_row)
        else:
            good = [name in counts for name in names]
            rows.finish([name if name in counts else next(iter(counts), "") for name in names], of_row)
        keep: NDArray[np.bool_] = np.array(good)[of_row]
        return keep

    def _tell(self, bad: BadRows, name: str, count: int) -> None:
        places = self._places[self._numbers[name]]
        for place in places:
            bad.add(f"{place} has the score {name[:20]!r}, which is not a finite number")
        bad.number += count - len(places)


def are_scores(counts: Mapping[str, int], kind: str, *, called_score: bool) -> bool:
    """Whether labels with these names and counts are scores rather than classes."""
    numbers = {name: value for name in counts if (value := number(name)) is not None}
    values = {value for value in numbers.values() if math.isfinite(value)}
    if sum(counts[name] for name in numbers) < 0.9 * sum(counts.values()) or values <= {0.0, 1.0}:
        return False
    whole = all(value.is_integer() for value in values)
    return called_score or not whole or (kind == "pairs" and len(values) > 3)


def cut_label(label: str, parts: int | None) -> str:
    """The first parts of a label such as DESC:manner; the whole label without a number of them."""
    return ":".join(label.split(":")[:parts]) if parts else label


def number(text: str) -> float | None:
    """The text as a number; None if it is not one."""
    try:
        return float(text)
    except ValueError:
        return None


# ---- scores


def scale_steps(low: float, high: float) -> FloatArray:
    """The whole numbers from below ``low`` to above ``high``."""
    return np.arange(math.floor(low), math.ceil(high) + 1, dtype=np.float32)


def spread(targets: NDArray[Any], steps: FloatArray) -> FloatArray:
    """Scores as distributions over two or more steps, ``(n,) -> (n, steps)``; those outside count as its ends."""
    inside = np.clip(targets, steps[0], steps[-1]) - steps[0]
    below = np.minimum(np.floor(inside).astype(np.int64), len(steps) - 2)
    share = (inside - below).astype(np.float32)
    shares = np.zeros((len(targets), len(steps)), dtype=np.float32)
    rows = np.arange(len(targets))
    shares[rows, below], shares[rows, below + 1] = 1 - share, share
    return shares
