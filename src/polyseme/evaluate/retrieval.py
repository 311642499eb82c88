"""Retrieval 检索: is the right text among the nearest? Queries, the texts that are searched, and gold numbers.

    recall@k   the share of the right texts among the k nearest, mean over the queries
    MRR        mean of 1 / rank of the first right text
    nDCG@k     Σ 1/log₂(1 + rank) of the right texts among the k nearest, divided by the most it could be

Järvelin and Kekäläinen, Cumulated Gain-based Evaluation of IR Techniques, 2002 (nDCG). Texts stand one per line, and
are named by the number of their line, from 1; empty lines are not searched. The numbers of the right ones follow a tab
at the end of each query, or a line for each query in a file of their own (``gold``), with commas or blanks between
several. Of texts with equal cosines the first is nearest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray
from polyseme.errors import FormatError, OptionError
from polyseme.evaluate.report import EvaluationSettings, Report, every_line, read_lines
from polyseme.sentences.bag_of_words import cosines, unit_vectors

_BLOCK = 1 << 22  # cosines held at a time


def fits(lines: list[str]) -> bool:
    """Never by content: queries are text like any other, and are recognised by the texts named next to them."""
    return False


def evaluate(model: Any, path: Path, settings: EvaluationSettings) -> Report:
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
    mrr = float(np.mean([1 / own.min() for own in ranks]))
    rows = [
        {
            "section": f"at {depth}",
            "recall": float(np.mean([np.mean(own <= depth) for own in ranks])),
            "mrr": mrr,
            "ndcg": float(np.mean([_ndcg(own, depth) for own in ranks])),
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
        found = [sorted({int(number) for number in line.replace(",", " ").split()}) for line in numbers]
    except ValueError:
        raise FormatError(
            f"{where} has a line without gold numbers: they follow a tab at the end of a query, "
            "or are in a file of their own"
        ) from None
    if not queries or not all(found):
        raise FormatError(f"{where} has a query without a gold number")
    return queries, found
