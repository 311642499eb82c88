"""What the index answers with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, within_square
from polyseme.display import excerpt, points_picture, rows_table


@dataclass(frozen=True, repr=False)
class Hit:
    """One occurrence of a word: ``text`` is its sentence as it was written, ``text[start:end]`` the word in it."""

    occurrence: int  # its place in the index
    sentence: int  # its sentence in the corpus
    token: int  # its place among the tokens of that sentence
    word: str
    score: float
    text: str
    start: int
    end: int
    tag: str | None

    def __repr__(self) -> str:
        return f"Hit({self.score:.3f}: {self.excerpt()!r})"

    def _repr_html_(self) -> str:
        before, word, after = self.text[: self.start], self.text[self.start : self.end], self.text[self.end :]
        tag = f" <code>{escape(self.tag)}</code>" if self.tag else ""
        return f"{self.score:.3f} {escape(before)}<b>{escape(word)}</b>{escape(after)}{tag}"

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {**vars(self), "score": round(float(self.score), 6)}

    def excerpt(self) -> str:
        """The word in brackets, and what is next to it."""
        return excerpt(self.text, self.start, self.end)


@dataclass(frozen=True, repr=False)
class Sense:
    """One use of a word, as the text has it."""

    share: float  # of the word's occurrences
    size: int  # occurrences looked at that are used so
    sure: float | None  # mean silhouette of its occurrences: 1 far from the other uses, 0 between them; None: only one
    substitutes: list[str]  # what the language model would say instead; or, from other encoders, words that occur near
    typical: list[Hit]

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "share": round(float(self.share), 6),
            "size": int(self.size),
            "sure": None if self.sure is None else round(self.sure, 4),
            "substitutes": list(self.substitutes),
            "typical": [hit.to_json() for hit in self.typical],
        }

    def __repr__(self) -> str:
        return f"Sense({self.share:.0%}, {self.size:,} occurrences: {', '.join(self.substitutes) or '–'})"


@dataclass(frozen=True, repr=False)
class WordSenses:
    """The uses of a word, the most frequent first, and every occurrence that was looked at."""

    word: str
    count: int  # occurrences in the index; of frequent words an even sample of them is looked at
    layer: int
    senses: list[Sense]
    points: FloatArray  # (n, 2) a map: the two principal components in which the occurrences differ
    labels: NDArray[np.int64]  # (n,) the place of each occurrence's use in ``senses``
    rows: NDArray[np.int64]  # (n,) their places in the index
    scores: FloatArray  # (n,) cosine of each with the mean of its use
    silhouettes: FloatArray  # (n,) how clearly each is used so and not otherwise; 0 if there is one use
    read: Callable[[NDArray[np.int64], FloatArray], list[Hit]]

    @cached_property
    def hits(self) -> list[Hit]:
        """The occurrences in their sentences, which are read at the first call."""
        return self.read(self.rows, self.scores)

    @property
    def n_looked_at(self) -> int:
        """Occurrences that were clustered."""
        return len(self.rows)

    @property
    def sure(self) -> float | None:
        """The mean silhouette: near 1 the uses are far apart, near 0 they run into each other; None: one use."""
        return float(self.silhouettes.mean()) if len(self.senses) > 1 else None

    def to_json(self) -> dict[str, Any]:
        """For programs: the uses; ``map_to_json`` has the occurrences."""
        return {
            "word": self.word,
            "count": self.count,
            "looked_at": self.n_looked_at,
            "sure": None if self.sure is None else round(self.sure, 4),
            "senses": [sense.to_json() for sense in self.senses],
        }

    def map_to_json(self, most: int) -> list[dict[str, Any]]:
        """At most so many of the occurrences, evenly drawn: the point of each within [-1, 1], and its use."""
        step = max(1, -(-len(self.points) // most))
        occurrences = zip(
            within_square(self.points)[::step].tolist(),
            self.labels[::step].tolist(),
            self.silhouettes[::step].tolist(),
            self.hits[::step],
            strict=True,
        )
        return [
            {"x": round(x, 5), "y": round(y, 5), "sense": use, "sure": round(sure, 3), "hit": hit.to_json()}
            for (x, y), use, sure, hit in occurrences
        ]

    def __repr__(self) -> str:
        shares = ", ".join(f"{sense.share:.0%}" for sense in self.senses)
        return f"WordSenses({self.word!r}, {self.count:,} occurrences: {len(self.senses)} uses, {shares})"

    def _repr_html_(self) -> str:
        rows = [
            (
                f"{sense.share:.0%}",
                "–" if sense.sure is None else f"{sense.sure:.2f}",
                " ".join(sense.substitutes),
                " / ".join(hit.excerpt() for hit in sense.typical[:3]),
            )
            for sense in self.senses
        ]
        table = rows_table(f"{self.word}: {self.count:,} occurrences", ("share", "sure", "instead", "typical"), rows)
        return table + points_picture(self.points.tolist(), self.labels.tolist())
