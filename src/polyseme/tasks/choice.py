"""Choice 多项选择: which of several alternatives goes on from a context, or answers a question.

    p(k) = softmax_k(w · f(context, alternative k))

f: the features of a pair of texts under any encoder (tasks/pair_features.py). Under the head cross, a Transformer reads
both as one input: Radford et al., "Improving Language Understanding by Generative Pre-Training", 2018. The dropout
before w is drawn once for all alternatives of a context, as in their program. Rows may have different numbers of
alternatives. Of a context that is too long for a Transformer, the end is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from polyseme.arrays import FloatArray
from polyseme.data.examples import Examples
from polyseme.errors import OptionError
from polyseme.interfaces import Progress
from polyseme.learn.inputs import fill, segmentation_of
from polyseme.learn.metrics import PRIMARY, Figures, check_metric
from polyseme.learn.token_vectors import Ints
from polyseme.sentences.learned import ExampleTask, held_out_score, output_layer, softmax
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.tasks.model import TaskModel, TaskReport, several
from polyseme.tasks.odd_labels import with_dev
from polyseme.tasks.options import ChoiceOptions, TaskOptions, head_options
from polyseme.tasks.pair import run_pairs
from polyseme.tasks.pair_features import Cross, Features, PairNet, PreparedPairs, TextPair, features_from, new_features
from polyseme.training.loop import fit
from polyseme.training.run import Run
from polyseme.training.task import Score

if TYPE_CHECKING:
    from typing_extensions import Self

AT_ONCE = 128  # contexts of a file that are answered together


class Chosen(NamedTuple):
    """The number of an alternative from 0, its text and probability, and the probabilities of all in their order."""

    choice: int
    text: str
    probability: float
    probabilities: list[float]


class ChoiceModel(TaskModel):
    """Features of a context with each alternative, and a layer that scores them."""

    method: ClassVar[str] = "choice"
    kind: ClassVar[str] = "choices"
    Options: ClassVar[type] = ChoiceOptions

    def __init__(self, options: TaskOptions, features: Features, output: nn.Sequential, about: About) -> None:
        self.options, self.features, self.about, self.labels = options, features, about, []
        if isinstance(features, Cross):
            features.begin(scored=False, keeps="end")
        self.net = ChoiceNet(features.net(), output).eval()

    @classmethod
    def fit(
        cls, train: Examples, dev: Examples | None, encoders: Sequence[Any], options: TaskOptions, run: Run
    ) -> Self:
        own = head_options(cls.method, options, len(train))
        for examples in (train, dev):
            _check_answers(examples)
        train, dev = with_dev(train, dev, options, own)
        about = About(segmentation_of(encoders, train.segmentation), train.facts, run.curve)
        rows: list[Any] = list(train)
        once = [(row[0] if not n else "", text) for row in rows for n, text in enumerate(row[1])]  # to count words
        features = new_features(options.head, once, encoders, about, own)
        model = cls(options, features, output_layer(features.dim, 1, own, own.classifier_units), about)
        fit(ChoiceTask(model, train, dev, own, run.progress), own, run)
        return model

    # ---- answers

    def probabilities(self, rows: Sequence[Any]) -> list[FloatArray]:
        """p(alternative) of each ``(context, alternatives)``, in their order."""
        given = several(rows)
        for number, row in enumerate(given):
            if len(row) < 2 or isinstance(row[1], str) or len(row[1]) < 2:
                raise OptionError(f"row {number} is not a context and two or more alternatives: {row!r:.60}")
        if not given:
            return []
        scores = run_pairs(self.net, self.features.prepare(_pairs(given)), 1)[:, 0]
        bounds = _bounds(given).tolist()
        return [softmax(scores[start:end]) for start, end in itertools.pairwise(bounds)]

    def predict(self, rows: Sequence[Any]) -> list[Chosen]:
        """The likeliest alternative of each ``(context, alternatives)``."""
        found = []
        for row, own in zip(rows, self.probabilities(rows), strict=True):
            best = int(own.argmax())
            found.append(Chosen(best, row[1][best], float(own[best]), own.tolist()))
        return found

    def records(self, rows: Sequence[Any], *, attention: bool = False) -> Iterator[dict[str, Any]]:
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            for row, found in zip(some, self.predict(some), strict=True):
                yield {"context": row[0], "alternatives": list(row[1]), **found._asdict()}

    def rows_to_predict(self, path: str | Path, **reading: Any) -> list[Any]:
        return list(Examples.read(path, kind="choices", unlabelled=True, like=self.about.corpus, **reading))

    def score(self, examples: Examples) -> TaskReport:
        """The share of contexts whose right alternative is the likeliest."""
        rows: list[Any] = list(self.check(examples))
        _check_answers(examples)
        found = np.array([own.argmax() for own in self.probabilities(rows)])
        metric = self.options.metric or PRIMARY["choices"]
        return TaskReport(self.method, str(examples.path), len(rows), metric, _figures(found, examples.targets))

    # ---- on disk

    def parts(self) -> Parts:
        return self.net.parts(self.features)

    @classmethod
    def from_parts(cls, options: TaskOptions, parts: Parts, about: About) -> Self:
        own = head_options(cls.method, options)
        features = features_from(options.head, parts, about, own)
        output = output_layer(features.dim, 1, own, own.classifier_units)
        fill(output, parts, "output.")
        return cls(options, features, output, about)


class ChoiceNet(PairNet):
    """Features of pairs and the layers over them; what is dropped in these is the same for a row's alternatives."""

    output: nn.Sequential

    def forward(self, batch: Any, of_row: Tensor | None = None) -> tuple[Tensor, Tensor | float]:
        """Scores ``(P, 1)``, and what is added to the losses; ``of_row (P,)`` is the number of each pair's row."""
        found, penalty = self.features_of(batch)  # (P, D)
        for layer in self.output:
            if not isinstance(layer, nn.Dropout) or of_row is None:
                found = layer(found)
            elif layer.training:
                n_rows = int(of_row[-1]) + 1
                found = found * layer(found.new_ones(n_rows, found.shape[1]))[of_row]
        return found, penalty


