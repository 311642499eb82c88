"""Labelled examples: texts, pairs, tagged sentences, passages with questions, or choices. 标注样本

>>> train = Examples.read("train.tsv")
>>> train.facts["columns"], train.labels, train[0]
({'label': 'label', 'text': 'text_a'}, ['0', '1'], LabelledText(text='房间很干净。', label='1'))

A file is recognised by its content, whatever its name (see tables.py, conll.py, squad.py and
choices.py). Columns are given by name or by number from 1; otherwise they are guessed and shown in
``facts["columns"]``. Texts are kept as they were written, and ``segmentation`` says how they will be segmented into
words.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Ints
from polyseme.data.choices import ChoiceLayout
from polyseme.data.columns import Template
from polyseme.data.detect import KINDS, SAYS, DetectedFile, Request, RowCollector, detect
from polyseme.data.rows import (
    Answer,
    Choice,
    ChoiceRows,
    LabelledRows,
    LabelledText,
    Numbers,
    Pair,
    Passage,
    Row,
    Rows,
    Tagged,
    TaggedRows,
    sorted_labels,
)
from polyseme.data.statistics import (
    facts_of,
    filled_rows,
    fold_of_rows,
    held_out_rows,
    kind_of_row,
    segmentation_for_tokens,
)
from polyseme.errors import OptionError, TextError, advice
from polyseme.text.normalise import check
from polyseme.text.options import Cutting, ReadingExamples, make_reading
from polyseme.text.segment import Segmentation
from polyseme.text.source import Source, find_sources

if TYPE_CHECKING:
    from typing_extensions import Self

log = logging.getLogger(__name__)

__all__ = ["Answer", "Choice", "Examples", "LabelledText", "Pair", "Passage", "Row", "Tagged"]


class Examples(Sequence[Row]):
    """Examples of one kind. ``Examples.read`` reads files, ``Examples.of`` takes rows in memory."""

    def __init__(
        self,
        rows: Rows,
        order: Ints,
        *,
        kind: str,
        path: Path,
        segmentation: Segmentation,
        labels: list[str],
        scored: bool = False,
        source: Mapping[str, Any] | None = None,
    ) -> None:
        self.kind, self.path, self.segmentation = kind, path, segmentation
        self.labels = labels  # sorted names of the classes or tags; [] for scores and spans
        self.scored = scored  # labels are scores
        self._rows, self._order = rows, order
        self._source = dict(source or {})

    @classmethod
    def read(
        cls,
        source: str | Path | Sequence[str | Path],
        *,
        kind: str | None = None,
        unlabelled: bool = False,
        like: Mapping[str, Any] | None = None,
        **reading: Any,
    ) -> Self:
        """Read the examples in a file, a folder or several files; .gz, .bz2 and .xz are decompressed.

        kind         texts, pairs, tags, spans or choices; None detects it
        unlabelled   accept texts and pairs without labels: each gets the label ""; choices without answers: -1
        like         facts of other examples: a file with the same layout is read the same way, however few its rows
        reading      how the files are read, the options of ``ReadingExamples``:

        columns      by name or number from 1: {"text": "sentence", "label": 3}; for pairs first, second and label;
                     for tags token and tag; for choices context, question, alternatives and answer
        format       tsv, csv, bars (||), jsonl, json, first (a label and a space) or lines; None detects it
        scored       whether labels are scores; None: if they have fractions, or pairs have more than three integers
        label_parts  for labels with parts, such as TREC's DESC:manner: keep only this many parts
        encoding     UTF-8, UTF-16, GB18030, Big5 or Windows-1252; None detects it
        errors       strict refuses unreadable input; replace puts � for bad bytes; skip also skips bad rows
        segment      how texts will be segmented into words, with normalise, script, case and words as for a corpus
        """
        if kind is not None:
            check("kind", kind, KINDS)
        how, segmentation = make_reading(ReadingExamples, reading)
        request = Request(kind, how, unlabelled, Template.of(like), like)
        paths = [source] if isinstance(source, (str, Path)) else list(source)
        gathered = _gather(find_sources(paths), request, ", ".join(map(str, paths[:3])))
        if isinstance(gathered.rows, TaggedRows) and reading.get("segment", "auto") == "auto":
            segmentation = segmentation_for_tokens(gathered.rows, segmentation)
        labels = _labels(gathered.rows)
        known: dict[str, Any] = {
            "path": Path(paths[0]), "scored": gathered.labels.scored, "source": gathered.facts()
        }  # fmt: skip
        return cls(gathered.rows, gathered.order, kind=gathered.kind, segmentation=segmentation, labels=labels, **known)

    @classmethod
    def of(
        cls,
        rows: Iterable[Row | Sequence[Any]],
        *,
        kind: str | None = None,
        scored: bool | None = None,
        **cutting: Any,
    ) -> Self:
        """From rows in memory: (text, label), (first, second, label), (tokens, tags), (passage, question, answers).

        Choices are (context, alternatives, number of the right one from 0).
        """
        given = list(rows)
        if kind is not None:
            check("kind", kind, KINDS)
        if not given:
            raise TextError("there are no rows to train on")
        kind = kind or kind_of_row(given[0])
        filled, are_scored = filled_rows(given, kind, scored)
        _, segmentation = make_reading(Cutting, cutting)
        if isinstance(filled, TaggedRows) and cutting.get("segment", "auto") == "auto":
            segmentation = segmentation_for_tokens(filled, segmentation)
        known: dict[str, Any] = {"kind": kind, "path": Path("rows"), "labels": _labels(filled), "scored": are_scored}
        return cls(filled, np.arange(len(filled)), segmentation=segmentation, **known)

    # ---- rows

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, i: int) -> Row:  # type: ignore[override]
        return self._rows.row(int(self._order[i]))

    def __iter__(self) -> Iterator[Row]:
        return (self._rows.row(i) for i in self._order.tolist())

    @cached_property
    def targets(self) -> Numbers:
        """The class of each text or pair as an index into ``labels``, or its score; the right one of each choice."""
        if isinstance(self._rows, ChoiceRows):
            return self._rows.rights[self._order]
        if not isinstance(self._rows, LabelledRows):
            raise OptionError(f"{SAYS[self.kind]} have no label for each row")
        return self._rows.targets[self._order]

    @property
    def labelled(self) -> bool:
        """Whether there are labels to learn; texts, pairs and choices may lack them."""
        if self.kind == "choices":
            return bool((self.targets >= 0).all())
        return self.scored or self.kind == "spans" or bool(self.labels)

    # ---- facts

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the rows in order, their labels and the segmentation; it does not depend on the file."""
        made = [self.kind, self.labels, sorted(self.segmentation.to_json().items()), self._rows.digest(self._order)]
        return hashlib.sha256(repr(made).encode("utf-8", "replace")).hexdigest()

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Number of rows, labels with counts, mean lengths, and how the files were read (format, columns, encoding)."""
        return {"kind": self.kind, "rows": len(self), **facts_of(self._rows, self._order), **self._source}

    # ---- parts

    def subset(self, indices: Iterable[int] | NDArray[Any]) -> Self:
        """These rows, in this order, with the same labels."""
        chosen = np.asarray(indices if isinstance(indices, np.ndarray) else list(indices))
        order = self._order[chosen.astype(np.int64) if chosen.dtype != bool else chosen]
        part = copy(self)
        part._order = order
        for counted in ("targets", "fingerprint", "facts"):
            part.__dict__.pop(counted, None)
        return part

    def split(self, share: float, seed: int = 1) -> tuple[Self, Self]:
        """Split in two, stratified by class; the second part has this share of the rows.

        A class with only one row stays in the first part. All questions about a passage go to the same part.
        """
        if not 0 < share < 1:
            raise OptionError(f"share must be between 0 and 1, not {share}")
        held_out = held_out_rows(self._strata(), self._groups(), share, seed)
        if not held_out.any() or held_out.all():
            raise OptionError(f"{len(self)} rows cannot be split so that one part has {share:g} of them")
        return self.subset(np.flatnonzero(~held_out)), self.subset(np.flatnonzero(held_out))

    def folds(self, n: int, seed: int = 1) -> Iterator[tuple[Self, Self]]:
        """The ``n`` folds of a cross-validation as (training rows, test rows), stratified by class like ``split``."""
        places = fold_of_rows(self._strata(), self._groups(), n, seed)
        for fold in range(n):
            yield self.subset(np.flatnonzero(places != fold)), self.subset(np.flatnonzero(places == fold))

    def _strata(self) -> Ints:
        """Each row's class number; all 0 if there are no classes."""
        classes = isinstance(self._rows, LabelledRows) and not self.scored and bool(self.labels)
        return np.asarray(self.targets if classes else np.zeros(len(self)), dtype=np.int64)

    def _groups(self) -> Ints:
        groups = self._rows.groups()
        return np.arange(len(self)) if groups is None else np.asarray(groups, dtype=np.int64)[self._order]

    def __repr__(self) -> str:
        return f"Examples({str(self.path)!r}: {len(self):,} {SAYS[self.kind]})"


