"""Pair 文本对: a class or a score for two texts.

siamese    u, v = f(first), f(second);  [u; v; |u - v|; u∗v] → layers      f: any sentence encoder
cosine     cos(u, v) as the score, f a Transformer that learns: Reimers & Gurevych, "Sentence-BERT", 2019
matching   arc1, arc2, cnn-sm, bi-cnn, mpcnn: networks that compare the texts inside (sentences/matching.py)
cross      a Transformer that reads both texts as one input; GPT in its paper's forms, with its own loss next to
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import nn

from polyseme.arrays import FloatArray
from polyseme.data.examples import Examples
from polyseme.errors import OptionError
from polyseme.learn.goals import Classes, Scale, classes_or_scale, restored, softmax
from polyseme.learn.learning import HeadedNetwork, answers_of, output_layer
from polyseme.learn.modules import fill, weights
from polyseme.learn.readers import Reader, TextPair, pairs_of
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.tasks.classify import class_report
from polyseme.tasks.heads import pair_reader, restored_pairs
from polyseme.tasks.model import (
    Prediction,
    TaskModel,
    TaskReport,
    predictions,
    several,
    tell_odd_labels,
    tell_unknown_labels,
)
from polyseme.tasks.options import CosineOptions, PairOptions, TaskOptions, head_options
from polyseme.training.run import Run

if TYPE_CHECKING:
    from typing_extensions import Self


class PairScore(NamedTuple):
    """The score of a pair."""

    score: float


class PairModel(TaskModel):
    """A reader of pairs, the layers over it, and what they mean."""

    method: ClassVar[str] = "pair"
    kind: ClassVar[str] = "pairs"
    unit: ClassVar[str] = "pairs"
    Options: ClassVar[type] = PairOptions

    def __init__(
        self, options: TaskOptions, reader: Reader, output: nn.Module, goal: Classes | Scale, about: About
    ) -> None:
        self.options, self.reader, self.output, self.goal, self.about = options, reader, output, goal, about
        self.net = HeadedNetwork(reader.net, output).eval()
        self.labels = goal.labels if isinstance(goal, Classes) else []

    # ---- fitting

    @classmethod
    def goal_of(cls, train: Examples, settings: Any) -> Classes | Scale:
        if isinstance(settings, CosineOptions) and not train.scored:
            raise OptionError(f"the head cosine learns scores, but {train.path} has classes: use cross")
        return classes_or_scale(train, settings)

    @classmethod
    def tell_odd(cls, train: Examples, dev: Examples | None) -> None:
        if not train.scored:
            tell_odd_labels(train, dev)

    @classmethod
    def new(
        cls, train: Examples, encoders: Sequence[Any], options: TaskOptions, settings: Any, goal: Any, about: About,
        run: Run,
    ) -> Self:  # fmt: skip
        scored = isinstance(goal, Scale)
        reader = pair_reader(options.head, pairs_of(train), encoders, about, settings, scored=scored)
        output = output_layer(reader.dim, goal.n_outputs, settings, settings.classifier_units)
        if isinstance(settings, CosineOptions):
            begin_as_scale(output)
        return cls(options, reader, output, goal, about)

    @classmethod
    def inputs_of(cls, examples: Any) -> list[TextPair]:
        return pairs_of(examples)

    # ---- answers

    def outputs(self, pairs: Sequence[TextPair]) -> FloatArray:
        """What the last layer says to each pair, ``(n, outputs)``."""
        answers: FloatArray = answers_of(self.net, self.goal, self.reader.prepare(several(pairs)))
        return answers.reshape(-1, self.goal.n_outputs)

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
        return [*predictions(softmax(outputs), self.labels)]

    def record(self, row: TextPair, answer: Prediction | PairScore) -> dict[str, Any]:
        return {"first": row[0], "second": row[1], **answer._asdict()}

    def score(self, examples: Examples) -> TaskReport:
        """Figures over labelled pairs."""
        self.check(examples)
        if examples.scored != isinstance(self.goal, Scale):
            given, learned = ("scores", "classes") if examples.scored else ("classes", "scores")
            raise OptionError(
                f"{examples.path} has {given} but the model learned {learned}: pass scored when reading it"
            )
        if isinstance(self.goal, Classes):
            tell_unknown_labels(self.labels, examples)
        outputs = self.outputs(pairs_of(examples))
        figures = self.goal.figures(outputs, examples)
        if isinstance(self.goal, Classes):
            return class_report(self, examples, self.goal.names(outputs), figures)
        metric = self.options.metric or self.goal.primary
        return TaskReport(self.method, str(examples.path), len(examples), metric, figures)

    # ---- on disk

    def parts(self) -> Parts:
        below, goal = self.reader.parts(), self.goal.parts()
        tensors = {**below.tensors, **weights(self.output, "output."), **goal.tensors}
        return Parts(tensors, {**below.tables, **goal.tables}, {}, below.models)

    @classmethod
    def from_parts(cls, options: TaskOptions, parts: Parts, about: About) -> Self:
        settings = head_options(cls.method, options)
        goal = restored(parts, settings)
        reader = restored_pairs(options.head, parts, about, settings, scored=isinstance(goal, Scale))
        output = output_layer(reader.dim, goal.n_outputs, settings, settings.classifier_units)
        fill(output, parts, "output.")
        return cls(options, reader, output, goal, about)


@torch.no_grad()
def begin_as_scale(output: nn.Sequential) -> None:
    """Let cosines from 0 to 1 be most of the scale, as they are before anything is learned; none is dropped."""
    dropout, layer = output
    assert isinstance(dropout, nn.Dropout)
    assert isinstance(layer, nn.Linear)
    dropout.p = 0.0
    layer.weight.fill_(5.0)
    layer.bias.fill_(-2.0)
