"""Choice 多项选择: which of several alternatives goes on from a context, or answers a question.

    p(k) = softmax_k(w · f(context, alternative k))

f: the features of a pair of texts under any encoder (learn/pairs.py). Under the head cross, a Transformer reads both as
one input: Radford et al., "Improving Language Understanding by Generative Pre-Training", 2018. The dropout before w is
drawn once for all alternatives of a context, as in their program. Rows may have different numbers of alternatives. Of a
context that is too long for a Transformer, the end is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from polyseme.arrays import FloatArray, Ints
from polyseme.data.examples import Examples
from polyseme.errors import OptionError
from polyseme.interfaces import Progress, silent
from polyseme.learn.goals import Goal, mean_loss, softmax
from polyseme.learn.learning import HeadedNetwork, answers_of, output_layer
from polyseme.learn.metrics import PRIMARY, Figures
from polyseme.learn.modules import Encoding, fill, weights
from polyseme.learn.pairs import TextPair
from polyseme.learn.prepared import PreparedInputs, Reader
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.tasks.model import TaskModel, TaskReport, several
from polyseme.tasks.options import ChoiceOptions, TaskOptions, head_options
from polyseme.tasks.pair import pair_reader, restored_pairs
from polyseme.training.run import Run

if TYPE_CHECKING:
    from typing_extensions import Self


class ChosenAlternative(NamedTuple):
    """The number of an alternative from 0, its text and probability, and the probabilities of all in their order."""

    choice: int
    text: str
    probability: float
    probabilities: list[float]


class ChoiceModel(TaskModel):
    """A reader of a context with each alternative, and a layer that scores them."""

    method: ClassVar[str] = "choice"
    kind: ClassVar[str] = "choices"
    at_once: ClassVar[int] = 128
    Options: ClassVar[type] = ChoiceOptions

    def __init__(self, options: TaskOptions, reader: Reader, output: nn.Sequential, about: About) -> None:
        self.options, self.reader, self.output, self.about = options, reader, output, about
        self.goal, self.labels, self.net = Choices(), [], ChoiceNet(reader.net, output).eval()

    # ---- fitting

    @classmethod
    def goal_of(cls, train: Examples, settings: Any) -> Choices:
        return Choices()

    @classmethod
    def tell_odd(cls, train: Examples, dev: Examples | None) -> None:
        for examples in (train, dev):
            _check_answers(examples)

    @classmethod
    def new(
        cls, train: Examples, encoders: Sequence[Any], options: TaskOptions, settings: Any, goal: Any, about: About,
        run: Run,
    ) -> Self:  # fmt: skip
        rows: list[Any] = list(train)
        once = [(row[0] if not n else "", text) for row in rows for n, text in enumerate(row[1])]  # to count words
        reader = pair_reader(options.head, once, encoders, about, settings, keeps="end")
        return cls(options, reader, output_layer(reader.dim, 1, settings, settings.classifier_units), about)

    def prepare(self, examples: Any, progress: Progress = silent) -> AlternativesInRows:
        rows: list[Any] = list(examples)
        pairs: list[TextPair] = [(row[0], alternative) for row in rows for alternative in row[1]]
        return AlternativesInRows(self.reader.prepare(pairs, progress), [len(row[1]) for row in rows])

    @classmethod
    def inputs_of(cls, examples: Any) -> list[Any]:
        return list(examples)

    # ---- answers

    def probabilities(self, rows: Sequence[Any]) -> list[FloatArray]:
        """p(alternative) of each ``(context, alternatives)``, in their order."""
        given = several(rows)
        for number, row in enumerate(given):
            if len(row) < 2 or isinstance(row[1], str) or len(row[1]) < 2:
                raise OptionError(f"row {number} is not a context and two or more alternatives: {row!r:.60}")
        if not given:
            return []
        prepared = self.prepare(given)
        scores = answers_of(self.net, self.goal, prepared)  # (n, K)
        return [softmax(row[:n]) for row, n in zip(scores, prepared.counts.tolist(), strict=True)]

    def predict(self, rows: Sequence[Any]) -> list[ChosenAlternative]:
        """The likeliest alternative of each ``(context, alternatives)``."""
        answers = []
        for row, shares in zip(rows, self.probabilities(rows), strict=True):
            best = int(shares.argmax())
            answers.append(ChosenAlternative(best, row[1][best], float(shares[best]), shares.tolist()))
        return answers

    def record(self, row: Any, answer: ChosenAlternative) -> dict[str, Any]:
        return {"context": row[0], "alternatives": list(row[1]), **answer._asdict()}

    def score(self, examples: Examples) -> TaskReport:
        """The share of contexts whose right alternative is the likeliest."""
        rows = self.inputs_of(self.check(examples))
        _check_answers(examples)
        answers = np.array([shares.argmax() for shares in self.probabilities(rows)])
        figures = {"accuracy": float(np.mean(answers == examples.targets))}
        metric = self.options.metric or self.goal.primary
        return TaskReport(self.method, str(examples.path), len(rows), metric, figures)

    # ---- on disk

    def parts(self) -> Parts:
        below = self.reader.parts()
        return Parts({**below.tensors, **weights(self.output, "output.")}, below.tables, {}, below.models)

    @classmethod
    def from_parts(cls, options: TaskOptions, parts: Parts, about: About) -> Self:
        settings = head_options(cls.method, options)
        reader = restored_pairs(options.head, parts, about, settings, keeps="end")
        output = output_layer(reader.dim, 1, settings, settings.classifier_units)
        fill(output, parts, "output.")
        return cls(options, reader, output, about)


class Choices(Goal):
    """Which of a row's alternatives; outputs are ``(B, K)``, -∞ where a row has fewer than K alternatives."""

    primary = PRIMARY["choices"]
    n_outputs = 1  # of each alternative

    def wanted(self, examples: Examples) -> Ints:
        return np.asarray(examples.targets, dtype=np.int64)

    def loss(self, outputs: Tensor, wanted: Ints) -> Tensor:
        return F.cross_entropy(outputs, torch.from_numpy(wanted).to(outputs.device), reduction="sum")

    def answers(self, outputs: Iterable[tuple[Ints, Tensor]], prepared: PreparedInputs, net: nn.Module) -> FloatArray:
        batches = list(outputs)
        widest = max((part.shape[1] for _, part in batches), default=0)
        scores = np.full((len(prepared.sizes), widest), -np.inf, dtype=np.float32)
        for rows, part in batches:
            scores[rows, : part.shape[1]] = part.numpy()
        return scores

    def figures(self, answers: FloatArray, examples: Examples) -> Figures:
        right = answers.argmax(axis=1) == examples.targets if len(answers) else np.zeros(0)
        return {"accuracy": float(np.mean(right)) if len(right) else 0.0}

    def figure_names(self, examples: Examples) -> Collection[str]:
        return ("accuracy",)

    def dev_loss(self, answers: FloatArray, examples: Examples) -> float:
        return mean_loss(answers, self.wanted(examples))


