"""Translations 翻译: two columns, a text and its translation. What is measured depends on the model.

    a translation model   BLEU and chrF of what it writes for the texts of its language (beam search)
    any other             how often a text's translation is the nearest of all translations, in both directions

Papineni et al., BLEU, 2002; Popović, chrF, 2015; both by sacrebleu, whose signature says how text was cut. The search
is that of Artetxe and Schwenk, Massively Multilingual Sentence Embeddings, 2019, with plain cosines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from polyseme.data.parallel import Parallel
from polyseme.data.training_data import recognise_data
from polyseme.evaluate.report import EvaluationSettings, Report
from polyseme.extras import needed_for
from polyseme.sentences.bag_of_words import cosines, unit_vectors
from polyseme.text.segment import mostly_chinese
from polyseme.words.nearest import best_of_blocks

SAMPLE = 200  # texts by which a script, and the language that a model reads, are told
_BLOCK = 1 << 22  # cosines held at a time


def holds_translations(path: Path) -> bool:
    """Whether the file is parallel text."""
    told = recognise_data(path)
    return told is not None and told.kind == "parallel"


def evaluate(model: Any, path: Path, settings: EvaluationSettings) -> Report:
    """One row: bleu and chrf, or the accuracies of the search."""
    pairs = Parallel.read(path)
    if getattr(model, "translates", False):
        return _translated(model, _in_its_direction(model, pairs))
    encoder = settings.as_texts(model)
    first, second = (unit_vectors(encoder, [pair[side] for pair in pairs]) for side in (0, 1))
    row = {
        "section": "total",
        "forward": _found(first, second),
        "backward": _found(second, first),
        "used": len(pairs),
        "total": len(pairs),
    }
    return Report("translation", [row])


def _found(asked: Any, searched: Any) -> float:
    """The share of texts whose own translation is nearest; of equally near ones the first counts."""
    n = len(searched) if isinstance(searched, np.ndarray) else searched.shape[0]
    step = max(1, _BLOCK // max(n, 1))
    right = 0
    for start in range(0, n, step):
        scores = cosines(searched, asked[start : start + step])  # (n, q)
        places, best = best_of_blocks([scores], scores.shape[1], 1)
        own = start + np.arange(len(places))
        right += int(np.count_nonzero((places[:, 0] == own) & np.isfinite(best[:, 0])))
    return right / n


def _in_its_direction(model: Any, pairs: Parallel) -> Parallel:
    """The pairs, or the same turned round where the model knows more words of the second column."""
    sample = [pairs[number] for number in range(min(len(pairs), SAMPLE))]
    shares = [model.share_known([pair[side] for pair in sample]) for side in (0, 1)]
    return pairs if shares[0] >= shares[1] else pairs.reversed()


def _translated(model: Any, pairs: Parallel) -> Report:
    with needed_for("BLEU"):
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    wanted = [target for _, target in pairs]
    written = [found.text for found in model.translate(source for source, _ in pairs)]
    bleu = BLEU(tokenize="zh" if mostly_chinese("".join(wanted[:SAMPLE])) else "13a")
    row = {
        "section": "total",
        "bleu": bleu.corpus_score(written, [wanted]).score,
        "chrf": CHRF().corpus_score(written, [wanted]).score,
        "signature": str(bleu.get_signature()),
        "used": len(pairs),
        "total": len(pairs),
    }
    return Report("translation", [row])
