"""Pairs of sentences: how similar they are, and whether a word means the same in both. 句子相似度与语境词义

Semantic textual similarity (STS): do the cosines of sentence pairs rank as people rank them?

    score = Spearman's ρ and Pearson's r of the cosines and the human judgements

Agirre et al., SemEval-2012 Task 6, and the tasks of the years after; Cer et al., SemEval-2017 Task 1 (STS-B);
Marelli et al., A SICK Cure for the Evaluation of Compositional Distributional Semantic Models, 2014. A file is a
table of pairs and numbers in any format that ``Examples`` reads: STS-B's csv and tsv, CNSD's ``||``, SICK. A folder
is a set of such files, as the tasks of 2012 to 2016 are: one row each, then their mean, their mean weighted by the
number of pairs, and the score over all pairs together, which is the total. A pair of which one text has the zero
vector has the cosine 0; ``used`` of ``total`` pairs have vectors on both sides.

Words in context: does a word mean the same in two sentences? WiC, XL-WiC, MCL-WiC.

    same  if  cos(x_1, x_2) > t,    t chosen for the best accuracy on another file

Pilehvar and Camacho-Collados, WiC: the Word-in-Context Dataset, 2019; Raganato et al., XL-WiC: A Multilingual Benchmark
for Evaluating Semantic Contextualization, 2020; Martelli et al., SemEval-2021 Task 2: Multilingual and Cross-lingual
Word-in-Context Disambiguation, 2021. The vector of the word is the mean of those of the tokens that cover it; the
sentence is segmented like the model's training text. The area under the ROC curve (``auc``) needs no threshold; the
accuracy is omitted where no file is given to choose one on. A word without a vector has the cosine 0. The right answers
are in the file (XL-WiC, SuperGLUE's JSON lines) or next to it, under its name with ``gold`` in the place of ``data``
(WiC, MCL-WiC).
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polyseme.arrays import FloatArray, unit_rows
from polyseme.data.examples import Examples
from polyseme.errors import FormatError, TextError
from polyseme.evaluate.report import EvaluationSettings, Report, correlations, read_lines
from polyseme.interfaces import ContextEncoder, LayerChoice, SentenceEncoder
from polyseme.sentences.bag_of_words import paired_cosines, unit_vectors
from polyseme.sentences.lift import lift
from polyseme.text.segment import Segmentation, has_han
from polyseme.text.spacing import token_spans

SAMPLE = 50  # lines that a file is recognised by

_PLACES = re.compile(r"\d+-\d+")
_ANSWERS = {"T": True, "F": False, "1": True, "0": False, "true": True, "false": False}


# ---- semantic textual similarity


class ScoredPairs(NamedTuple):
    """The pairs of a set as a model and as people score them."""

    cosines: FloatArray
    people: list[float]
    used: int  # pairs with vectors on both sides


def fits_sts(lines: list[str]) -> bool:
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


def evaluate_sts(model: Any, path: Path, settings: EvaluationSettings) -> Report:
    """Spearman's and Pearson's correlation of each set, and how the sets are joined."""
    encoder = settings.as_texts(model)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        sets = {
            str(file.relative_to(path)): pairs for file in files if (pairs := _scored_pairs_if_any(file)) is not None
        }
    else:
        sets = {path.name: _scored_pairs(path)}
    if not any(map(len, sets.values())):
        raise FormatError(f"{path} has no file of sentence pairs with scores (docs/evaluate.md)")
    scored = {name: _scored(encoder, pairs) for name, pairs in sets.items()}
    rows = [_set_row(name, *result) for name, result in scored.items()] if len(sets) > 1 else []
    joined = [_mean("mean of the sets", rows, weighted=False), _mean("mean weighted by pairs", rows, weighted=True)]
    cosines = np.concatenate([result.cosines for result in scored.values()])
    people = [number for result in scored.values() for number in result.people]
    whole = _set_row(
        "total" if not rows else "all pairs together", cosines, people, sum(result.used for result in scored.values())
    )
    return Report("sts", [*rows, *(joined if rows else []), whole])


def _scored_pairs(file: Path) -> Examples:
    return Examples.read(file, kind="pairs", scored=True)


def _scored_pairs_if_any(file: Path) -> Examples | None:
    """None of a file of something else, as a set's description."""
    try:
        pairs = _scored_pairs(file)
    except TextError:
        return None
    return pairs if len(pairs) else None