class ChoiceBatch(NamedTuple):
    """The pairs of some rows, and how many each row has."""

    pairs: Any
    counts: Tensor  # (B,)


class AlternativesInRows(PreparedInputs):
    """Pairs of a context with each of its alternatives, row by row."""

    def __init__(self, pairs: PreparedInputs, counts: Sequence[int]) -> None:
        self.pairs, self.counts, self.vectors = pairs, np.array(counts, dtype=np.int64), pairs.vectors
        self.bounds = np.concatenate([[0], np.cumsum(self.counts)])
        self.sizes: Ints = np.maximum.reduceat(pairs.sizes, self.bounds[:-1]) if len(counts) else self.counts
        widest = max(counts, default=1)
        self.budget, self.most = max(pairs.budget // widest, 1), pairs.most and max(pairs.most // widest, 1)

    def batch(self, rows: Ints, *, learning: bool = False) -> ChoiceBatch:
        pairs = np.concatenate([np.arange(self.bounds[row], self.bounds[row + 1]) for row in rows.tolist()])
        return ChoiceBatch(self.pairs.batch(pairs, learning=learning), torch.from_numpy(self.counts[rows]))


class ChoiceNet(HeadedNetwork):
    """The layers over the features of pairs; what is dropped in these is the same for a row's alternatives."""

    output: nn.Sequential

    def forward(self, batch: ChoiceBatch) -> tuple[Tensor, Tensor | None]:
        """Scores ``(B, K)``, -∞ for absent alternatives, and what is added to the losses: the mean of a row's pairs."""
        encoding: Encoding = self.net(batch.pairs)
        scores = self.scores(encoding.vectors, batch.counts)
        if encoding.penalty is None:
            return scores, None
        parts = torch.split(encoding.penalty, batch.counts.tolist())
        return scores, torch.stack([part.mean() for part in parts])

    def scores(self, features: Tensor, counts: Tensor) -> Tensor:
        """Features of all pairs ``(P, D)`` → scores ``(B, K)``."""
        row = torch.repeat_interleave(torch.arange(len(counts), device=features.device), counts)  # (P,)
        for layer in self.output:
            if not isinstance(layer, nn.Dropout):
                features = layer(features)
            elif layer.training:
                features = features * layer(features.new_ones(len(counts), features.shape[1]))[row]
        return padded_scores(features[:, 0], counts.tolist())


def padded_scores(scores: Tensor, counts: list[int]) -> Tensor:
    """The scores row by row, those of absent alternatives -∞: ``(P,) -> (B, K)``."""
    return pad_sequence(list(torch.split(scores, counts)), batch_first=True, padding_value=-torch.inf)


def _check_answers(examples: Examples | None) -> None:
    if examples is not None and examples.kind == "choices" and not examples.labelled:
        first = int(np.flatnonzero(examples.targets < 0)[0])
        raise OptionError(f"{examples.path} has contexts without an answer (first: row {first}): give their answers")
