"""Labels of examples: odd ones are told, and held-out ones score the weights."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from polyseme.arrays import FloatArray
from polyseme.data.examples import Examples
from polyseme.learn.metrics import PRIMARY, check_metric, classification
from polyseme.sentences.learned import held_out_score, targets_of
from polyseme.tasks.options import TaskOptions, held_out_share
from polyseme.training.task import Score

log = logging.getLogger(__name__)


def with_dev(train: Examples, dev: Examples | None, options: TaskOptions, own: Any) -> tuple[Examples, Examples | None]:
    """The training examples and those that choose among weights: the given ones, or a part of the training examples."""
    share = 0.0 if dev is not None else held_out_share(options, own, len(train))
    return train.split(share, own.seed) if share else (train, dev)


def class_scorer(options: TaskOptions, labels: list[str], dev: Examples | None) -> Callable[[FloatArray], Score] | None:
    """What makes a Score of the logits of held-out texts."""
    if dev is None:
        return None
    gold, targets = [dev.labels[int(target)] for target in dev.targets], targets_of(dev, labels)
    metric = options.metric or PRIMARY["texts"]
    check_metric(metric, classification(gold, gold, labels))

    def score(logits: FloatArray) -> Score:
        figures = classification(gold, [labels[place] for place in logits.argmax(axis=1)], labels)
        facts = {metric: figures[metric], "accuracy": figures["accuracy"]}
        return held_out_score(figures[metric], facts, logits, targets)

    return score


def tell_odd_labels(train: Examples, dev: Examples | None) -> None:
    """Say which labels have one example only, and which only the held-out examples have."""
    counts = np.bincount(np.asarray(train.targets, dtype=np.int64), minlength=len(train.labels))
    for number in np.flatnonzero(counts == 1).tolist():
        place = int(np.flatnonzero(train.targets == number)[0]) + 1
        log.warning("%s: the label %r has one example (row %d)", train.path, train.labels[number], place)
    if dev is not None:
        tell_unknown_labels(train.labels, dev)


def tell_unknown_labels(known: list[str], examples: Examples) -> None:
    """Say which labels of examples were not there to be learned."""
    unknown = np.flatnonzero(targets_of(examples, known) < 0).tolist()
    for name in dict.fromkeys(examples.labels[int(examples.targets[place])] for place in unknown):
        places = [place + 1 for place in unknown if examples.labels[int(examples.targets[place])] == name]
        log.warning(
            "%s: the label %r is not in the training examples (%d rows, first row %d): it counts as a miss",
            examples.path, name, len(places), places[0],
        )  # fmt: skip
