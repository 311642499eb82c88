"""Words with their counts, most frequent first.

The words of a file with one word per line, looked up lazily: a few lookups do not need a list of all words.

The words of a vocabulary by how they begin. 按开头补全
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Ints
from polyseme.errors import FormatError
from polyseme.text.segment import has_han

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r"})


class Vocabulary:
    """Words by decreasing count, so that ``min_count`` and ``max_size`` always select a prefix.

    The id of a word is its position; every id from ``len(vocabulary)`` on is a word outside the vocabulary.
    """

    def __init__(self, words: list[str], counts: Ints) -> None:
        self.words = words
        self.counts = np.asarray(counts, dtype=np.int64)

    @classmethod
    def from_counts(cls, counts: Mapping[str, int], *, min_count: int = 1, max_size: int | None = None) -> Vocabulary:
        """Sort by decreasing count and, for equal counts, alphabetically: the same counts give the same ids."""
        kept = sorted((-n, word) for word, n in counts.items() if n >= min_count)[:max_size]
        return cls([word for _, word in kept], np.array([-n for n, _ in kept], dtype=np.int64))

    @cached_property
    def index(self) -> dict[str, int]:
        """word → id."""
        return dict(zip(self.words, range(len(self.words)), strict=True))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def cut(self, *, min_count: int = 1, max_size: int | None = None) -> Vocabulary:
        """The words that occur at least ``min_count`` times, at most ``max_size`` of them."""
        size = int(np.searchsorted(-self.counts, -min_count, side="right"))
        size = size if max_size is None else min(size, max_size)
        return Vocabulary(self.words[:size], self.counts[:size])

    def is_chinese(self) -> bool:
        """Whether most tokens of the 5,000 most frequent words (punctuation aside) contain a Chinese character."""
        frequent = list(zip(self.words[:5000], self.counts[:5000].tolist(), strict=True))
        chinese = sum(count for word, count in frequent if has_han(word))
        return bool(2 * chinese > sum(count for word, count in frequent if word.isalpha()))

    def ids(self, tokens: Iterable[str]) -> NDArray[np.int32]:
        """The ids of the tokens; ``len(self)`` for those outside the vocabulary."""
        unknown = len(self.words)
        return np.array([self.index.get(token, unknown) for token in tokens], dtype=np.int32)


def words_to_bytes(words: Iterable[str]) -> bytes:
    """Encode words as UTF-8, one per line; backslashes and the characters that would break a line are escaped."""
    words = list(words)
    lines = "".join([f"{word}\n" for word in words]).encode("utf-8", "surrogateescape")
    if lines.count(b"\n") == len(words):
        return escaped(lines)
    return "".join([f"{word.translate(_ESCAPES)}\n" for word in words]).encode("utf-8", "surrogateescape")


def escaped(lines: bytes) -> bytes:
    """Escape backslashes and carriage returns in words that contain no newline, one per line."""
    return lines.replace(b"\\", b"\\\\").replace(b"\r", b"\\r")


def words_from_bytes(data: bytes, *, where: str) -> list[str]:
    """Decode what ``words_to_bytes`` returned."""
    text = data.decode("utf-8", "surrogateescape")
    if text and not text.endswith("\n"):
        raise FormatError(f"{where} is truncated: its last line has no end")
    lines = text.split("\n")[:-1]
    return [_unescaped(line) if "\\" in line else line for line in lines] if "\\" in text else lines


def _unescaped(line: str) -> str:
    letters = {"n": "\n", "r": "\r", "\\": "\\"}
    pieces = line.split("\\\\")
    return "\\".join(p.replace("\\n", letters["n"]).replace("\\r", letters["r"]) for p in pieces)


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


class Completion:
    """Completes words of a vocabulary; it is sorted at the first question."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self.vocabulary.words)

    def beginning_with(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        """The most frequent words that begin so, with their counts; of all words where the prefix is empty."""
        places, counts = self.vocabulary.index, self.vocabulary.counts
        words = self.vocabulary.words[:limit]
        if prefix:
            start = bisect.bisect_left(self._sorted, prefix)
            stop = bisect.bisect_left(self._sorted, prefix + "\U0010ffff")
            words = heapq.nsmallest(limit, self._sorted[start:stop], key=places.__getitem__)
        return [(word, int(counts[places[word]])) for word in words]
