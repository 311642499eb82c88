"""Read files of labelled examples: detect the format of each by its content, check its rows, and number the labels."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polyseme.arrays import Ints
from polyseme.data.choices import ChoiceLayout, detect_choices, read_choices
from polyseme.data.columns import SCORES, Columns, Template, choose, plain_name
from polyseme.data.conll import Conll, check_detected, detect_conll, read_conll
from polyseme.data.labels import NO_GOLD, Labels, cut_label
from polyseme.data.rows import ChoiceRows, LabelledRows, PassageRows, Rows, TaggedRows
from polyseme.data.squad import SquadReader, is_squad
from polyseme.data.tables import BadRows, Lines, Table, detect_table, plain_label, plain_text, read_rows
from polyseme.errors import TextError, as_given
from polyseme.text.options import ReadingExamples, ReadingParallel
from polyseme.text.source import Source, SourceReader

log = logging.getLogger(__name__)

KINDS = ("texts", "pairs", "tags", "spans", "choices")
SAYS = {
    "texts": "labelled texts",
    "pairs": "pairs of texts",
    "tags": "tagged sentences",
    "spans": "passages with questions",
    "choices": "choices between alternatives",
    "parallel": "parallel text",
}


@dataclass(frozen=True)
class Request:
    """How the files are to be read; a kind of None is detected."""

    kind: str | None  # texts | pairs | tags | spans | choices | parallel
    how: ReadingParallel
    unlabelled: bool = False
    template: Template | None = None  # the layout of earlier examples, which is tried first
    facts: Mapping[str, Any] | None = None  # of those examples

    def open(self, source: Source) -> Lines:
        """The lines of a file; bad bytes are refused or replaced."""
        errors = "strict" if self.how.errors == "strict" else "replace"
        return Lines(SourceReader(source, encoding=self.how.encoding, errors=errors))

    @property
    def table(self) -> ReadingExamples:
        """How labelled examples are read; parallel text has fewer options."""
        how = self.how
        return how if isinstance(how, ReadingExamples) else ReadingExamples(**vars(how))


@dataclass(frozen=True)
class DetectedFile:
    """The detected kind, format and layout of a file."""

    kind: str
    format: str
    layout: tuple[Table, Columns] | Conll | ChoiceLayout | None = None  # None for passages

    def facts(self) -> dict[str, Any]:
        """The format and the columns, for ``facts``."""
        if isinstance(self.layout, (Conll, ChoiceLayout)):
            return {"format": self.format, **self.layout.facts()}
        if self.layout is None:
            return {"format": self.format}
        table, columns = self.layout
        return {"format": self.format, "header": table.header, **columns.facts(table)}


def detect(lines: Lines, request: Request) -> DetectedFile:
    """Detect what the file contains, as far as the request does not say; an error says what is missing."""
    kind, columns, format = request.kind, request.how.columns, request.table.format
    if not lines.head.strip():
        raise TextError(f"{lines.name} is empty")
    if kind == "choices" or (kind is None and (not columns or "alternatives" in columns)):
        trusted = kind is not None or bool(columns)
        choices = detect_choices(lines, format=format, columns=columns, trusted=trusted, like=request.facts)
        if choices is not None:
            return DetectedFile("choices", choices.format, choices)
        if kind == "choices":
            raise TextError(
                f"{lines.name} has no choices between alternatives: JSON, TSV or CSV is expected, with a context or "
                "question, a list of choices or columns with numbers (choice1, choice2 …), and an answer"
            )
    if kind == "spans" or (kind is None and not columns and is_squad(lines)):
        if not is_squad(lines):
            raise TextError(f"{lines.name} has no passages with questions: SQuAD's JSON is expected")
        return DetectedFile("spans", "squad")
    if (
        request.template
        and not columns
        and format is None
        and (detected := _detected_before(lines, request, request.template))
    ):
        return detected
    if kind == "tags" or (kind is None and columns and {"token", "tag"} & set(columns)):
        return DetectedFile(
            "tags", "conll", check_detected(detect_conll(lines, trusted=True, columns=columns), lines.name)
        )
    if kind is None and not columns and format is None and (layout := detect_conll(lines, trusted=False)):
        return DetectedFile("tags", "conll", layout)
    if format is None and not columns and kind in (None, "texts") and request.unlabelled and _is_plain(lines, request):
        format = "lines"
    detected_table = detect_table(lines, format)
    if detected_table is None:
        raise TextError(
            f"{lines.name} is not a table of labelled texts: columns with tabs, commas or ||, JSON lines, or a label "
            f"first (where it is one, say which: {as_given('format', 'first')})"
        )
    table, chosen = choose(*detected_table, kind, columns, lines.name)
    return DetectedFile(chosen.kind, table.format, (table, chosen))


def _is_plain(lines: Lines, request: Request) -> bool:
    """Whether a file without known columns has a text per line: commas in prose and numbers at the start mislead."""
    detected_table = detect_table(lines)
    if detected_table is None:
        return True
    table, rows = detected_table
    if table.format == "first":
        has_labels = any(row[0].startswith("__label__") for row in rows)
        return request.template is not None and not has_labels and not request.template.knows([row[0] for row in rows])
    if table.format != "csv":
        return False
    try:
        table, _ = choose(table, rows, request.kind, None, lines.name)
    except TextError:
        return True
    return not table.header and all(cell.startswith(" ") for row in rows for cell in row[1:])


def _detected_before(lines: Lines, request: Request, template: Template) -> DetectedFile | None:
    """Describe the file by the layout of earlier examples; None if it does not have that layout."""
    if template.format == "conll":
        layout = template.conll(lines, unlabelled=request.unlabelled) if request.kind in (None, "tags") else None
        return DetectedFile("tags", "conll", layout) if layout else None
    detected = template.table(lines, request.kind, unlabelled=request.unlabelled)
    return DetectedFile(detected[1].kind, detected[0].format, detected) if detected else None


class RowCollector:
    """The rows of several files of one kind."""

    def __init__(self, source: str, request: Request) -> None:
        self.detected: dict[str, DetectedFile] = {}  # by file
        self.encodings: dict[str, None] = {}
        self.moved = 0  # answers that were not at the given offset
        self.unanswered = 0  # questions without a field for answers
        self.labels = Labels()
        self.rows: Rows = LabelledRows("texts")
        self.order: Ints = np.zeros(0, dtype=np.int64)
        self._how, self._unlabelled = request.table, request.unlabelled
        self._scored = request.template.scored if request.template and self._how.scored is None else self._how.scored
        self._bad = BadRows(source, self._how.errors)

    @property
    def kind(self) -> str:
        """The kind of examples, which is the same for all files."""
        return next(iter(self.detected.values())).kind

    def add(self, source: Source, lines: Lines, detected: DetectedFile) -> None:
        """Read the next file."""
        if not self.detected:
            self.rows = empty_rows(detected.kind)
        elif detected.kind != self.kind:
            raise TextError(
                f"{next(iter(self.detected))} holds {SAYS[self.kind]} and {source.title} {SAYS[detected.kind]}: "
                "name the files that belong together, or say which kind"
            )
        self.detected[source.title] = detected
        where = "line" if source.named else f"{Path(source.name).name} line"
        if isinstance(self.rows, LabelledRows):
            self._add_labelled(self.rows, lines, detected, where)
        elif isinstance(self.rows, TaggedRows):
            self._add_tagged(self.rows, lines, detected, where)
        elif isinstance(self.rows, PassageRows):
            self._add_passages(self.rows, lines, where)
        elif isinstance(self.rows, ChoiceRows):
            self._add_choices(self.rows, lines, detected, where)
        self.encodings.setdefault(lines.encoding)

    def _add_labelled(self, rows: LabelledRows, lines: Lines, detected: DetectedFile, where: str) -> None:
        assert isinstance(detected.layout, tuple)
        table, columns = detected.layout
        places = [place for role, place in columns.places.items() if role != "label"]
        label_place = columns.places.get("label")
        for line, cells, wrong in read_rows(lines, table):
            texts = [plain_text(cells[place]) for place in places] if cells else []
            label = "" if label_place is None or not cells else self._label(cells[label_place])
            if None in texts:
                wrong = "has no text"
            elif label_place is not None and not label:
                wrong = wrong or "has no label"
            if wrong:
                self._bad.add(f"{where} {line:,} {wrong}")
            else:
                rows.append([text or "" for text in texts])
                self.labels.add(label, f"{where} {line:,}")

    def _label(self, cell: Any) -> str:
        label = NO_GOLD if cell is None else plain_label(cell) or ""
        return cut_label(label, self._how.label_parts)

    def _add_tagged(self, rows: TaggedRows, lines: Lines, detected: DetectedFile, where: str) -> None:
        assert isinstance(detected.layout, Conll)
        for line, tokens, tags, wrong in read_conll(lines, detected.layout):
            if wrong:
                self._bad.add(f"{where} {line:,} {wrong}")
            else:
                rows.append(tokens, tags)

    def _add_passages(self, rows: PassageRows, lines: Lines, where: str) -> None:
        reader = SquadReader()
        for line, passage, wrong in reader.read(lines):
            if passage is None:
                self._bad.add(f"{where} {line:,} {wrong}")
            else:
                rows.append(passage)
        self.moved += reader.moved
        self.unanswered += reader.unanswered

    def _add_choices(self, rows: ChoiceRows, lines: Lines, detected: DetectedFile, where: str) -> None:
        assert isinstance(detected.layout, ChoiceLayout)
        for line, question, wrong in read_choices(lines, detected.layout, unlabelled=self._unlabelled):
            if question is None:
                self._bad.add(f"{where} {line:,} {wrong}")
            else:
                rows.append(*question)

    def finish(self) -> None:
        """Decide whether labels are classes or scores; refuse the rows that cannot be read, or skip them."""
        keep = np.ones(len(self.rows), dtype=bool)
        if isinstance(self.rows, LabelledRows):
            called = any(plain_name(str(name)) in SCORES for name in self._label_columns())
            keep = self.labels.finish(self.rows, self._bad, scored=self._scored, called_score=called)
        self.order = np.flatnonzero(keep)
        self._bad.finish(len(self.order))
        if not len(self.order):
            raise TextError(f"{self._bad.name} has no row to train on")
        if self.unanswered == len(self.order) and not self._unlabelled:
            raise TextError(f"{self._bad.name} has questions without answers: they can only be predicted")
        if self.labels.missing:
            log.warning("%s: %s rows without a gold label are skipped", self._bad.name, f"{self.labels.missing:,}")
        if self.moved:
            log.warning("%s: %s answers are not at the offsets given in the file", self._bad.name, f"{self.moved:,}")

    def _label_columns(self) -> list[str | int]:
        layouts = [detected.layout for detected in self.detected.values() if isinstance(detected.layout, tuple)]
        return [table.name(columns.places["label"]) for table, columns in layouts if "label" in columns.places]

    def facts(self) -> dict[str, Any]:
        """Facts about the files: format, columns, encoding, and how many rows were skipped."""
        facts: dict[str, Any] = next(iter(self.detected.values())).facts()
        if len(self.detected) > 1:
            facts["files"] = len(self.detected)
        facts["encoding"] = ", ".join(self.encodings)
        if self._how.label_parts:
            facts["label_parts"] = self._how.label_parts
        counts = {
            "without_gold_label": self.labels.missing,
            "unreadable": self._bad.number,
            "moved_answers": self.moved,
        }
        return {**facts, **{name: count for name, count in counts.items() if count}}


def empty_rows(kind: str) -> Rows:
    """An empty container for rows of this kind."""
    made: dict[str, type[Rows]] = {"tags": TaggedRows, "spans": PassageRows, "choices": ChoiceRows}
    return made[kind]() if kind in made else LabelledRows(kind)
