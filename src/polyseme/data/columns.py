"""Find the columns of a table that contain the texts and the label, by their names or by their content.

Roles: ``text`` and ``label``; for pairs ``first``, ``second``, ``label``; for parallel text ``source``, ``target``.

Read a file with the layout of an earlier one: data to score or predict usually looks like the training data.

A few rows are too little to detect a layout: the first words of three TREC questions may be labels or not. So the
layout of the training file is tried first, and used if the file has the same columns and mostly known labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polyseme.data.conll import Conll, detect_conll, detect_words
from polyseme.data.labels import NO_GOLD, cut_label, number
from polyseme.data.tables import Cells, Lines, Table, detect_table, plain_label
from polyseme.errors import OptionError, TextError, advice, close_matches
from polyseme.text.options import TABLE_FORMATS

ROLES = {
    "texts": ("text", "label"),
    "pairs": ("first", "second", "label"),
    "parallel": ("source", "target"),
}
# Known column names, as ``plain_name`` spells them; the first one that the table has is used.
TEXTS = (
    "text", "sentence", "texta", "content", "review", "comment", "reviewbody", "utterance", "tweet", "query",
    "question", "title", "body", "phrase", "文本", "句子", "内容", "正文", "评论", "标题", "評論", "內容", "標題",
)  # fmt: skip
PAIRS = (
    ("first", "second"), ("sentence1", "sentence2"), ("sentencea", "sentenceb"), ("texta", "textb"), ("text1", "text2"),
    ("premise", "hypothesis"), ("question1", "question2"), ("query1", "query2"), ("#1string", "#2string"), ("s1", "s2"),
    ("question", "sentence"), ("question", "answer"), ("query", "title"), ("sent1", "sent2"), ("句子1", "句子2"),
    ("premise", "hypo"),
)  # fmt: skip
LABELS = (
    "label", "goldlabel", "labels", "class", "category", "score", "similarity", "similarityscore", "relatednessscore",
    "quality", "entailmentjudgment", "isduplicate", "sentiment", "polarity", "intent", "stars", "rating", "gold",
    "target", "labeldesc", "star", "emotion", "标签", "类别", "分数", "得分", "情感", "情感倾向", "相似度", "关系",
    "標籤", "類別", "分數",
)  # fmt: skip
PARALLEL = (("source", "target"), ("src", "tgt"), ("en", "zh"), ("zh", "en"), ("english", "chinese"), ("原文", "译文"))
# Labels that are numbers.
SCORES = ("score", "similarity", "similarityscore", "relatednessscore", "分数", "得分", "相似度", "分數")
_LONGEST_LABEL = 40
_ID = re.compile(r"(?=.*\d)[\w.:/#-]+", re.ASCII)

Choice = Mapping[str, str | int]


@dataclass(frozen=True)
class Columns:
    """The kind of a table and the column index of each role; without ``label`` if the table has no labels."""

    kind: str  # texts | pairs | parallel
    places: dict[str, int]

    def facts(self, table: Table) -> dict[str, Any]:
        """The columns that are used and the names of the others, for ``facts``."""
        used = {role: table.name(place) for role, place in self.places.items()}
        others = [name for place, name in enumerate(table.names) if place not in self.places.values()]
        return {"columns": used, **({"other_columns": others} if others else {})}


def choose(
    table: Table, rows: list[Cells], kind: str | None, wanted: Choice | None, name: str
) -> tuple[Table, Columns]:
    """The requested columns, or else a guess; the returned table has a header if its first row is one."""
    table = _with_header(table, rows, wanted)
    sample = [row for row in rows[table.header :] if len(row) == table.width]
    if wanted:
        return table, _asked(table, kind, wanted, name)
    columns = _by_name(table, kind) if table.names else None
    columns = columns or _by_content(table, sample, kind)
    if columns is None:
        raise TextError(f"{name}: {_shown(table, sample)}: {_advice(kind)}")
    return table, columns


def plain_name(name: str) -> str:
    """A column's name in the spelling of the lists above: ``Sentence_A`` becomes ``sentencea``."""
    return re.sub(r"[\s_.-]", "", name).casefold()


