"""Perplexity 困惑度 of plain text: how surprised a language model is by each next word, reading forward and backward.

    perplexity = exp( mean of -log p(word | context) ),  over the whole softmax, boundaries of sentences counted

The text is segmented like the model's training text. Words outside the softmax count as one class
("unknown"), so two models are only comparable over the same vocabulary; ``used`` of ``total`` words are inside it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polyseme.evaluate.report import EvaluationSettings, Report
from polyseme.text.corpus import Corpus


def fits(lines: list[str]) -> bool:
    """Any text does."""
    return bool(lines)


def evaluate(model: Any, path: Path, settings: EvaluationSettings) -> Report:
    """Perplexity of both directions, and their geometric mean."""
    corpus = Corpus.build(path, segment=model.about.segmentation or "auto")
    found = model.perplexity(iter(corpus))
    ways = {"forward": found.forward, "backward": found.backward}
    row = {
        "section": "total",
        **(ways if found.forward is not None else {}),
        "bits": found.bits_per_character,
        "perplexity": found.perplexity,
        "sentences": found.sentences,
        "used": found.tokens - found.unknown,
        "total": found.tokens,
    }
    return Report("perplexity", [row])