def _scored(encoder: SentenceEncoder, pairs: Examples) -> ScoredPairs:
    rows: list[Any] = list(pairs)
    left, right = (unit_vectors(encoder, [getattr(row, side) for row in rows]) for side in ("first", "second"))
    cosines, filled = paired_cosines(left, right)
    return ScoredPairs(cosines, [float(row.label) for row in rows], int(filled.sum()))


def _set_row(section: str, cosines: FloatArray, people: list[float], used: int) -> dict[str, Any]:
    # Rounded, so that pairs of equal texts share their rank whatever the rounding errors.
    figures = correlations(people, np.round(cosines.astype(np.float64), 6).tolist())
    return {"section": section, **figures, "used": used, "total": len(people)}


def _mean(section: str, rows: list[dict[str, Any]], *, weighted: bool) -> dict[str, Any]:
    known = [row for row in rows if row["spearman"] is not None]
    weights = np.array([row["total"] if weighted else 1 for row in known], dtype=float)
    means = {
        name: float(np.average([row[name] for row in known], weights=weights)) if known else None
        for name in ("spearman", "pearson")
    }
    return {"section": section, **means, **{n: sum(row[n] for row in rows) for n in ("used", "total")}}


# ---- words in context


class Use(NamedTuple):
    """A sentence, and where the word occurs in it."""

    sentence: str
    start: int
    end: int


class WordPair(NamedTuple):
    """Two uses of a word, and whether it means the same in both; None if the file does not tell."""

    first: Use
    second: Use
    same: bool | None


def fits_word_in_context(lines: list[str]) -> bool:
    """Whether the lines are the table of WiC or XL-WiC, or the JSON of MCL-WiC or SuperGLUE."""
    if lines[0].lstrip()[:1] in ("[", "{"):
        beginning = "".join(lines[:20])
        return all(f'"{name}"' in beginning for name in ("sentence1", "sentence2", "start1", "end2"))
    return all(_is_row(line.split("\t")) for line in lines)


def _is_row(cells: list[str]) -> bool:
    if len(cells) == 5:
        return bool(_PLACES.fullmatch(cells[2]))
    return len(cells) == 9 and all(map(str.isdecimal, cells[2:6])) and cells[8].strip() in _ANSWERS


def evaluate_word_in_context(model: Any, path: Path, settings: EvaluationSettings) -> Report:
    """Accuracy at the threshold that is best on ``settings.dev``, and the area under the ROC curve."""
    from sklearn.metrics import roc_auc_score

    encoder = lift(model, "contexts")
    cosines, gold, used = compared(encoder, path, settings.layers)
    row: dict[str, Any] = {"section": "total", "accuracy": None, "auc": None, "threshold": None}
    if len(set(gold.tolist())) == 2:
        row["auc"] = float(roc_auc_score(gold, cosines))
    if settings.dev is not None:
        threshold = best_threshold(*compared(encoder, Path(settings.dev), settings.layers)[:2])
        row |= {"accuracy": float(np.mean((cosines > threshold) == gold)), "threshold": threshold}
    return Report("word-in-context", [{**row, "used": used, "total": len(gold)}])


def best_threshold(cosines: FloatArray, gold: Any) -> float:
    """The number that tells the two classes apart best: of the middles between neighbouring cosines, and both ends."""
    order = np.argsort(cosines, kind="stable")
    ranked, same = cosines[order].astype(np.float64), np.asarray(gold, dtype=np.int64)[order]
    right = same.sum() + np.concatenate([[0], np.cumsum(1 - 2 * same)])  # the first i below the threshold
    middles = np.concatenate([[ranked[0] - 1], (ranked[1:] + ranked[:-1]) / 2, [ranked[-1]]])
    possible = np.concatenate([[True], ranked[1:] > ranked[:-1], [True]])
    return float(middles[np.argmax(np.where(possible, right, -1))])