# ---- requested


def _asked(table: Table, kind: str | None, wanted: Choice, name: str) -> Columns:
    for one, roles in ROLES.items():
        if kind in (None, one) and set(wanted) <= set(roles) and set(roles) - {"label"} <= set(wanted):
            return Columns(one, {role: _place(table, wanted[role], name) for role in roles if role in wanted})
    known = "; ".join(f"{one}: {', '.join(roles)}" for one, roles in ROLES.items() if kind in (None, one))
    raise OptionError(f"columns are {known}; not {', '.join(wanted)}")


def _place(table: Table, column: str | int, name: str) -> int:
    if isinstance(column, str) and column in table.names:
        return table.names.index(column)
    try:
        number = int(column)
    except ValueError:
        known = f"its columns are {', '.join(table.names)}" if table.names else "its first row is not a header"
        hint = close_matches(str(column), table.names)
        raise OptionError(f"{name} has no column {column!r}{hint}; {known}") from None
    if not 1 <= number <= table.width:
        raise OptionError(f"{name} has {table.width} columns, numbered from 1; not {number}")
    return number - 1


# ---- the header


def _with_header(table: Table, rows: list[Cells], wanted: Choice | None) -> Table:
    if table.names or not rows or table.format in ("first", "lines"):
        return table
    first = [str(cell).strip() for cell in rows[0]]
    if len(first) != table.width or len(set(first)) < len(first):
        return table
    if wanted and any(not str(column).isdigit() for column in wanted.values()):
        return table.with_header(first) if set(map(str, wanted.values())) & set(first) else table
    known = {*TEXTS, *LABELS, *(name for pair in (*PAIRS, *PARALLEL) for name in pair)}
    if any(plain_name(cell) in known for cell in first) and not any(map(_is_number, first)):
        return table.with_header(first)
    return table.with_header(first) if _names_above_numbers(first, rows[1:]) else table


def _names_above_numbers(first: list[str], rows: list[Cells]) -> bool:
    """Whether there is a column of numbers whose first cell is not a number."""
    rows = [row for row in rows if len(row) == len(first)]
    return len(rows) > 1 and any(
        not _is_number(cell) and all(_is_number(str(row[place])) for row in rows)
        for place, cell in enumerate(first)
        if cell
    )


# ---- by name


def _named_label(table: Table) -> int | None:
    names = [plain_name(name) for name in table.names]
    return next((names.index(name) for name in LABELS if name in names), None)


def _by_name(table: Table, kind: str | None) -> Columns | None:
    names = [plain_name(name) for name in table.names]
    label = _named_label(table)
    marked = {} if label is None else {"label": label}
    pair = next(((names.index(a), names.index(b)) for a, b in PAIRS if a in names and b in names), None)
    if kind in (None, "pairs") and pair:
        return Columns("pairs", {"first": pair[0], "second": pair[1], **marked})
    text = next((names.index(name) for name in TEXTS if name in names), None)
    if kind in (None, "texts") and text is not None and text != label:
        return Columns("texts", {"text": text, **marked})
    both = next(((names.index(a), names.index(b)) for a, b in PARALLEL if a in names and b in names), None)
    if kind in (None, "parallel") and both:
        return Columns("parallel", {"source": both[0], "target": both[1]})
    return None


# ---- by content


