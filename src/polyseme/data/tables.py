"""Tables of labelled text: detect the format of a file and read its rows. 表格

| format   | a row is |
|----------|----------|
| `tsv`    | columns separated by tabs; quotes have no special meaning |
| `csv`    | columns separated by commas, quoted if they contain one |
| `bars`   | columns separated by `||` |
| `jsonl`  | a JSON object; its fields are the columns |
| `json`   | an object in one JSON array |
| `first`  | a label, a space, and the text: TREC, SST, fastText's `__label__` |
| `lines`  | a text |

Columns are identified by their names, if the first row is a header, or by their numbers from 1.

The lines of a file that is a table rather than running text, and a record of its bad rows.

Only \n ends a line: texts may contain other characters that count as line breaks.

Iterate over the items of one large JSON array without reading the whole file into memory.

The array is the file itself, ``[…]``, or the entry ``data`` of an object, as in SQuAD: ``{"version": …, "data": […]}``.
"""

from __future__ import annotations

import csv
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from polyseme.errors import TextError, as_given
from polyseme.text.source import LONGEST_RECORD, SourceReader
from polyseme.text.strings import well_formed

log = logging.getLogger(__name__)

HEAD = 1 << 18  # characters that are read to detect the format of a file
TOLD = 10  # bad rows that are listed


class Lines:
    """A source that is read once, in bounded memory: first ``head``, to detect its format, then its text or lines."""

    def __init__(self, reader: SourceReader) -> None:
        self.name = reader.name
        self._reader = reader
        self._rest = reader.chunks()
        self.head = ""
        for chunk in self._rest:
            self.head += chunk
            if len(self.head) >= HEAD:
                break

    @property
    def encoding(self) -> str:
        """The encoding as given or detected; UTF-8 for a file of plain ASCII."""
        return self._reader.encoding or "utf-8"

    def head_lines(self, most: int = 1000) -> list[str]:
        """The first lines of ``head``, without a last line that may be incomplete."""
        lines = self.head.split("\n", most)[:most]
        if len(self.head) >= HEAD and len(lines) < most and len(lines) > 1:
            lines.pop()
        return [line.removesuffix("\r") for line in lines]

    def chunks(self) -> Iterator[str]:
        """The whole text, piece by piece."""
        return chain([self.head], self._rest)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Every line with its number, from 1; without the newline."""
        number, begun = 0, ""
        for chunk in self.chunks():
            *lines, begun = (begun + chunk).split("\n")
            for line in lines:
                number += 1
                yield number, line.removesuffix("\r")
            if len(begun) > LONGEST_RECORD:
                raise TextError(f"{self.name}: line {number + 1:,} is too long for a row")
        if begun:
            yield number + 1, begun.removesuffix("\r")


class BadRows:
    """Collects rows that cannot be read, to refuse them in one error that lists the first ten, or to skip them."""

    def __init__(self, name: str, errors: str) -> None:
        self.name, self.errors = name, errors
        self.number = 0
        self._listed: list[str] = []

    def add(self, what: str, rows: int = 1) -> None:
        """Record a fault such as "line 7 has 3 columns instead of 4"; ``rows`` rows have it."""
        self.number += rows
        if len(self._listed) < TOLD:
            self._listed.append(what)

    def finish(self, good: int) -> None:
        """Raise an error or log what was skipped; does nothing if there are no bad rows."""
        if not self.number:
            return
        more = self.number - len(self._listed)
        listed = "; ".join([*self._listed, *([f"and {more:,} more"] if more > 0 else [])])
        rows = f"{self.number:,} of {self.number + good:,} rows cannot be read: {listed}"
        if self.errors != "skip":
            raise TextError(f"{self.name}: {rows}; correct them, or skip them with {as_given('errors', 'skip')}")
        log.warning("%s: skipped: %s", self.name, rows)


_BLANK = re.compile(r"[ \t\r\n]*")


def items(chunks: Iterable[str], name: str) -> Iterator[tuple[int, Any]]:
    """Every item with the number of the line that it begins in."""
    text = _Text(chunks, name)
    if text.peek() == "{":
        text.expect("{")
        while text.value()[1] != "data":
            text.expect(":")
            text.value()
            if text.peek() != ",":
                raise text.error("has no array called 'data'")
            text.expect(",")
        text.expect(":")
    text.expect("[")
    while text.peek() != "]":
        yield text.value()
        if text.peek() == ",":
            text.expect(",")
        elif text.peek() != "]":
            raise text.error("is not JSON: expected a comma or ] in an array")


class _Text:
    def __init__(self, chunks: Iterable[str], name: str) -> None:
        self.chunks, self.name = iter(chunks), name
        self.text, self.place, self.line = "", 0, 1
        self.decode = json.JSONDecoder().raw_decode

    def error(self, what: str) -> TextError:
        return TextError(f"{self.name}: line {self.line:,} {what}")

    def more(self) -> bool:
        """Read more text and drop what was used; False at the end of the file.

        It doubles the unused text, so that a long item is not parsed too often.
        """
        pieces = [self.text[self.place :]]
        wanted = len(pieces[0])
        self.place = 0
        for chunk in self.chunks:
            pieces.append(chunk)
            wanted -= len(chunk)
            if wanted <= 0:
                break
        self.text = "".join(pieces)
        return len(pieces) > 1

    def move(self, place: int) -> None:
        self.line += self.text.count("\n", self.place, place)
        self.place = place

    def peek(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            blank = _BLANK.match(self.text, self.place)
            self.move(blank.end() if blank else self.place)
            if self.place < len(self.text) or not self.more():
                return self.text[self.place : self.place + 1]

    def expect(self, character: str) -> None:
        if self.peek() != character:
            raise self.error(f"is not JSON: {character} is missing")
        self.move(self.place + 1)

    def value(self) -> tuple[int, Any]:
        """The line and the next value. A number may continue in the next chunk, so one more character must follow."""
        self.peek()
        while True:
            try:
                value, end = self.decode(self.text, self.place)
                if end < len(self.text):
                    break
                if not self.more():
                    end = len(self.text)  # which now begins with the value
                    break
            except RecursionError:
                raise self.error("is JSON nested too deeply") from None
            except ValueError as error:
                if len(self.text) - self.place > LONGEST_RECORD or not self.more():
                    self.move(min(getattr(error, "pos", self.place), len(self.text)))
                    raise self.error(f"is not JSON: {getattr(error, 'msg', error)}") from None
        line = self.line
        self.move(end)
        return line, value


DELIMITERS = {"tsv": "\t", "csv": ",", "bars": "||"}
LABEL = re.compile(r"__label__\S+|[+-]?\d{1,3}|[A-Z][A-Za-z_]*:[A-Za-z_]+")  # a label in the format `first`
_FIRST = re.compile(r"\s*(\S+)\s+(.*\S)\s*")
_SAME = 0.75  # share of the rows that must have the usual number of columns
_STS_BENCHMARK = 7  # columns of its original files, in which some rows have licences after the two sentences

Cells = list[Any]


@dataclass(frozen=True)
class Table:
    """How the rows of a file are read."""

    format: str
    width: int  # number of columns; for JSON, of the fields in the first rows
    names: tuple[str, ...] = ()  # of the columns; () if there is no header
    header: bool = False  # the first row contains the names

    def name(self, place: int) -> str | int:
        """A column's name or, without a header, its number from 1."""
        return self.names[place] if self.names else place + 1

    def admits(self, columns: int) -> bool:
        """Whether a row may have this many columns."""
        spare = self.format == "tsv" and not self.names and self.width == _STS_BENCHMARK
        return columns == self.width or (spare and columns > self.width)

    def with_header(self, row: Cells) -> Table:
        """The same table with its first row as the header."""
        return replace(self, names=tuple(cell.strip() for cell in row), header=True)


