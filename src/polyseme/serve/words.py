"""What one asks of word vectors: words, neighbours, graph, analogy, map."""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query

from polyseme.errors import UnknownWord
from polyseme.nouns import FloatArray, unit_rows
from polyseme.serve.answers import Answer
from polyseme.serve.batch import Batcher, Worker
from polyseme.serve.library import Library
from polyseme.serve.maps import MapFailed, Maps
from polyseme.serve.shapes import (
    Analogy,
    AskAnalogy,
    AskNeighbours,
    Graph,
    ModelQuery,
    Neighbours,
    VocabularyMap,
    WordQuery,
    Words,
)
from polyseme.serve.shortcut import Routes
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.kernels.nearest import nearest_rows
from polyseme.words.vectors import WordVectors

VOCABULARIES = ("words", "index", "corpus")
COLLECT = 0.002  # seconds that a question waits for company while there is some
Scores = list[tuple[str, float]]


@dataclass(frozen=True)
class Nearest:
    """The words nearest to the sum of ``plus`` less the sum of ``minus`` (3CosAdd)."""

    plus: tuple[str, ...]
    minus: tuple[str, ...]
    topn: int


class Completion:
    """The words of a vocabulary by how they begin; sorted at the first question."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self.vocabulary.words)

    def beginning_with(self, prefix: str, limit: int) -> list[dict[str, Any]]:
        """The most frequent words that begin so, with their counts."""
        places, counts = self.vocabulary.index, self.vocabulary.counts
        found = self.vocabulary.words[:limit]
        if prefix:
            start = bisect.bisect_left(self._sorted, prefix)
            stop = bisect.bisect_left(self._sorted, prefix + "\U0010ffff")
            found = heapq.nsmallest(limit, self._sorted[start:stop], key=places.__getitem__)
        return [{"word": word, "count": int(counts[places[word]])} for word in found]


class NearestWords:
    """One model's words; questions that come together are answered together."""

    def __init__(self, vectors: WordVectors) -> None:
        self.vectors = vectors
        self.batcher: Batcher[Nearest, Any] = Batcher(self._answer, most=32, collect=COLLECT)
        if len(vectors):  # compiles the search and measures the vectors
            self.batcher.warm_up(Nearest((vectors.index_to_key[0],), (), 1))

    async def nearest(self, plus: Sequence[str], minus: Sequence[str], topn: int) -> Scores:
        """Answered together with what others ask at the same moment."""
        answer: Scores = await self.batcher.ask(Nearest(tuple(plus), tuple(minus), topn))
        return answer

    def _answer(self, questions: list[Nearest]) -> list[Any]:
        targets: list[Any] = [self._direction(question) for question in questions]
        asked = [(q, t) for q, t in zip(questions, targets, strict=True) if not isinstance(t, Exception)]
        if not asked:
            return targets
        most = max(len(q.plus) + len(q.minus) + q.topn for q, _ in asked)
        stack = np.stack([target for _, target in asked])
        rows, cosines = nearest_rows(self.vectors.vectors, self.vectors.inverse_norms, stack, most)
        lines = iter(zip(rows.tolist(), cosines.tolist(), strict=True))
        return [
            target if isinstance(target, Exception) else self._named(question, *next(lines))
            for question, target in zip(questions, targets, strict=True)
        ]

    def _direction(self, question: Nearest) -> FloatArray | Exception:
        try:
            units = unit_rows(self.vectors[[*question.plus, *question.minus]])
        except UnknownWord as error:
            return error
        signs = np.array([1.0] * len(question.plus) + [-1.0] * len(question.minus), dtype=np.float32)
        direction: FloatArray = unit_rows((signs @ units)[None])[0]
        return direction

    def _named(self, question: Nearest, rows: list[int], cosines: list[float]) -> Scores:
        words, asked = self.vectors.index_to_key, {*question.plus, *question.minus}
        found = [(words[row], cosine) for row, cosine in zip(rows, cosines, strict=True)]
        return [(word, c) for word, c in found if word not in asked and math.isfinite(c)][: question.topn]


