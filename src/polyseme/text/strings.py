"""Strings that can be written as UTF-8, and many of them in little memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence


def well_formed(text: str) -> str:
    """The text with lone surrogates, which are not characters, replaced by U+FFFD; two that form a pair are joined."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class Strings(Sequence[str]):
    """A list of strings that can only grow: one block of UTF-8 and the end of each, not 49 bytes more for each."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ends = array("q")

    def append(self, text: str) -> None:
        """Add a string, well-formed."""
        self._bytes += well_formed(text).encode()
        self._ends.append(len(self._bytes))

    def raw(self, i: int) -> bytes:
        """The UTF-8 of string ``i``."""
        return bytes(memoryview(self._bytes)[self._ends[i - 1] if i else 0 : self._ends[i]])

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, i: int) -> str:  # type: ignore[override]
        return self.raw(i).decode()

    def __iter__(self) -> Iterator[str]:
        return (self[i] for i in range(len(self)))
