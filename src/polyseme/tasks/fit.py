"""Fitting a task once, over folds, or with several seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polyseme.contexts.fine_tuning import transformer_of
from polyseme.data.examples import Examples
from polyseme.errors import OptionError
from polyseme.interfaces import SentenceEncoder
from polyseme.learn.metrics import Figures
from polyseme.options import identity_of
from polyseme.store.model import Model
from polyseme.tasks.classify import published_classifier
from polyseme.tasks.model import TaskModel, TaskReport
from polyseme.tasks.options import HELD_OUT, SCORED_HEAD, TaskOptions, usual_head
from polyseme.training.run import Run
from polyseme.words.files.models import PublishedFastText


@dataclass(frozen=True)
class RepeatedFit:
    """A task fitted several times: the name and the scores of each run, and the best model if they were compared."""

    names: list[str]
    reports: list[TaskReport]
    best: TaskModel | None = None

    def to_json(self) -> dict[str, Any]:
        """Mean, standard deviation and the figures of each run."""
        mean, deviation = mean_and_deviation(self.reports)
        return {"mean": mean, "deviation": deviation, "each": [report.figures for report in self.reports]}


@dataclass(frozen=True)
class FitPlan:
    """A task, its examples and encoders, everything opened and checked."""

    task: str
    cls: type[TaskModel]
    options: TaskOptions
    train: Examples
    dev: Examples | None
    encoders: Sequence[Any]
    fingerprints: Sequence[str]  # of the encoders; "" of one that was not opened from files

    def fit(self, run: Run) -> TaskModel:
        """The fitted model."""
        return self.cls.fit(self.train, self.dev, self.encoders, self.options, run)

    def identity(self) -> dict[str, Any]:
        """What a checkpoint depends on."""
        return {
            "method": self.task,
            "options": identity_of(self.options),
            "corpus": self.train.fingerprint,
            "dev": None if self.dev is None else self.dev.fingerprint,
            "encoders": [*self.fingerprints],
        }

    def folds(self, n: int, run: Run, seed: int | None = None) -> Iterator[TaskReport]:
        """``n`` models, each scored on the part of the examples it was not fitted to; other seeds, the same parts."""
        if self.dev is not None:
            raise OptionError("each fold is held out in turn: leave dev out")
        options = self._seeded(self.seed if seed is None else seed)
        for train, test in self.train.folds(n, self.seed):
            yield self.cls.fit(train, None, self.encoders, options, Run(progress=run.progress)).score(test)

    def seeds(self, n: int, run: Run) -> Iterator[tuple[TaskModel, TaskReport]]:
        """``n`` models that differ in their seed, each with its score on the held-out examples, which are the same."""
        train, dev = (self.train, self.dev) if self.dev is not None else self.train.split(self._share(), self.seed)
        for seed in range(self.seed, self.seed + n):
            model = self.cls.fit(train, dev, self.encoders, self._seeded(seed), Run(progress=run.progress))
            yield model, model.score(dev)

    def repeat(self, run: Run, *, folds: int | None = None, seeds: int = 1) -> RepeatedFit:
        """The scores of several seeds, each over all ``folds`` if there are any; without them also the best model."""
        used = range(self.seed, self.seed + seeds)
        if folds:
            labels = [
                f"seed {seed} fold {fold}" if seeds > 1 else f"fold {fold}"
                for seed in used
                for fold in range(1, folds + 1)
            ]
            return RepeatedFit(labels, [report for seed in used for report in self.folds(folds, run, seed)])
        best: TaskModel | None = None
        reports: list[TaskReport] = []
        for model, report in self.seeds(seeds, run):
            if all(report.figures[report.metric] > other.figures[other.metric] for other in reports):
                best = model
            reports.append(report)
        return RepeatedFit([f"seed {seed}" for seed in used], reports, best)

    @property
    def seed(self) -> int:
        """The first seed."""
        return int(getattr(self.options, "seed", 1))

    def _seeded(self, seed: int) -> TaskOptions:
        return dataclasses.replace(self.options, seed=seed)  # type: ignore[call-arg]

    def _share(self) -> float:
        share = HELD_OUT if self.options.held_out is None else self.options.held_out
        if not share:
            raise OptionError("several seeds are compared on held-out examples: give dev, or a share held_out")
        return share


def with_head(task: str, options: TaskOptions, encoders: Sequence[Any], train: Examples) -> TaskOptions:
    """The options with the head that suits the encoders and the examples, where none was given."""
    if options.head != "auto":
        return options
    learns = getattr(options, "encoder_mode", None) == "finetune"
    tuned = learns and len(encoders) == 1 and transformer_of(encoders[0]) is not None
    if tuned and task == "pair" and train.scored and isinstance(encoders[0], SentenceEncoder):
        return dataclasses.replace(options, head=SCORED_HEAD)
    return dataclasses.replace(options, head=usual_head(task, tuned=tuned))


def mean_and_deviation(reports: Sequence[TaskReport]) -> tuple[Figures, Figures]:
    """The mean and (sample) standard deviation of every figure that all reports have."""
    names = [name for name in reports[0].figures if all(name in report.figures for report in reports)]
    values = {name: np.array([report.figures[name] for report in reports]) for name in names}
    spread = {name: float(v.std(ddof=1)) if len(v) > 1 else 0.0 for name, v in values.items()}
    return {name: float(v.mean()) for name, v in values.items()}, spread


def as_task(model: Model, path: str | Path = "the model") -> TaskModel:
    """The model as a task's: itself, or a supervised fastText file's labels."""
    if isinstance(model, TaskModel):
        return model
    if isinstance(model, PublishedFastText) and model.is_classifier:
        return published_classifier(model)
    raise OptionError(f"{path} is a model of {model.method}, which makes no predictions: train one with polyseme fit")