def compared(encoder: ContextEncoder, path: Path, layers: LayerChoice) -> tuple[FloatArray, Any, int]:
    """The cosine of each pair, whether it means the same, and how many pairs have vectors."""
    pairs = read_pairs(path)
    gold = [pair.same for pair in pairs]
    if None in gold:
        gold = list(read_gold(path))
    if len(pairs) != len(gold):
        raise FormatError(f"{path} has {len(pairs):,} pairs, but the gold file {len(gold):,}")
    units = unit_rows(_word_vectors(encoder, [use for pair in pairs for use in (pair.first, pair.second)], layers))
    left, right = units[::2], units[1::2]
    used = int(np.count_nonzero(left.any(axis=1) & right.any(axis=1)))
    # Rounded, so that words with the same vector in both sentences are equal whatever the rounding errors.
    return np.round(np.einsum("nd,nd->n", left, right), 6), np.array(gold, dtype=bool), used


def _word_vectors(encoder: ContextEncoder, uses: list[Use], layers: LayerChoice) -> FloatArray:
    vectors = np.zeros((len(uses), encoder.dim), dtype=np.float32)
    cutting = getattr(encoder, "segmentation", Segmentation())
    sentences = encoder.encode_tokens([use.sentence for use in uses], layers=layers)
    for row, (use, sentence) in enumerate(zip(uses, sentences, strict=True)):
        spans = token_spans(use.sentence, sentence.tokens, cutting)
        covering = [i for i, (start, end) in enumerate(spans) if start < use.end and end > use.start]
        if covering:
            vectors[row] = sentence.layers[0][covering].mean(axis=0)
    return vectors


def read_pairs(path: Path) -> list[WordPair]:
    """The two uses of each word."""
    lines = read_lines(path)
    try:
        if lines[0].lstrip().startswith("["):
            return [_from_json(record) for record in json.loads("\n".join(lines))]
        if lines[0].lstrip().startswith("{"):
            return [_from_json(json.loads(line)) for line in lines]
        return [_from_cells(line.split("\t")) for line in lines]
    except (IndexError, KeyError, RecursionError, TypeError, ValueError):
        raise FormatError(f"{path} is not a word-in-context file (WiC or XL-WiC table, MCL-WiC JSON)") from None


def _from_json(record: dict[str, Any]) -> WordPair:
    first, second = (Use(str(record[f"sentence{i}"]), int(record[f"start{i}"]), int(record[f"end{i}"])) for i in (1, 2))
    return WordPair(first, second, _ANSWERS[str(record["label"]).lower()] if "label" in record else None)


def _from_cells(cells: list[str]) -> WordPair:
    """A row of WiC: ``word, part of speech, places, sentence, sentence``, the places as numbers of words.

    Or one of XL-WiC: ``word, part of speech, start, end, start, end, sentence, sentence, 0 or 1``, by characters.
    """
    if len(cells) == 9:
        start, end, start2, end2 = map(int, cells[2:6])
        return WordPair(Use(cells[6], start, end), Use(cells[7], start2, end2), _ANSWERS[cells[8].strip()])
    _, _, places, *sentences = cells
    first, second = (_use(s, int(place)) for s, place in zip(sentences, places.split("-"), strict=True))
    return WordPair(first, second, None)


def _use(sentence: str, place: int) -> Use:
    word = list(re.finditer(r"\S+", sentence))[place]
    return Use(sentence, word.start(), word.end())


def read_gold(path: Path) -> list[bool]:
    """The right answers next to a file."""
    if "data" not in path.name:
        raise FormatError(f"{path} has no gold answers: name it NAME.data, and the answers next to it NAME.gold")
    gold = path.with_name("gold".join(path.name.rsplit("data", 1)))
    if not gold.is_file():
        raise FormatError(f"{path} has no gold answers next to it: {gold.name} is missing")
    lines = read_lines(gold)
    try:
        records = json.loads("\n".join(lines)) if lines[:1] and lines[0].lstrip().startswith("[") else None
        tags = lines if records is None else [record["tag"] for record in records]
        return [_ANSWERS[str(tag).strip()] for tag in tags]
    except (KeyError, RecursionError, TypeError, ValueError):
        raise FormatError(f"{gold} is not a list of gold answers, T or F") from None