def _by_content(table: Table, rows: list[Cells], kind: str | None) -> Columns | None:
    """Guess the one or two texts, and a label that is not named, by what the cells are; None if it is ambiguous."""
    if table.format == "lines":
        return Columns("texts", {"text": 0}) if kind in (None, "texts") else None
    if table.format == "first":
        return Columns("texts", {"text": 1, "label": 0}) if kind in (None, "texts") else None
    if not rows or table.format in ("json", "jsonl"):
        return None
    columns = [[plain_label(row[place]) or "" for row in rows] for place in range(table.width)]
    labels = [place for place, column in enumerate(columns) if _may_be_labels(column)]
    if kind == "texts" and table.width == 2 and not labels:  # many classes among few rows
        short = min((0, 1), key=lambda place: sum(map(len, columns[place])))
        labels = [short] if not any(" " in value for value in columns[short]) else []
    label = _named_label(table)
    if label is None:
        label = max(labels, key=lambda place: (_numeric(columns[place]), place), default=None)
    texts = [p for p, column in enumerate(columns) if p not in (label, *labels) and _may_be_texts(column)]
    marked = {} if label is None else {"label": label}
    if kind == "parallel" and table.width == 2:
        return Columns("parallel", {"source": 0, "target": 1})
    if len(texts) == 2 and kind == "parallel":
        return Columns("parallel", {"source": texts[0], "target": texts[1]})
    if len(texts) == 2 and kind in (None, "pairs"):
        if label is None and kind is None:
            return Columns("parallel", {"source": texts[0], "target": texts[1]})
        return Columns("pairs", {"first": texts[0], "second": texts[1], **marked})
    if len(texts) == 1 and kind in (None, "texts"):
        return Columns("texts", {"text": texts[0], **marked})
    return None


def _may_be_labels(column: list[str]) -> bool:
    """Whether the cells are short, rarely empty, and either few different ones or numbers with fractions (scores)."""
    if sum(map(bool, column)) < 0.9 * len(column) or max(map(len, column)) > _LONGEST_LABEL:
        return False
    if _numeric(column) and any("." in value for value in column):
        return True
    different = len(set(column))
    return different <= max(2, len(column) / 5) and (different < len(column) or _numeric(column))


def _may_be_texts(column: list[str]) -> bool:
    """Whether the cells are rarely empty and not all numbers or identifiers."""
    full = sum(map(bool, column)) > 0.9 * len(column)
    return full and not all(_is_number(value) or _ID.fullmatch(value) for value in column)


def _numeric(column: list[str]) -> bool:
    return sum(map(_is_number, column)) >= 0.9 * len(column)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shown(table: Table, sample: list[Cells]) -> str:
    if table.names:
        return f"no known names among its columns {', '.join(table.names)}"
    row = " | ".join(str(cell)[:20] for cell in sample[0]) if sample else "nothing"
    columns = "1 column" if table.width == 1 else f"{table.width} columns"
    return f"it has {columns} without names, such as {row}"


def _advice(kind: str | None) -> str:
    roles = ROLES.get(kind or "texts", ROLES["texts"])
    python = ", ".join(f"{role!r}: {n}" for n, role in enumerate(roles, 1))
    command = ",".join(f"{role}={n}" for n, role in enumerate(roles, 1))
    return f"name them, as in {advice(command=f'--columns {command}', python=f'columns={{{python}}}')}"


_KNOWN = 0.5  # share of the labels in the first rows that must be known


@dataclass(frozen=True)
class Template:
    """How earlier examples were read."""

    format: str
    columns: Mapping[str, str | int]
    labels: frozenset[str]
    scored: bool
    label_parts: int | None

    @classmethod
    def of(cls, facts: Mapping[str, Any] | None) -> Template | None:
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
        detected = detect_table(lines, None if named or self.format not in TABLE_FORMATS else self.format)
        if detected is None or (detected[0].format == "first" and "\t" in lines.head):
            return None
        for columns in wanted:
            try:
                table, chosen = choose(*detected, kind, columns, lines.name)
            except OptionError:
                continue
            if named or self._knows_labels(detected[1][table.header :], chosen, table.width):
                return table, chosen
        return None

    def conll(self, lines: Lines, *, unlabelled: bool) -> Conll | None:
        """The same columns of tagged sentences or, if ``unlabelled``, a file of words alone."""
        try:
            layout = detect_conll(lines, trusted=True, columns=self.columns)
        except OptionError:
            return None
        if layout is None or layout.tag is None:
            return detect_words(lines) if unlabelled else None
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
