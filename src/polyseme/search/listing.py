"""All occurrences of a use of a word, sorted, with their context: to read through, or for other programs.

The uses were found among a sample of a frequent word's occurrences; here every occurrence is put to the use whose mean
is nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import OptionError
from polyseme.interfaces import FloatArray, unit_rows
from polyseme.search.concordance.concordance import SORTS, Concordance
from polyseme.search.concordance.patterns import Found
from polyseme.search.occurrences.hits import WordSenses, excerpt

if TYPE_CHECKING:
    from polyseme.search.occurrences.index import Index

USE_SORTS = ("score", *SORTS)
UNSURE = 0.0  # an occurrence with this margin lies as near to another use


@dataclass(frozen=True, repr=False)
class UsedSo:
    """One occurrence of a use: its sentence, and those before and after it."""

    use: int  # counted from 1
    score: float  # cosine with the mean of its use
    margin: float  # by which the mean of the next use is farther; 0 where there is one use
    document: int
    source: str
    sentence: int
    token: int
    tag: str | None
    before: str
    text: str
    start: int
    end: int
    behind: str

    def __repr__(self) -> str:
        return f"UsedSo({self.use}, {self.score:.3f}: {excerpt(self.text, self.start, self.end)!r})"


class Listing:
    """Every occurrence of a word with the use that it was put to."""

    def __init__(self, index: Index, found: WordSenses) -> None:
        self.index, self.found = index, found
        own = index.occurrences(found.word)
        self.rows = np.arange(own.start, own.stop)
        self.labels, self.scores, self.margins = self._put()

    def _put(self) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
        """Of every occurrence its use, the cosine with the mean of that, and how much farther the next mean is."""
        found = self.found
        sample = self.index.vectors(found.rows, found.layer)
        uses = range(len(found.senses))
        means = unit_rows(np.array([sample[found.labels == use].mean(axis=0) for use in uses], dtype=np.float32))
        cosines = self.index.vectors(self.rows, found.layer) @ means.T  # (n, uses)
        labels = cosines.argmax(axis=1)
        labels[found.rows - self.rows[0]] = found.labels  # those that were looked at stay where they were put
        scores = cosines[np.arange(len(labels)), labels]
        cosines[np.arange(len(labels)), labels] = -np.inf
        margins = scores - cosines.max(axis=1) if len(uses) > 1 else np.zeros_like(scores)
        return labels, scores, margins

    def count(self, use: int | None = None) -> int:
        """How many occurrences a use has; all of them for None."""
        return len(self.rows) if use is None else int(np.count_nonzero(self.labels == self._place(use)))

    def lines(
        self, use: int | None = None, start: int = 0, stop: int | None = None, *, sort: str = "score", seed: int = 1
    ) -> list[UsedSo]:
        """The occurrences of a use (counted from 1) or of all, the most typical first or sorted like a concordance."""
        if sort not in USE_SORTS:
            raise OptionError(f"sort must be one of {', '.join(USE_SORTS)}, not {sort!r}")
        chosen = np.arange(len(self.rows)) if use is None else np.flatnonzero(self.labels == self._place(use))
        tokens = self.index.tokens(self.rows[chosen])
        sentences = np.array(self.index.sentences_of(self.rows[chosen]), dtype=np.int64)
        concordance = Concordance(
            self.index.corpus, self.found.word, Found(sentences, np.stack([tokens, tokens + 1], axis=1), True)
        )
        if sort == "score":
            order = np.argsort(-self.scores[chosen], kind="stable")
        else:
            order = concordance.order(sort, seed=seed)
        return [self._line(concordance, int(chosen[place]), int(place)) for place in order[start:stop]]

    def _line(self, concordance: Concordance, occurrence: int, place: int) -> UsedSo:
        line = concordance.line(place)
        return UsedSo(
            int(self.labels[occurrence]) + 1,
            round(float(self.scores[occurrence]), 4),
            round(float(self.margins[occurrence]), 4),
            line.document,
            line.source,
            line.sentence,
            line.token,
            line.tag,
            line.before,
            line.text,
            line.start,
            line.end,
            line.behind,
        )

    def _place(self, use: int) -> int:
        if not 1 <= use <= len(self.found.senses):
            raise OptionError(f"{self.found.word!r} has uses 1 to {len(self.found.senses)}, no {use}")
        return use - 1
