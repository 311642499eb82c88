"""Semantic textual similarity 句子相似度: do the cosines of sentence pairs rank as people rank them?

    score = Spearman's ρ and Pearson's r of the cosines and the human judgements

Agirre et al., SemEval-2012 Task 6, and the tasks of the years after; Cer et al., SemEval-2017 Task 1 (STS-B);
Marelli et al., A SICK Cure for the Evaluation of Compositional Distributional Semantic Models, 2014. A file is a
table of pairs and numbers in any format that ``Examples`` reads: STS-B's csv and tsv, CNSD's ``||``, SICK. A folder
is a set of such files, as the tasks of 2012 to 2016 are: one row each, then their mean, their mean weighted by the
number of pairs, and the score over all pairs together, which is the total. A pair of which one text has the zero
vector has the cosine 0; ``used`` of ``total`` pairs have vectors on both sides.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from polyseme.arrays import FloatArray
from polyseme.data.examples import Examples
from polyseme.errors import FormatError, TextError
from polyseme.evaluate.report import EvaluationSettings, Report, correlations
from polyseme.interfaces import SentenceEncoder
from polyseme.sentences.bag_of_words import paired_cosines, unit_vectors
from polyseme.text.segment import has_han

SAMPLE = 50  # lines that a file is recognised by

Scored = tuple[FloatArray, list[float], int]  # cosines, judgements, pairs with vectors on both sides


def fits(lines: list[str]) -> bool:
    """Whether most lines, but perhaps the first, are two texts and a number, of more than two numbers in all."""
    body = lines[1 : SAMPLE + 1] or lines
    tables = ([line.split(mark) for line in body] for mark in ("\t", "||"))
    return any(map(_are_pairs, (*tables, list(csv.reader(body)))))


def _are_pairs(table: list[list[str]]) -> bool:
    columns = list(zip(*(row for row in table if len(row) >= 3), strict=False))
    full = len(columns[0]) if columns else 0
    if full < 0.9 * len(table):
        return False
    numbers = [column for column in columns if sum(map(_is_number, column)) > 0.9 * full and len(set(column)) > 2]
    texts = [column for column in columns if sum(map(_is_text, column)) > 0.5 * full]
    return bool(numbers) and len(texts) >= 2


def _is_number(cell: str) -> bool:
    return cell.strip().replace(".", "", 1).isdecimal()


def _is_text(cell: str) -> bool:
    return len(cell.split()) > 2 or (len(cell) > 5 and has_han(cell))


def evaluate(model: Any, path: Path, settings: EvaluationSettings) -> Report:
    """Spearman's and Pearson's correlation of each set, and how the sets are joined."""
    encoder = settings.as_texts(model)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        sets = {str(file.relative_to(path)): pairs for file in files if (pairs := _pairs_if_any(file)) is not None}
    else:
        sets = {path.name: _pairs(path)}
    if not any(map(len, sets.values())):
        raise FormatError(f"{path} has no file of sentence pairs with scores (docs/evaluate.md)")
    scored = {name: _scored(encoder, pairs) for name, pairs in sets.items()}
    rows = [_row(name, *found) for name, found in scored.items()] if len(sets) > 1 else []
    joined = [_mean("mean of the sets", rows, weighted=False), _mean("mean weighted by pairs", rows, weighted=True)]
    cosines = np.concatenate([found[0] for found in scored.values()])
    people = [number for found in scored.values() for number in found[1]]
    whole = _row("total" if not rows else "all pairs together", cosines, people, sum(f[2] for f in scored.values()))
    return Report("sts", [*rows, *(joined if rows else []), whole])


def _pairs(file: Path) -> Examples:
    return Examples.read(file, kind="pairs", scored=True)


def _pairs_if_any(file: Path) -> Examples | None:
    """None of a file of something else, as a set's description."""
    try:
        pairs = _pairs(file)
    except TextError:
        return None
    return pairs if len(pairs) else None


def _scored(encoder: SentenceEncoder, pairs: Examples) -> Scored:
    rows: list[Any] = list(pairs)
    left, right = (unit_vectors(encoder, [getattr(row, side) for row in rows]) for side in ("first", "second"))
    cosines, filled = paired_cosines(left, right)
    return cosines, [float(row.label) for row in rows], int(filled.sum())


def _row(section: str, cosines: FloatArray, people: list[float], used: int) -> dict[str, Any]:
    # Rounded, so that pairs of equal texts share their rank whatever the rounding errors.
    found = correlations(people, np.round(cosines.astype(np.float64), 6).tolist())
    return {"section": section, **found, "used": used, "total": len(people)}


def _mean(section: str, rows: list[dict[str, Any]], *, weighted: bool) -> dict[str, Any]:
    known = [row for row in rows if row["spearman"] is not None]
    weights = np.array([row["total"] if weighted else 1 for row in known], dtype=float)
    means = {
        name: float(np.average([row[name] for row in known], weights=weights)) if known else None
        for name in ("spearman", "pearson")
    }
    return {"section": section, **means, **{n: sum(row[n] for row in rows) for n in ("used", "total")}}
