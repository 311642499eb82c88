"""Suggestions for a word that has no vector: words spelled alike, found quickly among hundreds of thousands."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Sequence

SEARCHED = 200_000  # the most frequent words; rarer ones are seldom meant
LEAST = 0.55  # minimum similarity of a suggestion
COMPARED = 60  # candidates compared with difflib, which is slow


def similar_spellings(word: str, words: Sequence[str], known: dict[str, int], topn: int = 3) -> list[str]:
    """Words of the vocabulary that are spelled like ``word``, most similar first."""
    spellings = [w for w in (word.lower(), word.capitalize(), word.upper(), word.strip()) if w in known and w != word]
    letters = set(word)
    slack = max(1, len(word) // 3)
    needed = (len(letters) + 1) // 2
    candidates = [
        w for w in words[:SEARCHED] if -slack <= len(w) - len(word) <= slack and len(letters.intersection(w)) >= needed
    ]
    pairs = {word[i : i + 2] for i in range(len(word) - 1)} or letters
    near = heapq.nlargest(COMPARED, candidates, key=lambda w: sum(pair in w for pair in pairs))
    scored = [(_likeness(word, w), w) for w in near]
    alike = [w for score, w in sorted(scored, key=lambda pair: -pair[0]) if score >= LEAST]  # equals: frequent first
    return list(dict.fromkeys([*spellings, *alike]))[:topn]


def _likeness(word: str, other: str) -> float:
    """Spelling similarity: shared characters in order, plus a bonus, larger for short words, for the same length and
    first character: 北精 suggests 北京, not 北."""
    ratio = difflib.SequenceMatcher(None, word, other).ratio()
    return ratio + (0.4 * (len(word) == len(other)) + 0.1 * (word[:1] == other[:1])) / max(1, len(word))
