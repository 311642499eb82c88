"""Pair 文本对: a class or a score for two texts.

siamese    u, v = f(first), f(second);  [u; v; |u - v|; u∗v] → layers      f: any sentence encoder
cosine     cos(u, v) as the score, f a Transformer that learns: Reimers & Gurevych, "Sentence-BERT", 2019
matching   arc1, arc2, cnn-sm, bi-cnn, mpcnn: networks that compare the texts inside (sentences/matching.py)
cross      a Transformer that reads both texts as one input; GPT in its paper's forms, with its own loss next to
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.arrays import FloatArray
from polyseme.data.examples import Examples
from polyseme.errors import OptionError
from polyseme.interfaces import Progress
from polyseme.learn.inputs import fill, segmentation_of
from polyseme.learn.metrics import check_metric, confusion, per_label
from polyseme.learn.token_vectors import Ints
from polyseme.neural.batches import BudgetBatches
from polyseme.sentences.learned import TIE, ExampleTask, output_layer, softmax
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.tasks.goals import Classes, Goal, Scale, goal_from, goal_of, gold_labels
from polyseme.tasks.model import Prediction, TaskModel, TaskReport, several
from polyseme.tasks.odd_labels import tell_odd_labels, tell_unknown_labels, with_dev
from polyseme.tasks.options import PairOptions, TaskOptions, head_options
from polyseme.tasks.pair_features import (
    Cosine,
    Cross,
    Features,
    PairNet,
    PreparedPairs,
    TextPair,
    features_from,
    new_features,
)
from polyseme.training.loop import fit
from polyseme.training.run import Run
from polyseme.training.task import Score

if TYPE_CHECKING:
    from typing_extensions import Self

AT_ONCE = 512  # pairs of a file that are predicted together


class PairScore(NamedTuple):
    """The score of a pair."""

    score: float


class PairModel(TaskModel):
    """Features of pairs, layers over them, and what they mean."""

    method: ClassVar[str] = "pair"
    kind: ClassVar[str] = "pairs"
    Options: ClassVar[type] = PairOptions

    def __init__(self, options: TaskOptions, features: Features, output: nn.Module, goal: Goal, about: About) -> None:
        self.options, self.features, self.goal, self.about = options, features, goal, about
        if isinstance(features, Cross):
            features.begin(scored=isinstance(goal, Scale))
        self.net = PairNet(features.net(), output).eval()
        self.labels = goal.labels if isinstance(goal, Classes) else []

    @classmethod
    def fit(
        cls, train: Examples, dev: Examples | None, encoders: Sequence[Any], options: TaskOptions, run: Run
    ) -> Self:
        own = head_options(cls.method, options, len(train))
        goal = goal_of(train, own)
        if isinstance(goal, Classes):
            tell_odd_labels(train, dev)
        train, dev = with_dev(train, dev, options, own)
        about = About(segmentation_of(encoders, train.segmentation), train.facts, run.curve)
        features = new_features(options.head, pairs_of(train), encoders, about, own)
        output = output_layer(features.dim, goal.n_outputs, own, own.classifier_units)
        if isinstance(features, Cosine):
            if not isinstance(goal, Scale):
                raise OptionError(f"the head cosine learns scores, but {train.path} has classes: use cross")
            features.begin(output)
        model = cls(options, features, output, goal, about)
        fit(PairTask(model, train, dev, own, run.progress), own, run)
        return model

    # ---- answers

    def outputs(self, pairs: Sequence[TextPair]) -> FloatArray:
        """What the last layer says to each pair, ``(n, outputs)``."""
        return run_pairs(self.net, self.features.prepare(several(pairs)), self.goal.n_outputs)

    def probabilities(self, pairs: Sequence[TextPair]) -> FloatArray:
        """p(label) of each pair, ``(n, labels)``."""
        if not self.labels:
            raise OptionError("this model gives scores, not labels")
        return softmax(self.outputs(pairs))

    def predict(self, rows: Sequence[TextPair]) -> list[Prediction | PairScore]:
        """The likeliest label of each pair with all probabilities, or its score."""
        outputs = self.outputs(rows)
        if isinstance(self.goal, Scale):
            return [PairScore(float(value)) for value in self.goal.values(outputs)]
        found: list[Prediction | PairScore] = []
        for row in softmax(outputs):
            ranked = np.argsort(-row, kind="stable").tolist()
            named = {self.labels[place]: float(row[place]) for place in ranked}
            found.append(Prediction(self.labels[ranked[0]], float(row[ranked[0]]), named))
        return found

    def records(self, rows: Sequence[TextPair], *, attention: bool = False) -> Iterator[dict[str, Any]]:
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            for (first, second), found in zip(some, self.predict(some), strict=True):
                yield {"first": first, "second": second, **found._asdict()}

    def rows_to_predict(self, path: str | Path, **reading: Any) -> list[TextPair]:
        return pairs_of(Examples.read(path, kind="pairs", unlabelled=True, like=self.about.corpus, **reading))

    def score(self, examples: Examples) -> TaskReport:
        """Figures over labelled pairs."""
        self.check(examples)
        if examples.scored != isinstance(self.goal, Scale):
            told = ("scores", "classes") if examples.scored else ("classes", "scores")
            raise OptionError(
                f"{examples.path} has {told[0]} but the model learned {told[1]}: pass scored when reading it"
            )
        if isinstance(self.goal, Classes):
            tell_unknown_labels(self.labels, examples)
        outputs = self.outputs(pairs_of(examples))
        figures = self.goal.figures(outputs, examples)
        known = (self.method, str(examples.path), len(examples), self.options.metric or self.goal.primary, figures)
        if not isinstance(self.goal, Classes):
            return TaskReport(*known)
        gold, predicted = gold_labels(examples), self.goal.names(outputs)
        labels = sorted({*gold, *predicted}, key=[*self.labels, *examples.labels].index)
        return TaskReport(*known, per_label(gold, predicted), labels, confusion(gold, predicted, labels).tolist())

    # ---- on disk

    def parts(self) -> Parts:
        below, goal = self.net.parts(self.features), self.goal.parts()
        return Parts({**below.tensors, **goal.tensors}, {**below.tables, **goal.tables}, {}, below.models)

    @classmethod
    def from_parts(cls, options: TaskOptions, parts: Parts, about: About) -> Self:
        own = head_options(cls.method, options)
        goal = goal_from(parts, own)
        features = features_from(options.head, parts, about, own)
        output = output_layer(features.dim, goal.n_outputs, own, own.classifier_units)
        fill(output, parts, "output.")
        return cls(options, features, output, goal, about)


def pairs_of(examples: Examples) -> list[TextPair]:
    """The texts of labelled pairs."""
    rows: Any = examples
    return [(row.first, row.second) for row in rows]


def run_pairs(net: nn.Module, prepared: PreparedPairs, n_outputs: int) -> FloatArray:
    """What the net says to all pairs, in their order; those of about one length run together."""
    device = next(net.parameters()).device
    found = np.zeros((len(prepared.sizes), n_outputs), dtype=np.float32)
    for rows in BudgetBatches(prepared.sizes, tokens=prepared.at_once, seed=0, padded=True, most=AT_ONCE).in_order():
        with torch.inference_mode():
            found[rows] = net(prepared.batch(rows, device))[0].cpu().numpy()
    return found


class PairTask(ExampleTask):
    """Labelled pairs through a PairNet."""

    unit = "pairs"

    def __init__(self, model: PairModel, train: Examples, dev: Examples | None, own: Any, progress: Progress) -> None:
        self.goal, self.metric = model.goal, model.options.metric or model.goal.primary
        if dev is not None:
            check_metric(self.metric, self.goal.figures(np.zeros((len(dev), self.goal.n_outputs), np.float32), dev))
        self.pairs = model.features.prepare(pairs_of(train), progress)
        super().__init__(model.net, self.pairs.sizes, own)
        model.net.measure(self.pairs)
        self.targets = self.goal.targets(train)
        self.dev = dev
        self.dev_pairs = model.features.prepare(pairs_of(dev), progress) if dev is not None else None

    def loss_of(self, rows: Ints) -> Tensor:
        outputs, penalty = self.module(self.pairs.training_batch(rows, self.device))
        loss: Tensor = self.goal.loss(outputs, self.targets[rows]) + penalty
        return loss

    def evaluate(self, module: nn.Module) -> Score | None:
        if self.dev is None or self.dev_pairs is None:
            return None
        outputs = run_pairs(module, self.dev_pairs, self.goal.n_outputs)
        figures = self.goal.figures(outputs, self.dev)
        wanted = self.goal.targets(self.dev)
        known = wanted >= 0 if isinstance(self.goal, Classes) else np.ones(len(wanted), dtype=bool)
        loss = float(self.goal.loss(torch.from_numpy(outputs[known]), wanted[known])) / max(int(known.sum()), 1)
        facts = {self.metric: figures[self.metric], "dev_loss": loss}
        if self.metric == "mse":
            return Score(figures[self.metric] + TIE * loss, facts)
        return Score(figures[self.metric] - TIE * loss, facts, higher_is_better=True)
