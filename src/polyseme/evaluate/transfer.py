"""Transfer 迁移, as SentEval measures it: what can a logistic regression tell from an encoder's vectors?

    a text   x = enc(s)                        a pair   x = [|u - v|; u ∗ v],  u = enc(a), v = enc(b)
    classes  argmax softmax(x W + b)           scores   Σ k p_k, p over the whole numbers of the scale (Tai et al.)

Conneau and Kiela, SentEval: An Evaluation Toolkit for Universal Sentence Representations, 2018. The encoder stays as it
is. One file is tested by folds: each row is predicted by a regression that has not seen it, whose penalty was chosen on
another fold. With a file to test on, the penalty is chosen on ``dev``, or on a tenth of the training rows.
What differs: L-BFGS to the end instead of Adam with early stopping, and vectors are scaled, so that no
choice of batch, rate or patience shows in the figures.

The regression has an L2 penalty, on classes or on distributions over them:

    minimise  -1/n Σ_i Σ_k t_ik log p_ik + λ/2 |W|²,   p_i = softmax(x_i W + b)

The rows are centred and scaled once, each block of columns by one number, so that rows have the mean square 1: λ means
the same to vectors of any length and scale. Dense rows of moderate width are also turned to their main axes, which
changes nothing but how soon L-BFGS is done: there each direction is given the step that suits it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.data.examples import Examples
from polyseme.data.labels import MOST_STEPS, scale_steps, spread
from polyseme.data.rows import LabelledText, Pair
from polyseme.data.statistics import fold_of_rows
from polyseme.data.training_data import recognise_data
from polyseme.errors import OptionError
from polyseme.evaluate.report import EvaluationSettings, Report
from polyseme.interfaces import SentenceEncoder
from polyseme.learn.metrics import Figures, classification, scores
from polyseme.sentences.bag_of_words import SparseEncoder

INNER = 10  # one part in so many tells which penalty is best, where no file does
COARSE_STEPS = 10  # of a scale that is too long to give every whole number a class
PENALTIES = tuple(10.0**-power for power in range(1, 8))  # from the strongest: each start is the end before it
PATIENCE = 2  # weaker penalties in a row that were no better, after which none weaker is tried
TURNED = 1200  # columns up to which main axes cost less than they save
STEPS = 300

Rows = Any  # (n, D): a float32 array, or a sparse one
Floats = NDArray[np.float64]


def holds_examples(path: Path) -> bool:
    """Whether a file is certainly a table of labelled texts or pairs."""
    recognised = recognise_data(path)
    return recognised is not None and recognised.kind in ("texts", "pairs")


def holds_classes(path: Path) -> bool:
    """The same, its labels no numbers."""
    return holds_examples(path) and not Examples.read(path).scored


def evaluate_transfer(model: Any, path: Path, settings: EvaluationSettings) -> Report:
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
    scaling = Scaling.of(rows, blocks=2 if pairs else 1)
    targets = goal.targets(examples)
    tested = named.get("test") or named.get("dev")
    if tested is None:
        result, facts = _by_folds(scaling(rows), targets, goal, examples, settings.folds)
        known = rows
    else:
        chosen_on = named["dev"] if len(named) == 2 else None
        known = features(encoder, tested)
        fitted, facts = _by_files(scaling(rows), targets, goal, examples, _scaled(encoder, chosen_on, scaling))
        figures = goal.figures(fitted.chances(scaling(known)), tested)
        result = {**figures, **goal.chance(tested)}
    answered = int(np.count_nonzero(np.asarray(abs(known).sum(axis=1)).ravel()))
    return {**result, **facts, "used": answered, "total": known.shape[0]}


# ---- rows


def texts_of(row: Any) -> tuple[str, ...]:
    """The one text or the two of an example."""
    if isinstance(row, LabelledText):
        return (row.text,)
    assert isinstance(row, Pair)
    return (row.first, row.second)


def features(encoder: SentenceEncoder, examples: Examples) -> Rows:
    """What the regression reads, ``(n, D)`` or for pairs ``(n, 2D)``; each distinct text is encoded once."""
    sides = list(zip(*map(texts_of, examples), strict=True))
    place = {text: number for number, text in enumerate(dict.fromkeys(text for side in sides for text in side))}
    encode = encoder.encode_sparse if isinstance(encoder, SparseEncoder) else encoder.encode
    vectors: Rows = encode(list(place))
    by_side = [vectors[[place[text] for text in side]] for side in sides]
    if len(by_side) == 1:
        return by_side[0]
    first, second = by_side
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
        figures = classification(self.gold(examples), predicted, self.labels)
        return {name: figures[name] for name in ("accuracy", "f1", "macro_f1") if name in figures}

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
        self.unit = 1.0 if len(scale_steps(low, high)) <= MOST_STEPS else (high - low) / COARSE_STEPS
        self.steps = scale_steps(low / self.unit, high / self.unit)

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

Judge = Callable[["Logistic"], float]


def _judge(goal: Goal, rows: Rows, examples: Examples) -> Judge:
    return lambda fitted: next(iter(goal.figures(fitted.chances(rows), examples).values()))


def _by_folds(
    rows: Rows, targets: NDArray[Any], goal: Goal, examples: Examples, n: int
) -> tuple[Figures, dict[str, Any]]:
    """Each row predicted by the regression of the folds it is not in; the next fold chose its penalty."""
    fold = _folds(examples, goal, n)
    n = int(fold.max()) + 1
    chances = np.zeros(targets.shape, dtype=np.float32)
    by_fold = []
    for number in range(n):
        test = fold == number
        inner = ~test & (fold == (number + 1) % n) if n > 2 else ~test & (np.cumsum(~test) % 2 == 0)
        train = ~test & ~inner
        held = examples.subset(np.flatnonzero(inner))
        penalty, start = best_logistic(rows[train], targets[train], _judge(goal, rows[inner], held))
        fitted = fit_logistic(rows[~test], targets[~test], penalty, start)
        chances[test] = fitted.chances(rows[test])
        by_fold.append(next(iter(goal.figures(chances[test], examples.subset(np.flatnonzero(test))).values())))
    figures = {**goal.figures(chances, examples), **goal.chance(examples)}
    return figures, {"deviation": float(np.std(by_fold)), "folds": n}


def _by_files(
    rows: Rows,
    targets: NDArray[Any],
    goal: Goal,
    examples: Examples,
    dev: tuple[Rows, Examples] | None,
) -> tuple[Logistic, dict[str, Any]]:
    """The regression of all rows, its penalty chosen on ``dev`` or on a tenth of them."""
    if dev is not None:
        penalty, fitted = best_logistic(rows, targets, _judge(goal, *dev))
    else:
        inner = _folds(examples, goal, INNER) == 0
        judge = _judge(goal, rows[inner], examples.subset(np.flatnonzero(inner)))
        penalty, start = best_logistic(rows[~inner], targets[~inner], judge)
        fitted = fit_logistic(rows, targets, penalty, start)
    return fitted, {"penalty": penalty, "trained_on": rows.shape[0]}


def _folds(examples: Examples, goal: Goal, n: int) -> NDArray[np.int64]:
    if len(examples) < 2 * n:
        n = max(len(examples) // 2, 2)
    classes = np.asarray(
        examples.targets if isinstance(goal, ClassTargets) else np.zeros(len(examples)), dtype=np.int64
    )
    return fold_of_rows(classes, np.arange(len(examples)), n, seed=1)


def _scaled(encoder: SentenceEncoder, examples: Examples | None, scaling: Scaling) -> tuple[Rows, Examples] | None:
    return None if examples is None else (scaling(features(encoder, examples)), examples)


# ---- the regression


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


def fit_logistic(rows: Rows, targets: NDArray[Any], penalty: float, start: Logistic | None = None) -> Logistic:
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
    minimum = minimize(loss, begin.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": STEPS, "gtol": 1e-5})
    values = (minimum.x.reshape(width + 1, n_classes) * unit).astype(np.float32)
    return Logistic(values[:-1], values[-1])


def _by_penalty(
    rows: Rows, targets: NDArray[Any], penalties: Sequence[float] = PENALTIES
) -> Iterator[tuple[float, Logistic]]:
    """A regression for each penalty, from the strongest to the weakest."""
    fitted: Logistic | None = None
    for penalty in penalties:
        fitted = fit_logistic(rows, targets, penalty, fitted)
        yield penalty, fitted


def best_logistic(
    rows: Rows, targets: NDArray[Any], judge: Callable[[Logistic], float], penalties: Sequence[float] = PENALTIES
) -> tuple[float, Logistic]:
    """The penalty whose regression ``judge`` likes most, and that regression; of equals the strongest penalty."""
    chosen: tuple[float, float, Logistic] | None = None
    worse = 0
    for penalty, fitted in _by_penalty(rows, targets, penalties):
        value = judge(fitted)
        if chosen is None or value > chosen[0]:
            chosen, worse = (value, penalty, fitted), 0
        else:
            worse += 1
        if worse == PATIENCE:
            break
    assert chosen is not None
    return chosen[1], chosen[2]


def _log_softmax(values: NDArray[Any]) -> NDArray[np.float32]:
    values = values - values.max(axis=1, keepdims=True)
    return np.asarray(values - np.log(np.exp(values).sum(axis=1, keepdims=True)), dtype=np.float32)