def _labels(rows: Rows) -> list[str]:
    """The sorted names of classes or tags."""
    return sorted_labels(getattr(rows, "names", None) or [])


def _gather(files: list[Source], request: Request, name: str) -> RowCollector:
    """Read every file; files in a folder that contain no examples are skipped with a warning."""
    gathered = RowCollector(name, request)
    aside, reason = [], ""
    for source in files:
        try:
            lines = request.open(source)
            detected = detect(lines, request)
            _check_learnable(detected, lines.name, request)
        except TextError as error:
            if source.named:
                raise
            aside.append(Path(source.name).name)
            reason = str(error)
            continue
        gathered.add(source, lines, detected)
    if not gathered.detected:
        raise TextError(f"there are no labelled examples in {name}: {reason}")
    if aside:
        log.warning("%s: skipped, no examples: %s", name, ", ".join(aside))
    gathered.finish()
    return gathered


def _check_learnable(detected: DetectedFile, name: str, request: Request) -> None:
    if detected.kind not in KINDS:
        raise TextError(
            f"{name} has two texts per row and no label, as {SAYS[detected.kind]} does: {_advice(detected)}"
        )
    if isinstance(detected.layout, tuple) and "label" not in detected.layout[1].places and not request.unlabelled:
        raise TextError(f"{name} has no column of labels: {_advice(detected)}")
    if isinstance(detected.layout, ChoiceLayout) and detected.layout.answer is None and not request.unlabelled:
        raise TextError(f"{name} has choices without answers: they can only be predicted")


