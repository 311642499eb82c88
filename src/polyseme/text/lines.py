"""The lines of a file that is a table rather than running text, and a record of its bad rows.

Only \\n ends a line: texts may contain other characters that count as line breaks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import chain

from polyseme.errors import TextError, as_given
from polyseme.text.source import LONGEST_RECORD, Reader

log = logging.getLogger(__name__)

HEAD = 1 << 18  # characters that are read to detect the format of a file
TOLD = 10  # bad rows that are listed


class Lines:
    """A source that is read once, in bounded memory: first ``head``, to detect its format, then its text or lines."""

    def __init__(self, reader: Reader) -> None:
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
        self._told: list[str] = []

    def add(self, what: str, rows: int = 1) -> None:
        """Record a fault such as "line 7 has 3 columns instead of 4"; ``rows`` rows have it."""
        self.number += rows
        if len(self._told) < TOLD:
            self._told.append(what)

    def finish(self, good: int) -> None:
        """Raise an error or log what was skipped; does nothing if there are no bad rows."""
        if not self.number:
            return
        more = self.number - len(self._told)
        told = "; ".join([*self._told, *([f"and {more:,} more"] if more > 0 else [])])
        rows = f"{self.number:,} of {self.number + good:,} rows cannot be read: {told}"
        if self.errors != "skip":
            raise TextError(f"{self.name}: {rows}; correct them, or skip them with {as_given('errors', 'skip')}")
        log.warning("%s: skipped: %s", self.name, rows)
