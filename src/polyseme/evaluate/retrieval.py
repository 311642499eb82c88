"""Texts: is the right one found, how good is a translation, how surprising is plain text? 检索、翻译与困惑度

Retrieval: queries, the texts that are searched, and gold numbers.

    recall@k   the share of the right texts among the k nearest, mean over the queries
    MRR        mean of 1 / rank of the first right text
    nDCG@k     Σ 1/log₂(1 + rank) of the right texts among the k nearest, divided by the most it could be

Järvelin and Kekäläinen, Cumulated Gain-based Evaluation of IR Techniques, 2002 (nDCG). Texts stand one per line, and
are named by the number of their line, from 1; empty lines are not searched. The numbers of the right ones follow a tab
at the end of each query, or a line for each query in a file of their own (``gold``), with commas or blanks between
several. Of texts with equal cosines the first is nearest.

Translation: two columns, a text and its translation.

    a translation model   BLEU and chrF of what it writes for the texts of its language (beam search)
    any other             how often a text's translation is the nearest of all translations, in both directions

Papineni et al., BLEU, 2002; Popović, chrF, 2015; both by sacrebleu, whose signature says how text was cut. The search
is that of Artetxe and Schwenk, Massively Multilingual Sentence Embeddings, 2019, with plain cosines.

Perplexity: of any text, segmented like the language model's training text.

    perplexity = exp( mean of -log p of a prediction ),  bits = Σ -log₂ p / characters of the words

Words outside the softmax count as one class ("unknown"), so perplexities are only comparable over the same vocabulary;
``used`` of ``total`` predictions are of known words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray
from polyseme.data.parallel import Parallel
from polyseme.data.training_data import recognise_data
from polyseme.errors import FormatError, OptionError
from polyseme.evaluate.report import EvaluationSettings, Report, every_line, read_lines
from polyseme.extras import needed_for
from polyseme.sentences.bag_of_words import cosines, unit_vectors
from polyseme.text.corpus import Corpus
from polyseme.text.segment import mostly_chinese
from polyseme.words.nearest import best_of_blocks

SAMPLE = 200  # texts by which a script, and the language that a model reads, are told
_BLOCK = 1 << 22  # cosines held at a time


# ---- retrieval


def evaluate_retrieval(model: Any, path: Path, settings: EvaluationSettings) -> Report:
    """A row for each depth; the mean reciprocal rank is the same in all of them."""
    if settings.texts is None:
        raise OptionError("retrieval needs the texts to search, one per line: give their file as texts")
    encoder = settings.as_texts(model)
    queries, gold = read_queries(path, settings.gold)
    lines = {number: line for number, line in enumerate(every_line(settings.texts), 1) if line.strip()}
    texts, place = list(lines.values()), {number: at for at, number in enumerate(lines)}
    if any(number not in lines for numbers in gold for number in numbers):
        raise FormatError(
            f"a gold number is beyond the {len(texts):,} texts of {settings.texts}, or that of an empty "
            "line (lines count from 1)"
        )
    asked, searched = unit_vectors(encoder, queries), unit_vectors(encoder, texts)
    ranks: list[NDArray[np.int64]] = []
    step = max(1, _BLOCK // len(texts))
    for start in range(0, len(queries), step):
        block = cosines(asked[start : start + step], searched)
        ranks += [
            _ranks(row, [place[number] for number in numbers])
            for row, numbers in zip(block, gold[start : start + step], strict=True)
        ]
    mrr = float(np.mean([1 / right_ranks.min() for right_ranks in ranks]))
    rows = [
        {
            "section": f"at {depth}",
            "recall": float(np.mean([np.mean(right_ranks <= depth) for right_ranks in ranks])),
            "mrr": mrr,
            "ndcg": float(np.mean([_ndcg(right_ranks, depth) for right_ranks in ranks])),
            "used": len(queries),
            "total": len(queries),
        }
        for depth in settings.depths
    ]
    return Report("retrieval", rows)


def _ranks(scores: FloatArray, places: list[int]) -> NDArray[np.int64]:
    """The rank of each right text, from 1; a score that is not finite is below all others."""
    scores = np.where(np.isfinite(scores), scores, -np.inf)
    nearer = [np.count_nonzero(scores > scores[p]) + np.count_nonzero(scores[:p] == scores[p]) for p in places]
    return np.array(nearer, dtype=np.int64) + 1


def _ndcg(ranks: NDArray[np.int64], depth: int) -> float:
    ideal = 1 / np.log2(1 + np.arange(1, min(len(ranks), depth) + 1))
    return float((1 / np.log2(1 + ranks[ranks <= depth])).sum() / ideal.sum())


def read_queries(path: Path, gold: str | Path | None) -> tuple[list[str], list[list[int]]]:
    """Queries, and the numbers of the texts that are right for each."""
    lines = read_lines(path)
    if gold is None:
        cells = [line.rsplit("\t", 1) for line in lines]
        queries, numbers, where = [row[0] for row in cells], [row[-1] for row in cells], path
    else:
        queries, numbers, where = lines, read_lines(gold), Path(gold)
    if len(queries) != len(numbers):
        raise FormatError(f"{path} has {len(queries):,} queries, and {where} {len(numbers):,} lines of numbers")
    try:
        gold_numbers = [sorted({int(number) for number in line.replace(",", " ").split()}) for line in numbers]
    except ValueError:
        raise FormatError(
            f"{where} has a line without gold numbers: they follow a tab at the end of a query, "
            "or are in a file of their own"
        ) from None
    if not queries or not all(gold_numbers):
        raise FormatError(f"{where} has a query without a gold number")
    return queries, gold_numbers


# ---- translation


def holds_translations(path: Path) -> bool:
    """Whether the file is parallel text."""
    recognised = recognise_data(path)
    return recognised is not None and recognised.kind == "parallel"


def evaluate_translation(model: Any, path: Path, settings: EvaluationSettings) -> Report:
    """One row: bleu and chrf, or the accuracies of the search."""
    pairs = Parallel.read(path)
    if getattr(model, "translates", False):
        return _translated(model, _in_its_direction(model, pairs))
    encoder = settings.as_texts(model)
    first, second = (unit_vectors(encoder, [pair[side] for pair in pairs]) for side in (0, 1))
    row = {
        "section": "total",
        "forward": _share_found(first, second),
        "backward": _share_found(second, first),
        "used": len(pairs),
        "total": len(pairs),
    }
    return Report("translation", [row])


def _share_found(asked: Any, searched: Any) -> float:
    """The share of texts whose own translation is nearest; of equally near ones the first counts."""
    n = len(searched) if isinstance(searched, np.ndarray) else searched.shape[0]
    step = max(1, _BLOCK // max(n, 1))
    right = 0
    for start in range(0, n, step):
        scores = cosines(searched, asked[start : start + step])  # (n, q)
        places, best = best_of_blocks([scores], scores.shape[1], 1)
        numbers = start + np.arange(len(places))
        right += int(np.count_nonzero((places[:, 0] == numbers) & np.isfinite(best[:, 0])))
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
    written = [translation.text for translation in model.translate(source for source, _ in pairs)]
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


# ---- perplexity


def evaluate_perplexity(model: Any, path: Path, settings: EvaluationSettings) -> Report:
    """Perplexity of both directions, and their geometric mean."""
    corpus = Corpus.build(path, segment=model.about.segmentation or "auto")
    perplexity = model.perplexity(iter(corpus))
    ways = {"forward": perplexity.forward, "backward": perplexity.backward}
    row = {
        "section": "total",
        **(ways if perplexity.forward is not None else {}),
        "bits": perplexity.bits_per_character,
        "perplexity": perplexity.perplexity,
        "sentences": perplexity.sentences,
        "used": perplexity.tokens - perplexity.unknown,
        "total": perplexity.tokens,
    }
    return Report("perplexity", [row])