def detect_table(lines: Lines, format: str | None = None) -> tuple[Table, list[Cells]] | None:
    """Detect a file's table layout and return it with the first rows; None if the file is not a table.

    A given ``format`` is trusted.
    """
    head = lines.head_lines()
    if format is None:
        format = next(
            (name for name in ("json", "jsonl", "tsv", "bars", "first", "csv") if _fits(name, head, lines)), None
        )
        if format is None:
            return None
    if format in ("jsonl", "json"):
        records = [row for row in json_sample(format, head, lines) if isinstance(row, dict)]
        names = tuple(dict.fromkeys(name for record in records for name in record))
        return Table(format, len(names), names), [[record.get(name) for name in names] for record in records]
    rows = [row for _, row, _ in _rows_of(format, enumerate(head, 1), lines.name) if row is not None]
    return Table(format, _usual_width(rows)), rows


def read_rows(lines: Lines, table: Table) -> Iterator[tuple[int, Cells, str]]:
    """Every row as (line, cells, ""), or (line, [], fault) with a fault such as "has 3 columns instead of 4"."""
    if table.format in ("jsonl", "json"):
        for number, value, fault in json_values(lines, table.format):
            record, wrong = ({}, fault) if fault else _object(value)
            yield number, [] if wrong else [record.get(name) for name in table.names], wrong
        return
    skip = table.header
    for number, row, wrong in _rows_of(table.format, lines, lines.name):
        if skip:
            skip = False
        elif row is None:
            yield number, [], wrong
        elif table.admits(len(row)):
            yield number, row[: table.width], ""
        else:
            columns = "1 column" if len(row) == 1 else f"{len(row)} columns"
            yield number, [], f"has {columns} instead of {table.width}"


