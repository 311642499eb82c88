"""Transfer 迁移, as SentEval measures it: what can a logistic regression tell from an encoder's vectors?

    a text   x = enc(s)                        a pair   x = [|u - v|; u ∗ v],  u = enc(a), v = enc(b)
    classes  argmax softmax(x W + b)           scores   Σ k p_k, p over the whole numbers of the scale (Tai et al.)

Conneau and Kiela, SentEval: An Evaluation Toolkit for Universal Sentence Representations, 2018. The encoder stays as it
is. One file is tested by folds: each row is predicted by a regression that has not seen it, whose penalty was chosen on
another fold. With a file to test on, the penalty is chosen on ``dev``, or on a tenth of the training rows.
What differs: L-BFGS to the end instead of Adam with early stopping, and vectors are scaled (logistic.py), so that no
choice of batch, rate or patience shows in the figures.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.data.examples import Examples
from polyseme.data.rows import LabelledText, Pair
from polyseme.data.statistics import fold_of_rows
from polyseme.data.training_data import recognise_data
from polyseme.errors import OptionError
from polyseme.evaluate import logistic
from polyseme.evaluate.report import EvaluationSettings, Report
from polyseme.interfaces import SentenceEncoder
from polyseme.sentences.bag_of_words import SparseEncoder
from polyseme.tasks.metrics import Figures, classification, scores
from polyseme.tasks.scale import MOST_STEPS, spread, steps_of

INNER = 10  # one part in so many tells which penalty is best, where no file does
COARSE_STEPS = 10  # of a scale that is too long to give every whole number a class


def holds_examples(path: Path) -> bool:
    """Whether a file is certainly a table of labelled texts or pairs."""
    told = recognise_data(path)
    return told is not None and told.kind in ("texts", "pairs")


def holds_classes(path: Path) -> bool:
    """The same, its labels no numbers."""
    return holds_examples(path) and not Examples.read(path).scored


def evaluate(model: Any, path: Path, settings: EvaluationSettings) -> Report:
    """How well a regression on the model's vectors does on a file of labelled texts or pairs."""
    examples = read_examples(path, settings)
    row = measure(settings.as_texts(model), examples, settings)
    return Report("transfer", [{"section": "total", **row}])


def read_examples(path: str | Path, settings: EvaluationSettings) -> Examples:
    """The labelled texts or pairs of a file."""
    how: dict[str, Any] = {"columns": settings.columns, "label_parts": settings.label_parts}
    examples = Examples.read(path, **{name: value for name, value in how.items() if value is not None})
    if examples.kind not in ("texts", "pairs"):
        raise OptionError(f"{path} holds {examples.kind}: transfer takes labelled texts or pairs")
    return examples


def measure(encoder: SentenceEncoder, examples: Examples, settings: EvaluationSettings) -> dict[str, Any]:
    """The figures of an encoder on examples that are read already, with what they are figures of."""
    goal = goal_of(examples)
    named = {name: read_examples(path, settings) for name in ("dev", "test") if (path := getattr(settings, name))}
    for name, other in named.items():
        if (other.kind, other.scored) != (examples.kind, examples.scored):
            raise OptionError(f"the {name} file {other.path} holds another kind of labels than {examples.path}")
    pairs = examples.kind == "pairs"
    rows = features(encoder, examples)
    scaling = logistic.Scaling.of(rows, blocks=2 if pairs else 1)
    targets = goal.targets(examples)
    tested = named.get("test") or named.get("dev")
    if tested is None:
        found, facts = _by_folds(scaling(rows), targets, goal, examples, settings.folds)
        known = rows
    else:
        chosen_on = named["dev"] if len(named) == 2 else None
        known = features(encoder, tested)
        fitted, facts = _by_files(scaling(rows), targets, goal, examples, _scaled(encoder, chosen_on, scaling))
        figures = goal.figures(fitted.chances(scaling(known)), tested)
        found = {**figures, **goal.chance(tested)}
    answered = int(np.count_nonzero(np.asarray(abs(known).sum(axis=1)).ravel()))
    return {**found, **facts, "used": answered, "total": known.shape[0]}


# ---- rows


def texts_of(row: Any) -> tuple[str, ...]:
    """The one text or the two of an example."""
    if isinstance(row, LabelledText):
        return (row.text,)
    assert isinstance(row, Pair)
    return (row.first, row.second)


def features(encoder: SentenceEncoder, examples: Examples) -> logistic.Rows:
    """What the regression reads, ``(n, D)`` or for pairs ``(n, 2D)``; each distinct text is encoded once."""
    sides = list(zip(*map(texts_of, examples), strict=True))
    place = {text: number for number, text in enumerate(dict.fromkeys(text for side in sides for text in side))}
    encode = encoder.encode_sparse if isinstance(encoder, SparseEncoder) else encoder.encode
    vectors: logistic.Rows = encode(list(place))
    found = [vectors[[place[text] for text in side]] for side in sides]
    if len(found) == 1:
        return found[0]
    first, second = found
    if isinstance(vectors, np.ndarray):
        return np.concatenate([np.abs(first - second), first * second], axis=1)
    from scipy.sparse import hstack

    return hstack([abs(first - second), first.multiply(second)], format="csr")


# ---- what is to be told


