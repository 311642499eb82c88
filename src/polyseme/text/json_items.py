"""Iterate over the items of one large JSON array without reading the whole file into memory.

The array is the file itself, ``[…]``, or the entry ``data`` of an object, as in SQuAD: ``{"version": …, "data": […]}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from polyseme.errors import TextError
from polyseme.text.source import LONGEST_RECORD

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