def _rows_of(format: str, lines: Iterable[tuple[int, str]], name: str) -> Iterator[tuple[int, Cells | None, str]]:
    if format == "csv":
        yield from _csv_rows(lines)
        return
    for number, line in lines:
        if not line.strip():
            continue
        if format == "first":
            parts = _FIRST.fullmatch(line)
            yield number, list(parts.groups()) if parts else None, "has a label without a text"
        elif format == "lines":
            yield number, [line], ""
        else:
            yield number, line.split(DELIMITERS[format]), ""


def _csv_rows(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Cells | None, str]]:
    """Read CSV; a quoted cell may span several lines. An unclosed quote is an error once its cell is too long."""
    reader = csv.reader((line + "\n" for _, line in lines), strict=True)
    while True:
        number = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield number, None, f"is not CSV: {error}"
        else:
            if any(cell.strip() for cell in row):
                yield number, row, ""


def json_values(lines: Lines, format: str) -> Iterator[tuple[int, Any, str]]:
    """Every JSON value as (line, value, ""), or (line, None, fault)."""
    if format == "json":
        for number, item in items(lines.chunks(), lines.name):
            yield number, item, ""
        return
    for number, line in lines:
        if not line.strip():
            continue
        try:
            yield number, json.loads(line), ""
        except (ValueError, RecursionError) as error:
            yield number, None, f"is not JSON: {getattr(error, 'msg', error)}"


def _object(item: Any) -> tuple[dict[str, Any], str]:
    return (item, "") if isinstance(item, dict) else ({}, f"is not a JSON object: {json.dumps(item)[:30]}")


def json_sample(format: str, head: list[str], lines: Lines) -> Iterator[Any]:
    """The first JSON values of a file."""
    if format == "json":
        try:
            for _, item in items([lines.head], lines.name):
                yield item
        except TextError:  # the head ends within an item; real faults are reported when the file is read
            pass
        return
    yield from (record for line in head if (record := _parsed(line)) is not None)


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


# ---- telling


def _fits(format: str, head: list[str], lines: Lines) -> bool:
    full = [line for line in head if line.strip()]
    if not full:
        return False
    start = lines.head.lstrip()[:1]
    if format == "json":
        return start == "[" and next(json_sample("json", head, lines), None).__class__ is dict
    if format == "jsonl":
        records = list(json_sample("jsonl", full, lines))
        return start == "{" and sum(isinstance(item, dict) for item in records) >= _SAME * len(full)
    if start in ("{", "[") and format == "csv":
        return False
    if format == "first":
        return _labels_stand_first(full)
    if DELIMITERS[format] not in lines.head:
        return False
    rows = [row for _, row, _ in _rows_of(format, enumerate(full, 1), lines.name)]
    width = _usual_width([row for row in rows if row])
    return width > 1 and sum(row is not None and len(row) == width for row in rows) >= _SAME * len(rows)


def _usual_width(rows: list[Cells]) -> int:
    widths = Counter(map(len, rows))
    return widths.most_common(1)[0][0] if widths else 1


def _labels_stand_first(lines: list[str]) -> bool:
    """Whether the first words of the lines look like labels: few different ones, repeated often."""
    rows = [parts.groups() for parts in map(_FIRST.fullmatch, lines) if parts]
    labels = Counter(label for label, _ in rows)
    if len(rows) < _SAME * len(lines) or any("\t" in line for line in lines[:100]):
        return False
    looks = sum(count for label, count in labels.items() if LABEL.fullmatch(label))
    most = len(rows) / (5 if any(label.isdigit() for label in labels) else 2)  # numbers may be verse numbers
    return looks >= _SAME * len(rows) and len(labels) <= max(2, most)


def plain_text(cell: Any) -> str | None:
    """A cell as text; None if it is not a string (a JSON null, number, list or object)."""
    if isinstance(cell, str):
        return well_formed(cell.replace("\0", "\ufffd"))
    return None


def plain_label(cell: Any) -> str | None:
    """A cell as a label, without fastText's prefix; None if it cannot be one (a JSON null, list or object)."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, (int, float)):
        return repr(cell)
    text = plain_text(cell)
    return None if text is None else text.strip().removeprefix("__label__")
