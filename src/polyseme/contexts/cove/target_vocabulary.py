"""The vocabulary of one language of the translation model. Ids 0 and 1 are the sentence boundary and unknown words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

BOUNDARY, UNKNOWN, SPECIALS = 0, 1, 2


@dataclass(frozen=True)
class TargetVocabulary:
    """The known words of one language, the most frequent first."""

    known: list[str]

    @classmethod
    def of(cls, sentences: Iterable[list[str]], *, min_count: int, max_size: int | None) -> TargetVocabulary:
        """The vocabulary of these sentences."""
        counts: Counter[str] = Counter()
        for words in sentences:
            counts.update(words)
        kept = [word for word, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if n >= min_count]
        return cls(kept[: None if max_size is None else max_size - SPECIALS])

    def __len__(self) -> int:
        return SPECIALS + len(self.known)

    @cached_property
    def index(self) -> dict[str, int]:
        """word → id."""
        return {word: number for number, word in enumerate(self.known, SPECIALS)}

    def numbers(self, words: Iterable[str]) -> list[int]:
        """The ids of the words."""
        return [self.index.get(word, UNKNOWN) for word in words]
