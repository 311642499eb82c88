"""Word similarity 词相似度: do the cosines of word pairs rank as people rank them? WordSim-353, SimLex-999 …

    score = Spearman's ρ (and Pearson's r) of the cosines and the human judgements

Pairs with a word outside the vocabulary are omitted, and counted. Which columns hold the words and the judgement is
told from the content, so files with a header, an index column or further columns are read as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from polyseme.errors import FormatError, OptionError
from polyseme.evaluate.lookup import Lookup
from polyseme.evaluate.report import EvaluationSettings, Report, correlations, read_lines
from polyseme.text.segment import has_han

LONGEST_WORD = 30  # a cell longer than this is a sentence
LONGEST_CHINESE_WORD = 10


class ScoreColumns(NamedTuple):
    """Where in a line the pair and its judgement stand."""

    delimiter: str | None  # None: any blanks
    a: int
    b: int
    score: int


def fits(lines: list[str]) -> bool:
    """Whether most lines have two words and a number."""
    return _columns(lines) is not None


def evaluate(model: object, path: Path, settings: EvaluationSettings) -> Report:
    """Spearman's and Pearson's correlation, over the pairs whose words are known."""
    if settings.unseen not in ("skip", "subwords"):
        raise OptionError(f"unseen is skip or subwords, not {settings.unseen!r}")
    lookup = Lookup(model, settings)
    pairs = read_pairs(read_lines(path))
    cosines = [_cosine(lookup, a, b, settings.unseen) for a, b, _ in pairs]
    known = [(cosine, score) for cosine, (_, _, score) in zip(cosines, pairs, strict=True) if cosine is not None]
    row = correlations([score for _, score in known], [cosine for cosine, _ in known])
    return Report("similarity", [{"section": "total", **row, "used": len(known), "total": len(pairs)}])


def _cosine(lookup: Lookup, a: str, b: str, unseen: str) -> float | None:
    """The cosine of two words; None if one of them has no vector."""
    rows = lookup.rows((a, b))
    if rows is None:
        served = unseen == "subwords" and a in lookup.model and b in lookup.model
        return lookup.model.similarity(a, b) if served else None
    if rows[0] == rows[1]:
        return 1.0  # and not a little more or less: such pairs share their rank
    return lookup.model.similarity(*(lookup.model.vectors[row] for row in rows))


def read_pairs(lines: list[str]) -> list[tuple[str, str, float]]:
    """The pairs and their judgements; lines that are none (headers, comments) are skipped."""
    columns = _columns(lines)
    if columns is None:
        raise FormatError("the file holds no pairs of words with a number")
    pairs = []
    for line in lines:
        cells = _cells(line, columns.delimiter)
        if len(cells) > max(columns.b, columns.score) and not line.startswith("#"):
            score = _number(cells[columns.score])
            if score is not None:
                pairs.append((cells[columns.a], cells[columns.b], score))
    return pairs


def _columns(lines: list[str]) -> ScoreColumns | None:
    lines = [line for line in lines if not line.startswith("#")]
    lines = lines[1:] or lines  # the first may be a header, and one line less tells as much
    for delimiter in _delimiters(lines):
        table = [_cells(line, delimiter) for line in lines]
        wide = [cells for cells in table if len(cells) >= 3]
        if len(wide) < 0.9 * len(lines):
            continue
        columns = list(zip(*(cells[: min(map(len, wide))] for cells in wide), strict=True))
        numeric = [np.mean([_number(cell) is not None for cell in column]) > 0.8 for column in columns]
        words = [i for i, column in enumerate(columns) if not numeric[i] and _are_words(column)]
        scores = [i for i, is_number in enumerate(numeric) if is_number and len(words) > 1 and i > words[1]]
        # Two words side by side, and the number after them; at most the part of speech may be between.
        if scores and words[1] == words[0] + 1 and scores[0] <= words[1] + 2:
            return ScoreColumns(delimiter, words[0], words[1], scores[0])
    return None


def _delimiters(lines: list[str]) -> tuple[str | None, ...]:
    tabs = np.mean(["\t" in line for line in lines]) > 0.9 if lines else False
    return ("\t",) if tabs else (",", ";", None)  # None: any blanks


def _cells(line: str, delimiter: str | None) -> list[str]:
    return [cell.strip().strip('"') for cell in line.split(delimiter)]


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _are_words(column: tuple[str, ...]) -> bool:
    return bool(np.mean([_is_word(cell) for cell in column]) > 0.9)


def _is_word(cell: str) -> bool:
    longest = LONGEST_CHINESE_WORD if has_han(cell) else LONGEST_WORD
    return 0 < len(cell) <= longest and len(cell.split()) <= 2
