"""What one asks of word vectors: words, neighbours, graph, analogy, map."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from polyseme.serve.batch import Batcher, Worker
from polyseme.serve.library import Library
from polyseme.serve.responses import JsonAnswer
from polyseme.serve.shapes import (
    Analogy,
    AskAnalogy,
    AskNeighbours,
    Graph,
    ModelQuery,
    Neighbours,
    VocabularyMap,
    WordList,
    WordQuery,
)
from polyseme.text.vocabulary import Completion
from polyseme.view.word_map import MapFailed, Maps
from polyseme.words.vectors import NearestQuestion, WordVectors, nearest_words, neighbour_links
from polyseme.words.vectors import Neighbours as Scores

VOCABULARIES = ("words", "index", "corpus")
COLLECT = 0.002  # seconds that a question waits for company while there is some


class NearestWords:
    """One model's words; questions that come together are answered together."""

    def __init__(self, vectors: WordVectors) -> None:
        self.vectors = vectors
        self.batcher: Batcher[NearestQuestion, Any] = Batcher(partial(nearest_words, vectors), most=32, collect=COLLECT)
        if len(vectors):  # compiles the search and measures the vectors
            self.batcher.warm_up(NearestQuestion((vectors.index_to_key[0],), (), 1))

    async def nearest(self, plus: Sequence[str], minus: Sequence[str], topn: int) -> Scores:
        """Answered together with what others ask at the same moment."""
        answer: Scores = await self.batcher.ask(NearestQuestion(tuple(plus), tuple(minus), topn))
        return answer


def word_routes(library: Library, maps: Maps) -> APIRouter:
    """Routes under /api."""
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

    @router.get("/words", response_model=WordList)
    async def words(
        model: ModelQuery,
        prefix: Annotated[str, Query(max_length=200)] = "",
        limit: Annotated[int, Query(ge=1, le=1000)] = 20,
    ) -> JsonAnswer:
        """The most frequent words, or those that begin with ``prefix``."""
        library.find(model, *VOCABULARIES)
        known = completions[model]
        listed = await quick.ask(partial(known.beginning_with, prefix, limit))
        counted = [{"word": word, "count": count} for word, count in listed]
        return JsonAnswer({"model": model, "total": len(known.vocabulary), "words": counted})

    @router.get("/neighbours", response_model=Neighbours)
    async def neighbours(question: Annotated[AskNeighbours, Query()]) -> JsonAnswer:
        """The words nearest to a word, by cosine."""
        answers = await search_of(question.model).nearest([question.word], [], question.topn)
        return JsonAnswer({"model": question.model, "word": question.word, "neighbours": _scored(answers)})

    @router.get("/analogy", response_model=Analogy)
    async def analogy(question: Annotated[AskAnalogy, Query()]) -> JsonAnswer:
        """``a`` is to ``b`` as ``c`` is to …: 3CosAdd, or 3CosMul."""
        a, b, c = question.a, question.b, question.c
        search = search_of(question.model)
        if question.method == "add":
            answers = await search.nearest([b, c], [a], question.topn)
        else:
            answers = await slow.ask(partial(search.vectors.analogy, a, b, c, method="mul", topn=question.topn))
        return JsonAnswer({"model": question.model, "a": a, "b": b, "c": c, "answers": _scored(answers)})

    @router.get("/graph", response_model=Graph)
    async def graph(model: ModelQuery, word: WordQuery, topn: Annotated[int, Query(ge=1, le=40)] = 12) -> JsonAnswer:
        """A word, its neighbours, and the likeness among all of them: what the walkable graph draws."""
        search = search_of(model)
        nodes = [(word, 1.0), *await search.nearest([word], [], topn)]
        links = await quick.ask(partial(neighbour_links, search.vectors, [word for word, _ in nodes]))
        return JsonAnswer({"model": model, "word": word, "nodes": _scored(nodes), "links": _linked(links)})

    @router.get("/map", response_model=VocabularyMap)
    async def vocabulary_map(
        model: ModelQuery,
        method: Literal["pca", "tsne"] = "pca",
        size: Annotated[int, Query(ge=2, le=5000, description="the most frequent words")] = 1000,
    ) -> JsonAnswer:
        """The frequent words on a plane; t-SNE is computed in the background: ask again while ``computing``."""
        search = search_of(model)
        answer: dict[str, Any] = {"model": model, "method": method, "state": "computing", "points": [], "tags": []}
        try:
            drawn = await slow.ask(partial(maps.to_json, search.vectors, method, size))
        except MapFailed as failed:
            return JsonAnswer({**answer, "state": "failed", "reason": str(failed)})
        return JsonAnswer(answer if drawn is None else {**answer, "state": "ready", **drawn})

    return router


def _scored(answers: Scores) -> list[dict[str, Any]]:
    return [{"word": word, "score": round(score, 6)} for word, score in answers]


def _linked(links: list[tuple[str, str, float]]) -> list[dict[str, Any]]:
    return [{"source": source, "target": target, "score": round(score, 6)} for source, target, score in links]
