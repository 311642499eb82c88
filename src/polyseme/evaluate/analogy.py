"""Analogies 词类比: ``a b c d`` a line, "a is to b as c is to d", in sections that begin with ``: name``.

    right if  argmax_w score(w; a, b, c) = d,  w none of a, b, c  (3CosAdd or 3CosMul, see words/vectors.py)

Mikolov et al., Efficient Estimation of Word Representations in Vector Space, 2013 (questions-words); Li et al.,
Analogical Reasoning on Chinese Morphological and Semantic Relations, 2018 (CA8). Questions with a word outside the
vocabulary are omitted, and counted. As in gensim, an answer that differs from a, b or c only in case is skipped,
five times at most.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import FormatError, OptionError
from polyseme.evaluate.lookup import Lookup
from polyseme.evaluate.report import EvaluationSettings, Report, read_lines
from polyseme.words.nearest import products
from polyseme.words.vectors import WordVectors

BLOCK = 1 << 20  # cosines held at a time: 4 MB, which caches hold too
LOWEST = -1e30
TRIES = 5

Question = tuple[str, str, str, str]


def fits(lines: list[str]) -> bool:
    """Whether nearly all lines are four words or the name of a section."""
    questions = [line.split() for line in lines if not line.lstrip().startswith(":")]
    fours = [words for words in questions if len(words) == 4 and not words[3].replace(".", "").isdigit()]
    return bool(questions) and len(fours) >= 0.9 * len(questions)


def evaluate(model: object, path: Path, settings: EvaluationSettings) -> Report:
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
    rows = [_row(name, *count) for name, count in counts.items()]
    return Report("analogy", [*rows, _row("total", *(sum(column) for column in zip(*counts.values(), strict=True)))])


def _row(section: str, correct: int, used: int, total: int) -> dict[str, Any]:
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
    open_ones = np.arange(len(questions))
    banned = questions[:, :3]
    for _ in range(TRIES):
        answers = answer(lookup.model, questions[open_ones, :3], banned, lookup.n_rows, method)
        again = np.zeros(len(open_ones), dtype=bool)
        for place, (question, row) in enumerate(zip(open_ones.tolist(), answers.tolist(), strict=True)):
            *given, expected = (lookup.folded[r] for r in questions[question])
            if row >= 0:
                again[place] = lookup.folded[row] in given
                right[question] = not again[place] and lookup.folded[row] == expected
        banned = np.column_stack([banned, answers])[again]
        open_ones = open_ones[again]
        if not len(open_ones):
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
