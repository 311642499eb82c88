"""What to tell a person whose word has no vector: close words, found in a moment among hundreds of thousands."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Sequence

SEARCHED = 200_000  # the most frequent words; rarer ones are seldom what was meant
LEAST = 0.55  # of likeness, to be offered at all
COMPARED = 60  # candidates that difflib, which is slow, looks at


def similar_spellings(word: str, words: Sequence[str], known: dict[str, int], topn: int = 3) -> list[str]:
    """Words of the vocabulary that look like ``word``, the closest first."""
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
    """Shared characters in order; in short words, the same length and beginning too: 北精 is 北京, not 北."""
    ratio = difflib.SequenceMatcher(None, word, other).ratio()
    return ratio + (0.4 * (len(word) == len(other)) + 0.1 * (word[:1] == other[:1])) / max(1, len(word))
