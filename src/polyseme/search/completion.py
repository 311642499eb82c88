"""The words of a vocabulary by how they begin. 按开头补全"""

from __future__ import annotations

import bisect
import heapq
from functools import cached_property

from polyseme.text.vocabulary import Vocabulary


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
        found = self.vocabulary.words[:limit]
        if prefix:
            start = bisect.bisect_left(self._sorted, prefix)
            stop = bisect.bisect_left(self._sorted, prefix + "\U0010ffff")
            found = heapq.nsmallest(limit, self._sorted[start:stop], key=places.__getitem__)
        return [(word, int(counts[places[word]])) for word in found]
