"""Read a file with the layout of an earlier one: data to score or predict usually looks like the training data.

A few rows are too little to detect a layout: the first words of three TREC questions may be labels or not. So the
layout of the training file is tried first, and used if the file has the same columns and mostly known labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polyseme.data.columns import Columns, choose
from polyseme.data.conll import Conll, tell_conll, tell_words
from polyseme.data.labels import NO_GOLD, cut_label, number
from polyseme.data.tables import FORMATS, Cells, Table, plain_label, tell_table
from polyseme.errors import OptionError
from polyseme.text.lines import Lines

_KNOWN = 0.5  # share of the labels in the first rows that must be known


@dataclass(frozen=True)
class Like:
    """How earlier examples were read."""

    format: str
    columns: Mapping[str, str | int]
    labels: frozenset[str]
    scored: bool
    label_parts: int | None

    @classmethod
    def of(cls, facts: Mapping[str, Any] | None) -> Like | None:
        """From the ``facts`` of the earlier examples; None if they do not name the columns."""
        facts = facts or {}
        columns, labels, parts = facts.get("columns"), facts.get("labels"), facts.get("label_parts")
        if not isinstance(columns, dict) or not all(isinstance(column, (str, int)) for column in columns.values()):
            return None
        most = parts if isinstance(parts, int) and parts > 0 else None
        known = frozenset(cut_label(label, most) for label in labels) if isinstance(labels, dict) else frozenset()
        return cls(str(facts.get("format")), columns, known, "scores" in facts, most)

    def table(self, lines: Lines, kind: str | None, *, unlabelled: bool) -> tuple[Table, Columns] | None:
        """The same columns in this file; None if it has others. A file without labels must have the column names."""
        named = all(isinstance(column, str) for column in self.columns.values())
        texts = {role: column for role, column in self.columns.items() if role != "label"}
        wanted = [self.columns, *([texts] if named and unlabelled else [])]
        found = tell_table(lines, None if named or self.format not in FORMATS else self.format)
        if found is None or (found[0].format == "first" and "\t" in lines.head):
            return None
        for columns in wanted:
            try:
                table, chosen = choose(*found, kind, columns, lines.name)
            except OptionError:
                continue
            if named or self._knows_labels(found[1][table.header :], chosen, table.width):
                return table, chosen
        return None

    def conll(self, lines: Lines, *, unlabelled: bool) -> Conll | None:
        """The same columns of tagged sentences or, if ``unlabelled``, a file of words alone."""
        try:
            layout = tell_conll(lines, trusted=True, columns=self.columns)
        except OptionError:
            return None
        if layout is None or layout.tag is None:
            return tell_words(lines) if unlabelled else None
        rows = [row for line in lines.head_lines() if len(row := layout.split(line)) == layout.width]
        return layout if self.knows([row[layout.tag].strip() for row in rows]) else None

    def _knows_labels(self, rows: Sequence[Cells], columns: Columns, width: int) -> bool:
        if "label" not in columns.places:
            return False
        place = columns.places["label"]
        labels = [label for row in rows if len(row) == width and (label := plain_label(row[place]))]
        labels = [label for label in labels if label != NO_GOLD]
        return self.knows([cut_label(label, self.label_parts) for label in labels])

    def knows(self, labels: Sequence[str]) -> bool:
        """Whether most of these are labels of the earlier examples."""
        known = sum(number(label) is not None if self.scored else label in self.labels for label in labels)
        return bool(labels) and known >= _KNOWN * len(labels)