def _advice(detected: DetectedFile) -> str:
    table = detected.layout[0] if isinstance(detected.layout, tuple) else None
    known = f"its columns are {', '.join(table.names)}" if table and table.names else "say which column is the label"
    return known + advice(
        command=" (--columns label=…)", python=" (columns={'label': …}), or read it without labels with unlabelled=True"
    )


def texts_of(examples: Examples) -> list[str]:
    """The texts of labelled examples."""
    return [row.text for row in examples]  # type: ignore[union-attr]


def targets_of(examples: Examples, labels: Sequence[str]) -> Ints:
    """For every example, the index of its label in ``labels``; -1 for a label that is not there."""
    place = {label: number for number, label in enumerate(labels)}
    known = np.array([place.get(label, -1) for label in examples.labels], dtype=np.int64)
    return known[np.asarray(examples.targets, dtype=np.int64)]


def tell_odd_labels(train: Examples, dev: Examples | None) -> None:
    """Say which labels have one example only, and which only the held-out examples have."""
    counts = np.bincount(np.asarray(train.targets, dtype=np.int64), minlength=len(train.labels))
    for number in np.flatnonzero(counts == 1).tolist():
        row = int(np.flatnonzero(train.targets == number)[0]) + 1
        log.warning("%s: the label %r has one example (row %d)", train.path, train.labels[number], row)
    if dev is not None:
        tell_unknown_labels(train.labels, dev)


def tell_unknown_labels(known: list[str], examples: Examples) -> None:
    """Say which labels of examples were not there to be learned."""
    unknown = np.flatnonzero(targets_of(examples, known) < 0).tolist()
    for name in dict.fromkeys(examples.labels[int(examples.targets[row])] for row in unknown):
        rows = [row + 1 for row in unknown if examples.labels[int(examples.targets[row])] == name]
        log.warning(
            "%s: the label %r is not in the training examples (%d rows, first row %d): it counts as a miss",
            examples.path, name, len(rows), rows[0],
        )  # fmt: skip
