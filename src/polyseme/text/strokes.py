"""The strokes of Chinese characters in five classes. 笔画

    1 横 提    2 竖 竖钩    3 撇    4 捺 点    5 折

The built-in table has 6,939 characters, which cover 99.95 % of running simplified text; its header names its source
and licence. A table of your own has one line per character: the character, a space, its strokes as digits from 1 to 5.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from polyseme.errors import FormatError
from polyseme.text.writing_systems import has_han

TABLE = Path(__file__).with_name("strokes.txt")
_LINE = re.compile(r"(\S)[ \t]+([1-5]+)")


class Strokes:
    """A table from characters to their strokes, written as digits."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self.table = dict(table)
        # Stroke n becomes the control character chr(n), so it cannot be mistaken for a character of the text.
        self._units = str.maketrans({c: "".join(chr(int(d)) for d in digits) for c, digits in self.table.items()})

    @classmethod
    def read(cls, path: str | Path | None = None) -> Strokes:
        """Read the table from a file; without a path, the built-in table."""
        path = Path(path or TABLE)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(f"the table of strokes {path} cannot be read: {error}") from None
        return cls.of_lines(text.splitlines(), where=str(path))

    @classmethod
    def of_lines(cls, lines: Iterable[str], where: str) -> Strokes:
        """Parse the lines of a table; empty lines and those that begin with # are skipped."""
        table = {}
        for number, line in enumerate(lines, 1):
            if line.strip() and not line.startswith("#"):
                found = _LINE.fullmatch(line.strip())
                if found is None:
                    raise FormatError(f"{where} line {number}: {line[:40]!r} is not a character and digits from 1 to 5")
                table[found[1]] = found[2]
        if not table:
            raise FormatError(f"{where} has no characters")
        return cls(table)

    def lines(self) -> list[str]:
        """The table as lines that ``of_lines`` can read."""
        return [f"{character} {digits}" for character, digits in self.table.items()]

    def digits(self, word: str) -> str:
        """The strokes of a word's characters, concatenated; a character that is not in the table stays as it is."""
        return "".join(self.table.get(character, character) for character in word)

    def units(self, word: str) -> str:
        """Like ``digits``, but with one control character per stroke; n-grams are taken from this string."""
        return word.translate(self._units)

    def missing(self, words: Iterable[str]) -> dict[str, None]:
        """The Chinese characters in these words that the table lacks, in order of first appearance."""
        return {c: None for word in words for c in word if has_han(c) and c not in self.table}
