"""Models side by side on the same files: one row for each model, one column for each file (比较)."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polyseme import catalog
from polyseme.api import class_of, load, options_of, recognise, train
from polyseme.errors import MissingExtra, OptionError, PolysemeError
from polyseme.evaluate.kinds import evaluate_file, recognise_kind
from polyseme.evaluate.report import EvaluationSettings, Report
from polyseme.interfaces import Progress, silent
from polyseme.text.corpus import Corpus, is_corpus

log = logging.getLogger(__name__)

# The figure of a report that is compared: the first of these that it has a value of.
FIGURES = ("spearman", "accuracy", "auc", "f1", "recall", "bleu", "perplexity", "forward")


@dataclass
class Entry:
    """A model's row: what it is, what its training cost where that happened here, and what each file says."""

    name: str
    method: str
    dim: int | None
    cpu_seconds: float | None = None
    reports: dict[str, Report] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def value(self, file: str) -> float | None:
        """What the model reaches on a file; None if it could not be asked."""
        report = self.reports.get(file)
        return None if report is None else report.whole.get(figure_of(report))

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "name": self.name,
            "method": self.method,
            "dim": self.dim,
            "cpu_seconds": self.cpu_seconds,
            "files": {file: report.to_json() for file, report in self.reports.items()},
            "failures": self.failures,
        }


@dataclass
class Comparison:
    """All rows, and the files in the order they were given."""

    entries: list[Entry]
    files: list[str]

    def to_json(self) -> list[dict[str, Any]]:
        """For programs: one record for each model."""
        return [entry.to_json() for entry in self.entries]

    def figures(self) -> dict[str, list[float | None]]:
        """What each model reaches, by the heading of the file."""
        return {self.heading(file): [entry.value(file) for entry in self.entries] for file in self.files}

    def heading(self, file: str) -> str:
        """A file with the name of its figure."""
        names = {figure_of(e.reports[file]) for e in self.entries if file in e.reports}
        return f"{Path(file).name} {'/'.join(sorted(names))}".strip()

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Header and rows; what training cost is there if anything was trained."""
        trained = any(entry.cpu_seconds is not None for entry in self.entries)
        header = ["model", "dim", *(["CPU s"] if trained else []), *map(self.heading, self.files)]
        rows = []
        for entry in self.entries:
            cost = [None if entry.cpu_seconds is None else round(entry.cpu_seconds)] if trained else []
            rows.append([entry.name, entry.dim, *cost, *map(entry.value, self.files)])
        return header, rows

    def warnings(self) -> Iterator[str]:
        """What keeps the figures from being on the same ground, or from being there."""
        for file in self.files:
            asked = {e.name: e.reports[file].whole.get("used") for e in self.entries if file in e.reports}
            if len(set(asked.values())) > 1:
                counts = ", ".join(f"{name} {used}" for name, used in asked.items())
                yield f"{Path(file).name}: models were scored on different numbers of items, those they know ({counts})"
        for entry in self.entries:
            for failure in dict.fromkeys(entry.failures.values()):
                yield f"{entry.name}: {failure}"


def compare(
    models: Mapping[str, Any], files: Iterable[str | Path], settings: EvaluationSettings | None = None
) -> Comparison:
    """What each model, by name, reaches on each file."""
    paths = [str(file) for file in files]
    return Comparison([examine(name, model, paths, settings) for name, model in models.items()], paths)


def compare_paths(
    paths: Sequence[str],
    files: Sequence[str],
    *,
    methods: Sequence[str] | None = None,
    minutes: float | None = None,
    progress: Progress = silent,
) -> Comparison:
    """The models at ``paths`` on the same files; on a text or corpus among them, ``methods`` are trained first.

    ``methods`` are by default all that give word vectors; ``minutes`` is for those that are trained by time.
    """
    for name in methods or ():
        catalog.find(name)
    for file in files:  # a wrong name among them is reported before any work
        recognise_kind(file)
    entries: list[Entry] = []
    for path in paths:
        if not _is_text(path):
            entries.append(examine(path, load(path), files))
            continue
        if methods is None:
            methods = _word_methods()
        corpus = Corpus.open(path) if is_corpus(path) else Corpus.build(path, progress=progress)
        for name, model, seconds in train_methods(corpus, methods, minutes=minutes, progress=progress):
            entry = examine(name if len(paths) == 1 else f"{path} {name}", model, files)
            entry.cpu_seconds = seconds
            entries.append(entry)
    return Comparison(entries, list(files))


def _word_methods() -> list[str]:
    """The methods that give word vectors, but for those that need what is not installed."""
    names = []
    for row in catalog.METHODS:
        if row.kind == "words":
            try:
                class_of(row.name)
            except MissingExtra as error:
                log.warning("left out: %s", error)
            else:
                names.append(row.name)
    return names


def _is_text(path: str) -> bool:
    """Whether methods should be trained on this path: a corpus, raw text, or a folder of text."""
    return is_corpus(path) or recognise(path) in ("text", "folder", "empty")


def examine(name: str, model: Any, files: Sequence[str], settings: EvaluationSettings | None = None) -> Entry:
    """One model on all files. A file that it cannot be scored on is noted, and does not stop the others."""
    dim = getattr(model, "vector_size", None) or getattr(model, "dim", None)
    entry = Entry(name, getattr(model, "method", "") or type(model).__name__, dim)
    for file in files:
        with noted(entry.failures, file):
            entry.reports[file] = evaluate_file(model, file, settings)
    return entry


@contextmanager
def noted(failures: dict[str, str], about: str) -> Iterator[None]:
    """Keep an error as a note instead of raising it."""
    try:
        yield
    except PolysemeError as error:
        failures[about] = str(error)


def train_methods(
    corpus: Corpus, methods: Sequence[str], *, minutes: float | None = None, progress: Progress = silent
) -> Iterator[tuple[str, Any, float]]:
    """Each method trained on the text by its defaults: name, model, CPU seconds. ``minutes`` is for those that ask."""
    for method in methods:
        if "corpus" not in catalog.find(method).learns_from:
            wanted = " and ".join(catalog.find(method).learns_from)
            raise OptionError(f"{method} is not trained on plain text but on {wanted}: train it first, then compare it")
        class_of(method)  # what it needs is missed before the others are trained
    for method in methods:
        known = {option.name for option in dataclasses.fields(options_of(method))}
        options: dict[str, Any] = {"minutes": minutes} if minutes is not None and "minutes" in known else {}
        begun = _cpu_seconds()
        model = train(method, corpus, progress=progress, **options)
        yield method, model, _cpu_seconds() - begun


def figure_of(report: Report) -> str:
    """The name of the figure that is compared; one without a value only if there is no other."""
    named = [name for name in FIGURES if name in report.whole]
    return next((name for name in named if report.whole[name] is not None), named[0] if named else "")


def _cpu_seconds() -> float:
    return sum(os.times()[:4])  # of this process and of those that it waited for
