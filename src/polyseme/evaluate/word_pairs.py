"""Pairs of words: how similar they are, and whether two pairs stand in the same relation. 词相似度与词类比

Similarity: WordSim-353, SimLex-999 … Do the cosines of word pairs rank as people rank them?

    score = Spearman's ρ (and Pearson's r) of the cosines and the human judgements

Which columns hold the words and the judgement is recognised by the content, so files with a header, an index column or
further columns are read as they are.

Analogies: ``a b c d`` a line, "a is to b as c is to d", in sections that begin with ``: name``.

    right if  argmax_w score(w; a, b, c) = d,  w none of a, b, c  (3CosAdd or 3CosMul, see words/vectors.py)

Mikolov et al., Efficient Estimation of Word Representations in Vector Space, 2013 (questions-words); Li et al.,
Analogical Reasoning on Chinese Morphological and Semantic Relations, 2018 (CA8). As in gensim, an answer that differs
from a, b or c only in case is skipped, five times at most.

Pairs and questions with a word outside the vocabulary are omitted, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import FormatError, OptionError
from polyseme.evaluate.report import EvaluationSettings, Report, correlations, read_lines
from polyseme.text.segment import has_han
from polyseme.words.nearest import products
from polyseme.words.vectors import WordVectors

LONGEST_WORD = 30  # a cell longer than this is a sentence
LONGEST_CHINESE_WORD = 10
BLOCK = 1 << 20  # cosines held at a time: 4 MB, which caches hold too
LOWEST = -1e30
TRIES = 5

Question = tuple[str, str, str, str]


class Lookup:
    """Rows of words among the frequent part of a vocabulary; of spellings that differ in case, the most frequent."""

    def __init__(self, model: object, settings: EvaluationSettings) -> None:
        if not isinstance(model, WordVectors):
            raise OptionError("this file needs word vectors, and the model has none: choose a word-vector model")
        if settings.case not in ("ignore", "keep"):
            raise OptionError(f"case is ignore or keep, not {settings.case!r}")
        self.model = model
        self.fold = str.upper if settings.case == "ignore" else str
        self.n_rows = len(model) if settings.restrict is None else max(0, min(settings.restrict, len(model)))
        self.folded = [self.fold(word) for word in model.index_to_key[: self.n_rows]]
        self._rows: dict[str, int] = {}
        for row, word in enumerate(self.folded):
            self._rows.setdefault(word, row)

    def rows(self, words: Iterable[str]) -> list[int] | None:
        """Their rows; None if one of them is unknown."""
        rows = [self._rows.get(self.fold(word), -1) for word in words]
        return None if -1 in rows else rows


# ---- similarity


class ScoreColumns(NamedTuple):
    """Where in a line the pair and its judgement stand."""

    delimiter: str | None  # None: any blanks
    a: int
    b: int
    score: int


def fits_similarity(lines: list[str]) -> bool:
    """Whether most lines have two words and a number."""
    return _columns(lines) is not None


def evaluate_similarity(model: object, path: Path, settings: EvaluationSettings) -> Report:
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


# ---- analogies


def fits_analogy(lines: list[str]) -> bool:
    """Whether nearly all lines are four words or the name of a section."""
    questions = [line.split() for line in lines if not line.lstrip().startswith(":")]
    fours = [words for words in questions if len(words) == 4 and not words[3].replace(".", "").isdigit()]
    return bool(questions) and len(fours) >= 0.9 * len(questions)


def evaluate_analogy(model: object, path: Path, settings: EvaluationSettings) -> Report:
    """Accuracy for each section and in total."""
    if settings.method not in ("add", "mul"):
        raise OptionError(f"analogy method is add or mul, not {settings.method!r}")
    lookup = Lookup(model, settings)
    sections = read_sections(read_lines(path))
    asked = [(name, lookup.rows(words)) for name, questions in sections.items() for words in questions]
    known = [(name, rows) for name, rows in asked if rows]
    right = _right(lookup, np.array([rows for _, rows in known], dtype=np.int64).reshape(-1, 4), settings.method)
    counts = {name: [0, 0, len(questions)] for name, questions in sections.items()}
    for (name, _), good in zip(known, right.tolist(), strict=True):
        counts[name][0] += good
        counts[name][1] += 1
    rows = [_section_row(name, *count) for name, count in counts.items()]
    return Report(
        "analogy", [*rows, _section_row("total", *(sum(column) for column in zip(*counts.values(), strict=True)))]
    )


def _section_row(section: str, correct: int, used: int, total: int) -> dict[str, Any]:
    accuracy = correct / used if used else None
    return {"section": section, "accuracy": accuracy, "correct": correct, "used": used, "total": total}


def read_sections(lines: list[str]) -> dict[str, list[Question]]:
    """Questions by section; lines that are not four words are skipped."""
    sections: dict[str, list[Question]] = {}
    name = ""
    for line in lines:
        words = line.split()
        if words[0].startswith(":"):
            name = line.strip().lstrip(":").strip()
            sections.setdefault(name, [])
        elif len(words) == 4:
            sections.setdefault(name, []).append((words[0], words[1], words[2], words[3]))
    if not any(sections.values()):
        raise FormatError("the file holds no questions of four words")
    return sections


def _right(lookup: Lookup, questions: NDArray[np.int64], method: str) -> NDArray[np.bool_]:
    """Which of the questions, (Q, 4) rows a b c d, are answered right."""
    right = np.zeros(len(questions), dtype=bool)
    unanswered = np.arange(len(questions))
    banned = questions[:, :3]
    for _ in range(TRIES):
        answers = answer(lookup.model, questions[unanswered, :3], banned, lookup.n_rows, method)
        again = np.zeros(len(unanswered), dtype=bool)
        for place, (question, row) in enumerate(zip(unanswered.tolist(), answers.tolist(), strict=True)):
            *given, expected = (lookup.folded[r] for r in questions[question])
            if row >= 0:
                again[place] = lookup.folded[row] in given
                right[question] = not again[place] and lookup.folded[row] == expected
        banned = np.column_stack([banned, answers])[again]
        unanswered = unanswered[again]
        if not len(unanswered):
            break
    return right


def answer(
    model: WordVectors, triples: NDArray[np.int64], banned: NDArray[np.int64], n_rows: int, method: str
) -> NDArray[np.int64]:
    """For each triple of rows (Q, 3) the best of the first ``n_rows`` that is not banned for it (Q, k); -1 for none.

    Both scores are made of the cosines of a, b and c with every word, and questions share their words: the cosines of
    each distinct word are computed once, for one block of the vocabulary at a time.
    """
    from polyseme.evaluate.kernels_analogy import better_answers

    distinct, places = np.unique(triples, return_inverse=True)
    asked, scales = model.vectors[distinct], model.inverse_norms[distinct]  # (G, D), (G,)
    best, highest = np.full(len(triples), -1, dtype=np.int64), np.full(len(triples), LOWEST, dtype=np.float32)
    step = max(64, BLOCK // max(1, len(distinct)))
    for start in range(0, n_rows, step):
        block = slice(start, min(start + step, n_rows))
        cosines = products(asked, model.vectors[block])  # (G, n)
        cosines *= scales[:, None]
        cosines *= model.inverse_norms[block]
        if method == "mul":
            cosines += 1
            cosines /= 2
        better_answers(cosines, places.reshape(triples.shape), banned, start, method == "mul", best, highest)
    return best
