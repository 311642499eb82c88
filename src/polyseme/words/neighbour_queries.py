"""Many nearest-neighbour queries at once, and the links of a neighbour graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polyseme.arrays import FloatArray, unit_rows
from polyseme.errors import PolysemeError
from polyseme.words.kernels.nearest import nearest_rows
from polyseme.words.nearest import ranked
from polyseme.words.vectors import Neighbours, WordVectors


@dataclass(frozen=True)
class NearestQuestion:
    """A query for the words nearest to the sum of ``plus`` minus the sum of ``minus`` (3CosAdd)."""

    plus: tuple[str, ...]
    minus: tuple[str, ...]
    topn: int


def nearest_words(vectors: WordVectors, questions: Sequence[NearestQuestion]) -> list[Neighbours | PolysemeError]:
    """The neighbours for each query, or what is wrong with it; all queries share one compiled search."""
    targets = [_direction(vectors, question) for question in questions]
    asked = [target for target in targets if not isinstance(target, PolysemeError)]
    if not asked:
        return [target for target in targets if isinstance(target, PolysemeError)]
    most = max(len(q.plus) + len(q.minus) + q.topn for q in questions)
    rows, cosines = nearest_rows(vectors.vectors, vectors.inverse_norms, np.stack(asked), most)
    lines = iter(zip(rows.tolist(), cosines.tolist(), strict=True))
    return [
        target if isinstance(target, PolysemeError) else _named(vectors, question, *next(lines))
        for question, target in zip(questions, targets, strict=True)
    ]


def _direction(vectors: WordVectors, question: NearestQuestion) -> FloatArray | PolysemeError:
    try:
        return vectors.direction(question.plus, question.minus)
    except PolysemeError as error:
        return error


def _named(vectors: WordVectors, question: NearestQuestion, rows: list[int], cosines: list[float]) -> Neighbours:
    words = vectors.index_to_key
    asked = {vectors.key_to_index.get(word, -1) for word in (*question.plus, *question.minus)}
    return [(words[row], cosine) for row, cosine in ranked(rows, cosines, question.topn, asked)]


def neighbour_links(vectors: WordVectors, words: Sequence[str]) -> list[tuple[str, str, float]]:
    """The links of a graph, with cosines: each word to the first, and to the two most similar of the others."""
    units = unit_rows(vectors[list(words)])
    cosines = units @ units.T
    pairs = {(0, i) for i in range(1, len(words))}
    for i in range(1, len(words)):
        others = [j for j in np.argsort(-cosines[i]).tolist() if j not in (0, i)][:2]
        pairs.update((min(i, j), max(i, j)) for j in others)
    return [(words[i], words[j], float(cosines[i, j])) for i, j in sorted(pairs)]