class ChoiceTask(ExampleTask):
    """Contexts with alternatives through a ChoiceNet."""

    def __init__(self, model: ChoiceModel, train: Examples, dev: Examples | None, own: Any, progress: Progress) -> None:
        self.metric = model.options.metric or PRIMARY["choices"]
        check_metric(self.metric, _figures(np.zeros(0), np.zeros(0)))
        self.targets, self.bounds = train.targets, _bounds(list(train))
        self.pairs: PreparedPairs = model.features.prepare(_pairs(list(train)), progress)
        super().__init__(model.net, np.maximum.reduceat(self.pairs.sizes, self.bounds[:-1]), own)
        model.net.measure(self.pairs)
        held: list[Any] = list(dev) if dev is not None else []
        self.dev = model.features.prepare(_pairs(held), progress) if held else None
        self.dev_bounds, self.dev_targets = _bounds(held), dev.targets if dev is not None else np.zeros(0)

    def loss_of(self, rows: Ints) -> Tensor:
        pairs = np.concatenate([np.arange(self.bounds[row], self.bounds[row + 1]) for row in rows.tolist()])
        counts = torch.from_numpy(np.diff(self.bounds)[rows])
        of_row = torch.repeat_interleave(torch.arange(len(rows)), counts).to(self.device)
        scores, penalty = self.module(self.pairs.training_batch(pairs, self.device), of_row)
        targets = torch.from_numpy(np.asarray(self.targets[rows], dtype=np.int64)).to(self.device)
        added: Tensor | float = penalty * (len(rows) / len(pairs))  # the mean of a row's alternatives
        return choice_loss(scores[:, 0], counts.tolist(), targets) + added

    def evaluate(self, module: nn.Module) -> Score | None:
        if self.dev is None:
            return None
        scores = torch.from_numpy(run_pairs(module, self.dev, 1)[:, 0])
        padded = padded_scores(scores, np.diff(self.dev_bounds).tolist()).numpy()
        figures, targets = _figures(padded.argmax(axis=1), self.dev_targets), self.dev_targets.astype(np.int64)
        return held_out_score(figures[self.metric], figures, padded, targets)


def choice_loss(scores: Tensor, counts: list[int], targets: Tensor) -> Tensor:
    """The sum of -log p(right alternative) of rows with so many alternatives each: ``(P,) -> ()``."""
    return F.cross_entropy(padded_scores(scores, counts), targets, reduction="sum")


def padded_scores(scores: Tensor, counts: list[int]) -> Tensor:
    """The scores row by row, those of absent alternatives -∞: ``(P,) -> (B, K)``."""
    return pad_sequence(list(torch.split(scores, counts)), batch_first=True, padding_value=-torch.inf)


def _pairs(rows: Sequence[Any]) -> list[TextPair]:
    """Every context with every one of its alternatives."""
    return [(row[0], alternative) for row in rows for alternative in row[1]]


def _bounds(rows: Sequence[Any]) -> Ints:
    """Where the pairs of each row begin, and where the last one's end."""
    return np.cumsum([0, *(len(row[1]) for row in rows)], dtype=np.int64)


def _figures(found: Any, right: Any) -> Figures:
    return {"accuracy": float(np.mean(found == right)) if len(right) else 0.0}


def _check_answers(examples: Examples | None) -> None:
    if examples is not None and examples.kind == "choices" and not examples.labelled:
        first = int(np.flatnonzero(examples.targets < 0)[0])
        raise OptionError(f"{examples.path} has contexts without an answer (first: row {first}): give their answers")
