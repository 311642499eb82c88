"""A baseline for question answering: the part of the passage that overlaps most with the question."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

from polyseme.data.examples import Examples
from polyseme.learn.metrics import answers

PIECES = {"sentence": r"[^。！？；!?\n]+[。！？；!?]?", "clause": r"[^，。！？；!?,\n]+"}


def simple_rule(examples: Examples) -> dict[str, Any]:
    """The F1 of the baseline in per cent, with sentences or clauses, whichever is better.

    Overlap is counted in characters and character bigrams, of which rare ones count more.
    """
    rows: list[Any] = list(examples)
    passages = {row.passage for row in rows}
    seen = Counter(gram for passage in passages for gram in _grams(passage))

    def nearest(passage: str, question: str, pattern: str) -> str:
        asked = _grams(question)
        weights = {gram: math.log(1 + len(passages) / (1 + seen[gram])) for gram in asked}
        pieces: list[str] = re.findall(pattern, passage)
        return max(pieces, key=lambda piece: sum(weights[gram] for gram in asked & _grams(piece)))

    found = {}
    for name, pattern in PIECES.items():
        said = [nearest(row.passage, row.question, pattern) for row in rows]
        found[name] = 100 * answers([[answer.text for answer in row.answers] for row in rows], said)["f1"]
    best = max(found, key=found.__getitem__)
    return {"value": round(found[best], 1), "piece": best}


def _grams(text: str) -> set[str]:
    letters = re.sub(r"\s", "", text.lower())
    return set(letters) | {letters[i : i + 2] for i in range(len(letters) - 1)}