class ClassTargets:
    """One of several labels."""

    def __init__(self, labels: list[str]) -> None:
        self.labels = labels

    def targets(self, examples: Examples) -> NDArray[np.float32]:
        """Each row's class, ``(n, K)``."""
        return np.eye(len(self.labels), dtype=np.float32)[np.asarray(examples.targets, dtype=np.int64)]

    def figures(self, chances: NDArray[Any], examples: Examples) -> Figures:
        """Accuracy first; of two classes also F1 of the later one."""
        predicted = [self.labels[place] for place in chances.argmax(axis=1)]
        found = classification(self.gold(examples), predicted, self.labels)
        return {name: found[name] for name in ("accuracy", "f1", "macro_f1") if name in found}

    def gold(self, examples: Examples) -> list[str]:
        """The label of each row by name."""
        return [examples.labels[int(target)] for target in examples.targets]

    def chance(self, examples: Examples) -> Figures:
        """What always naming the most frequent class would give."""
        counts = np.bincount(np.asarray(examples.targets, dtype=np.int64))
        return {"commonest": float(counts.max() / counts.sum())}


class ScoreTargets:
    """A number on a scale."""

    def __init__(self, low: float, high: float) -> None:
        self.unit = 1.0 if len(steps_of(low, high)) <= MOST_STEPS else (high - low) / COARSE_STEPS
        self.steps = steps_of(low / self.unit, high / self.unit)

    def targets(self, examples: Examples) -> NDArray[np.float32]:
        """Each row's score as a distribution over the steps, ``(n, K)``."""
        return spread(np.asarray(examples.targets, dtype=np.float64) / self.unit, self.steps)

    def figures(self, chances: NDArray[Any], examples: Examples) -> Figures:
        """Pearson first."""
        gold = np.asarray(examples.targets, dtype=np.float64)
        return scores(gold.tolist(), (chances @ self.steps * self.unit).tolist())

    def chance(self, examples: Examples) -> Figures:
        """A constant correlates with nothing."""
        return {}


Goal = ClassTargets | ScoreTargets


def goal_of(examples: Examples) -> Goal:
    """What the examples ask for."""
    if not examples.scored:
        if len(np.unique(examples.targets)) < 2:
            raise OptionError(f"{examples.path} has only one label: there is nothing to learn")
        return ClassTargets(examples.labels)
    low, high = float(np.min(examples.targets)), float(np.max(examples.targets))
    if low == high:
        raise OptionError(f"all scores of {examples.path} are {low:g}: there is nothing to learn")
    return ScoreTargets(low, high)


# ---- how it is tested

Judge = Callable[[logistic.Logistic], float]


def _judge(goal: Goal, rows: logistic.Rows, examples: Examples) -> Judge:
    return lambda fitted: next(iter(goal.figures(fitted.chances(rows), examples).values()))


def _by_folds(
    rows: logistic.Rows, targets: NDArray[Any], goal: Goal, examples: Examples, n: int
) -> tuple[Figures, dict[str, Any]]:
    """Each row predicted by the regression of the folds it is not in; the next fold chose its penalty."""
    fold = _folds(examples, goal, n)
    n = int(fold.max()) + 1
    chances = np.zeros(targets.shape, dtype=np.float32)
    each = []
    for number in range(n):
        test = fold == number
        inner = ~test & (fold == (number + 1) % n) if n > 2 else ~test & (np.cumsum(~test) % 2 == 0)
        train = ~test & ~inner
        held = examples.subset(np.flatnonzero(inner))
        penalty, start = logistic.best(rows[train], targets[train], _judge(goal, rows[inner], held))
        fitted = logistic.fit(rows[~test], targets[~test], penalty, start)
        chances[test] = fitted.chances(rows[test])
        each.append(next(iter(goal.figures(chances[test], examples.subset(np.flatnonzero(test))).values())))
    found = {**goal.figures(chances, examples), **goal.chance(examples)}
    return found, {"deviation": float(np.std(each)), "folds": n}


def _by_files(
    rows: logistic.Rows,
    targets: NDArray[Any],
    goal: Goal,
    examples: Examples,
    dev: tuple[logistic.Rows, Examples] | None,
) -> tuple[logistic.Logistic, dict[str, Any]]:
    """The regression of all rows, its penalty chosen on ``dev`` or on a tenth of them."""
    if dev is not None:
        penalty, fitted = logistic.best(rows, targets, _judge(goal, *dev))
    else:
        inner = _folds(examples, goal, INNER) == 0
        judge = _judge(goal, rows[inner], examples.subset(np.flatnonzero(inner)))
        penalty, start = logistic.best(rows[~inner], targets[~inner], judge)
        fitted = logistic.fit(rows, targets, penalty, start)
    return fitted, {"penalty": penalty, "trained_on": rows.shape[0]}


def _folds(examples: Examples, goal: Goal, n: int) -> NDArray[np.int64]:
    if len(examples) < 2 * n:
        n = max(len(examples) // 2, 2)
    classes = np.asarray(
        examples.targets if isinstance(goal, ClassTargets) else np.zeros(len(examples)), dtype=np.int64
    )
    return fold_of_rows(classes, np.arange(len(examples)), n, seed=1)


def _scaled(
    encoder: SentenceEncoder, examples: Examples | None, scaling: logistic.Scaling
) -> tuple[logistic.Rows, Examples] | None:
    return None if examples is None else (scaling(features(encoder, examples)), examples)
