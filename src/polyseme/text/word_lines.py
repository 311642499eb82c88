"""The words of a file with one word per line, looked up lazily: a few lookups do not need a list of all words."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import FormatError
from polyseme.text.vocabulary import words_from_bytes, words_to_bytes

_READ_SINGLY = 100_000  # words read one by one before the full list is made
_FOUND_SINGLY = 1000  # words searched for one by one before the full table is made


class WordLines:
    """Words by number and numbers by word.

    Listing and numbering hundreds of thousands of words takes 0.2 s, while a typical query needs about a hundred.
    """

    def __init__(self, lines: NDArray[np.uint8], *, where: str) -> None:
        if len(lines) and lines[-1] != ord("\n"):
            raise FormatError(f"{where} is truncated: its last line has no end")
        self._bytes, self._where = lines.tobytes(), where
        self._ends = np.flatnonzero(lines == ord("\n"))
        self._read = 0
        self._found: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._ends)

    @cached_property
    def all(self) -> list[str]:
        """All words; the index is the word's number."""
        return words_from_bytes(self._bytes, where=self._where)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each word."""
        return dict(zip(self.all, range(len(self)), strict=True))

    def take(self, numbers: list[int]) -> list[str]:
        """The words with these numbers."""
        self._read += len(numbers)
        if "all" in self.__dict__ or self._read > _READ_SINGLY:
            return [self.all[number] for number in numbers]
        return [self._line(number) for number in numbers]

    def _line(self, number: int) -> str:
        begin, end = int(self._ends[number - 1]) + 1 if number else 0, int(self._ends[number]) + 1
        return words_from_bytes(self._bytes[begin:end], where=self._where)[0]

    def number(self, word: str) -> int:
        """The number of a word; -1 if it is not in the file."""
        if "numbers" in self.__dict__ or len(self._found) > _FOUND_SINGLY:
            return self.numbers.get(word, -1)
        if word not in self._found:
            self._found[word] = self._search(word)
        return self._found[word]

    def _search(self, word: str) -> int:
        line = words_to_bytes([word])
        if self._bytes.startswith(line):
            return 0
        place = self._bytes.find(b"\n" + line)
        return -1 if place < 0 else int(np.searchsorted(self._ends, place)) + 1
