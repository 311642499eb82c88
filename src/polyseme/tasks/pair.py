"""Pair 文本对: a class or a score for two texts.

siamese    u, v = f(first), f(second);  [u; v; |u - v|; u∗v] → layers      f: any sentence encoder
cosine     cos(u, v) as the score, f a Transformer that learns: Reimers & Gurevych, "Sentence-BERT", 2019
matching   arc1, arc2, cnn-sm, bi-cnn, mpcnn: networks that compare the texts inside (sentences/matching.py)
cross      a Transformer that reads both texts as one input; GPT in its paper's forms, with its own loss next to

A score r between two integers is learned as the sparse distribution of Tai et al. (2015) over the integers of its
scale, p(⌊r⌋) = ⌊r⌋ + 1 - r and p(⌊r⌋ + 1) = r - ⌊r⌋, by its divergence; the answer is Σ k p_k. Or as one number, by its
squared error.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import FloatArray
from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.data.examples import Examples, tell_odd_labels, tell_unknown_labels
from polyseme.data.labels import MOST_STEPS, scale_steps, spread
from polyseme.errors import OptionError, TrainingError, altered_model
from polyseme.interfaces import SentenceEncoder
from polyseme.learn.goals import Classes, Goal, softmax
from polyseme.learn.inputs import Inputs
from polyseme.learn.learning import HeadedNetwork, answers_of, output_layer
from polyseme.learn.metrics import PRIMARY, Figures, scores
from polyseme.learn.modules import fill, weights
from polyseme.learn.pairs import Cross, FrozenPairs, Matching, Siamese, TextPair, cosine, pairs_of
from polyseme.learn.prepared import LearningTexts, Reader
from polyseme.sentences.learned import LearnedEncoder
from polyseme.sentences.matching import check_filters, new_matcher
from polyseme.sentences.transformer import POOLER, SentenceTransformer, to_tune, usual_mode
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.tasks.classify import class_report
from polyseme.tasks.heads import frozen_encoder, learning_texts, one_transformer, tuned, tunes_texts
from polyseme.tasks.model import Prediction, TaskModel, TaskReport, predictions, several
from polyseme.tasks.options import CosineOptions, CrossOptions, MatchingOptions, PairOptions, TaskOptions, head_options
from polyseme.text.segment import Segmentation
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


# ---- scores


class Scale(Goal):
    """A score from ``low`` to ``high``."""

    primary = PRIMARY["scores"]

    def __init__(self, low: float, high: float, regression: str) -> None:
        self.low, self.high = low, high
        self.steps = scale_steps(low, high)
        self.distributed = regression == "distribution" and 1 < len(self.steps) <= MOST_STEPS
        self.n_outputs = len(self.steps) if self.distributed else 1

    @classmethod
    def of(cls, examples: Examples, regression: str) -> Scale:
        """The scale of the scores of these examples."""
        low, high = float(np.min(examples.targets)), float(np.max(examples.targets))
        if low == high:
            raise TrainingError(f"all scores of {examples.path} are {low:g}: there is nothing to learn")
        return cls(low, high, regression)

    def wanted(self, examples: Examples) -> NDArray[np.float32]:
        return np.asarray(examples.targets, dtype=np.float32)

    def loss(self, outputs: Tensor, wanted: NDArray[Any]) -> Tensor:
        if not self.distributed:
            shares = torch.from_numpy((wanted - self.low) / max(self.high - self.low, 1e-6)).to(outputs.device)
            return F.mse_loss(torch.sigmoid(outputs[:, 0]), shares, reduction="sum")
        distributions = torch.from_numpy(spread(wanted, self.steps)).to(outputs.device)
        return F.kl_div(torch.log_softmax(outputs, dim=1), distributions, reduction="sum")

    def values(self, answers: FloatArray) -> FloatArray:
        """The score of each row."""
        if self.distributed:
            return np.asarray(softmax(answers) @ self.steps, dtype=np.float32)
        return np.asarray(self.low + (self.high - self.low) / (1 + np.exp(-answers[:, 0])), dtype=np.float32)

    def figures(self, answers: FloatArray, examples: Examples) -> Figures:
        return scores(np.asarray(examples.targets, dtype=np.float64).tolist(), self.values(answers).tolist())

    def figure_names(self, examples: Examples) -> Collection[str]:
        return scores([], [])

    def dev_loss(self, answers: FloatArray, examples: Examples) -> float:
        return float(self.loss(torch.from_numpy(answers), self.wanted(examples))) / max(len(answers), 1)

    def parts(self) -> Parts:
        return Parts({"scale": np.array([self.low, self.high])}, {})


def classes_or_scale(examples: Examples, options: Any) -> Classes | Scale:
    """What the labels of the examples ask for."""
    return Scale.of(examples, options.regression) if examples.scored else Classes.of(examples, options)


def restored(parts: Parts, options: Any) -> Classes | Scale:
    """The goal that ``parts`` kept."""
    scale = parts.tensors.get("scale")
    if scale is not None and scale.shape == (2,) and np.isfinite(scale).all():
        return Scale(float(scale[0]), float(scale[1]), options.regression)
    if len(parts.tables.get("labels", [])) < 2:
        raise altered_model("it has neither labels nor a scale")
    return Classes(parts.tables["labels"])


# ---- heads


def pair_reader(
    head: str, pairs: Sequence[TextPair], encoders: Sequence[Any], about: About, settings: Any, **cross: Any
) -> Reader:
    """What reads pairs for a head; ``cross`` are further arguments of ``Cross``."""
    if isinstance(settings, CrossOptions):
        transformer = one_transformer(encoders, "cross", "both texts")
        return Cross(transformer, settings, pooled=usual_mode(transformer.network) == POOLER, **cross)
    if isinstance(settings, CosineOptions):
        if not tunes_texts(encoders, settings):
            raise OptionError("the head cosine fine-tunes a Transformer that gives a vector per text: give one encoder")
        return Siamese(tuned(to_tune(encoders[0], settings, about, compared=True), settings), cosine)
    texts = [first for first, _ in pairs] + [second for _, second in pairs]
    if isinstance(settings, MatchingOptions):
        return _matching(head, texts, encoders, about, settings)
    frozen = frozen_encoder(encoders, settings)
    if frozen is not None:
        return FrozenPairs(frozen)
    return Siamese(learning_texts(head, texts, encoders, about, settings, compared=True))


def restored_pairs(head: str, parts: Parts, about: About, settings: Any, **cross: Any) -> Reader:
    """The reader that ``parts`` kept."""
    if isinstance(settings, MatchingOptions):
        inputs = Inputs.from_parts(settings, parts, about.segmentation or Segmentation())
        matcher = new_matcher(head, inputs.module.dim, settings)
        fill(matcher, parts, "net.")
        return Matching(inputs, matcher)
    if isinstance(settings, CrossOptions):
        return Cross(parts.model("encoder", TransformerEncoder), settings, pooled="pooled" in parts.tensors, **cross)
    encoder = parts.model("encoder", SentenceEncoder)
    if not any(name.startswith("net.") for name in parts.tensors):  # a frozen one has a net of its own next to it
        if isinstance(encoder, SentenceTransformer) and isinstance(settings, CosineOptions):
            return Siamese(tuned(encoder, settings), cosine)
        if isinstance(encoder, (SentenceTransformer, LearnedEncoder)):
            return Siamese(
                tuned(encoder, settings) if isinstance(encoder, SentenceTransformer) else LearningTexts(encoder)
            )
    reader = FrozenPairs(encoder)
    fill(reader.standardised, parts, "net.")
    return reader


def _matching(head: str, texts: Sequence[Any], encoders: Sequence[Any], about: About, settings: Any) -> Matching:
    check_filters(head, settings.filters)
    segmentation = about.segmentation or Segmentation()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        inputs = Inputs.of(segmentation.token_lists(texts), encoders, segmentation, settings)
        if inputs.module.beside:
            raise OptionError(f"{head} has no hidden states to add an encoder to: use elmo_at=input")
        return Matching(inputs, new_matcher(head, inputs.module.dim, settings))
