"""Odd labels of examples are told: those with one example, and those that were not there to be learned."""

from __future__ import annotations

import logging

import numpy as np

from polyseme.data.examples import Examples
from polyseme.learn.goals import targets_of

log = logging.getLogger(__name__)


def tell_odd_labels(train: Examples, dev: Examples | None) -> None:
    """Say which labels have one example only, and which only the held-out examples have."""
    counts = np.bincount(np.asarray(train.targets, dtype=np.int64), minlength=len(train.labels))
    for number in np.flatnonzero(counts == 1).tolist():
        row = int(np.flatnonzero(train.targets == number)[0]) + 1
        log.warning("%s: the label %r has one example (row %d)", train.path, train.labels[number], row)
    if dev is not None:
        tell_unknown_labels(train.labels, dev)


def tell_unknown_labels(known: list[str], examples: Examples) -> None:
    """Say which labels of examples were not there to be learned."""
    unknown = np.flatnonzero(targets_of(examples, known) < 0).tolist()
    for name in dict.fromkeys(examples.labels[int(examples.targets[row])] for row in unknown):
        rows = [row + 1 for row in unknown if examples.labels[int(examples.targets[row])] == name]
        log.warning(
            "%s: the label %r is not in the training examples (%d rows, first row %d): it counts as a miss",
            examples.path, name, len(rows), rows[0],
        )  # fmt: skip