def word_routes(library: Library, maps: Maps) -> tuple[APIRouter, Routes]:
    """Routes under /api, and those of them that are asked so often that they go by the shortcut."""
    router = APIRouter(prefix="/api", tags=["words"])
    searches = {name: NearestWords(item.thing) for name, item in library.items.items() if item.kind == "words"}
    completions = {
        name: Completion(item.thing.words if item.kind == "index" else item.thing.vocabulary)
        for name, item in library.items.items()
        if item.kind in VOCABULARIES
    }
    quick, slow = Worker(wait=1), Worker(wait=5)

    def search_of(model: str) -> NearestWords:
        library.find(model, "words")
        return searches[model]

    @router.get("/words", response_model=Words)
    async def words(
        model: ModelQuery,
        prefix: Annotated[str, Query(max_length=200)] = "",
        limit: Annotated[int, Query(ge=1, le=1000)] = 20,
    ) -> Answer:
        """The most frequent words, or those that begin with ``prefix``."""
        library.find(model, *VOCABULARIES)
        known = completions[model]
        listed = await quick.ask(partial(known.beginning_with, prefix, limit))
        return Answer({"model": model, "total": len(known.vocabulary), "words": listed})

    @router.get("/neighbours", response_model=Neighbours)
    async def neighbours(question: Annotated[AskNeighbours, Query()]) -> Answer:
        """The words nearest to a word, by cosine."""
        found = await search_of(question.model).nearest([question.word], [], question.topn)
        return Answer({"model": question.model, "word": question.word, "neighbours": _scored(found)})

    @router.get("/analogy", response_model=Analogy)
    async def analogy(question: Annotated[AskAnalogy, Query()]) -> Answer:
        """``a`` is to ``b`` as ``c`` is to …: 3CosAdd, or 3CosMul."""
        a, b, c = question.a, question.b, question.c
        search = search_of(question.model)
        if question.method == "add":
            found = await search.nearest([b, c], [a], question.topn)
        else:
            found = await slow.ask(partial(search.vectors.analogy, a, b, c, method="mul", topn=question.topn))
        return Answer({"model": question.model, "a": a, "b": b, "c": c, "answers": _scored(found)})

    @router.get("/graph", response_model=Graph)
    async def graph(model: ModelQuery, word: WordQuery, topn: Annotated[int, Query(ge=1, le=40)] = 12) -> Answer:
        """A word, its neighbours, and the likeness among all of them: what the walkable graph draws."""
        search = search_of(model)
        found = [(word, 1.0), *await search.nearest([word], [], topn)]
        links = await quick.ask(partial(_links, search.vectors, [word for word, _ in found]))
        return Answer({"model": model, "word": word, "nodes": _scored(found), "links": links})

    @router.get("/map", response_model=VocabularyMap)
    async def vocabulary_map(
        model: ModelQuery,
        method: Literal["pca", "tsne"] = "pca",
        size: Annotated[int, Query(ge=2, le=5000, description="the most frequent words")] = 1000,
    ) -> Answer:
        """The frequent words on a plane; t-SNE is computed in the background: ask again while ``computing``."""
        search = search_of(model)
        answer: dict[str, Any] = {"model": model, "method": method, "state": "computing", "points": []}
        try:
            places = await slow.ask(partial(maps.points, search.vectors, method, size))
        except MapFailed as failed:
            return Answer({**answer, "state": "failed", "reason": str(failed)})
        if places is not None:
            answer |= {"state": "ready", "points": await slow.ask(partial(_points, search.vectors, places))}
        return Answer(answer)

    return router, {"/api/neighbours": (AskNeighbours, neighbours), "/api/analogy": (AskAnalogy, analogy)}


def _scored(found: Scores) -> list[dict[str, Any]]:
    return [{"word": word, "score": round(score, 6)} for word, score in found]


def _links(vectors: WordVectors, words: list[str]) -> list[dict[str, Any]]:
    """Each word's links to the first, and to its two likest among the others."""
    units = unit_rows(vectors[words])
    cosines = units @ units.T
    pairs = {(0, i) for i in range(1, len(words))}
    for i in range(1, len(words)):
        others = [j for j in np.argsort(-cosines[i]).tolist() if j not in (0, i)][:2]
        pairs.update((min(i, j), max(i, j)) for j in others)
    return [{"source": words[i], "target": words[j], "score": round(float(cosines[i, j]), 6)} for i, j in sorted(pairs)]


def _points(vectors: WordVectors, places: tuple[list[int], FloatArray]) -> list[dict[str, Any]]:
    rows, plane = places
    return [
        {
            "word": vectors.index_to_key[row],
            "x": round(x, 5),
            "y": round(y, 5),
            "count": int(vectors.vocabulary.counts[row]),
        }
        for row, (x, y) in zip(rows, plane.tolist(), strict=True)
    ]
