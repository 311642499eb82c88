"""What one asks of an index of occurrences: the uses of a word, all that is used so, and what is used the same way."""

from __future__ import annotations

import dataclasses
from functools import lru_cache, partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from polyseme.search.occurrences.uses import Listing, offers_substitutes
from polyseme.serve.answers import JsonAnswer
from polyseme.serve.batch import Worker
from polyseme.serve.kept import KeptAnswers
from polyseme.serve.library import Library
from polyseme.serve.shapes import Hits, IndexQuery, SameSense, Senses, UsesShape, WordQuery
from polyseme.view.word_map import fitted

MOST_POINTS = 2000  # on a map of uses
MOST_KEPT = 64 << 20  # bytes of answers about senses


def sense_routes(library: Library) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api", tags=["senses"])
    # An index is used by one thread, its own; its encoder may be asked by others too, which encoders allow.
    indexes = {name: Worker() for name, item in library.items.items() if item.kind == "index"}
    kept = KeptAnswers(MOST_KEPT)

    def clustered(index: str, word: str, max_senses: int) -> bytes:
        return JsonAnswer(_senses(library.find(index, "index"), index, word, max_senses)).body  # type: ignore[return-value]

    @router.get("/senses", response_model=Senses)
    async def senses(
        index: IndexQuery, word: WordQuery, max_senses: Annotated[int, Query(ge=1, le=20)] = 8
    ) -> JsonAnswer:
        """The uses of a word: its occurrences in clusters, each with its share, typical sentences and substitutes."""
        library.find(index, "index")
        asked = (index, word, max_senses)
        return JsonAnswer(await kept.ask(asked, indexes[index], partial(clustered, *asked)))

    @router.post("/same-sense", response_model=Hits)
    async def same_sense(question: SameSense) -> JsonAnswer:
        """Occurrences that are used as a word is in a sentence, and what the model expects in its place."""
        index = library.find(question.index, "index")

        def answer() -> dict[str, Any]:
            asked = question.model_dump(exclude={"index", "sentence"})
            found = index.same_sense(question.sentence, **asked)
            return {
                "hits": [hit_json(hit) for hit in found],
                "cutoff": index.cutoff(any_word=question.any_word),
                "expected": index.expected(question.sentence, question.position, question.word),
            }

        return JsonAnswer(await indexes[question.index].ask(answer))

    @lru_cache(maxsize=16)
    def listed(index: str, word: str, max_senses: int) -> Listing:
        opened = library.find(index, "index")
        return Listing(opened, opened.senses(word, max_senses=max_senses))

    @router.get("/uses", response_model=UsesShape)
    async def uses(
        index: IndexQuery,
        word: WordQuery,
        use: Annotated[int | None, Query(ge=1, le=20, description="its number; default: all")] = None,
        sort: Literal["score", "order", "left", "right", "match", "random"] = "score",
        max_senses: Annotated[int, Query(ge=1, le=20)] = 8,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
        offset: Annotated[int, Query(ge=0, le=1 << 40)] = 0,
    ) -> JsonAnswer:
        """All occurrences of a use of a word, sorted, with the sentences around them and their source."""
        library.find(index, "index")

        def answer() -> dict[str, Any]:
            found = listed(index, word, max_senses)
            lines = found.lines(use, offset, offset + limit, sort=sort)
            return {"count": found.count(use), "occurrences": [dataclasses.asdict(line) for line in lines]}

        return JsonAnswer(await indexes[index].ask(answer))

    return router


def hit_json(hit: Any) -> dict[str, Any]:
    """A Hit of the search room as JSON."""
    record = dataclasses.asdict(hit)
    record.pop("occurrence", None)
    return {**record, "score": round(float(hit.score), 6)}


def _senses(index: Any, name: str, word: str, max_senses: int) -> dict[str, Any]:
    found = index.senses(word, max_senses=max_senses)
    senses = [
        {
            "share": round(float(sense.share), 6),
            "size": int(sense.size),
            "sure": None if sense.sure is None else round(sense.sure, 4),
            "substitutes": list(sense.substitutes),
            "typical": [hit_json(hit) for hit in sense.typical],
        }
        for sense in found.senses
    ]
    step = max(1, -(-len(found.points) // MOST_POINTS))
    plane = fitted(found.points)
    points = [
        {
            "x": round(float(x), 5),
            "y": round(float(y), 5),
            "sense": int(label),
            "sure": round(float(sure), 3),
            "hit": hit_json(hit),
        }
        for (x, y), label, sure, hit in zip(
            plane[::step], found.labels[::step], found.silhouettes[::step], found.hits[::step], strict=True
        )
    ]
    return {
        "index": name,
        "word": word,
        "count": found.count,
        "looked_at": found.n_looked_at,
        "sure": None if found.sure is None else round(found.sure, 4),
        "labels": "substitutes" if offers_substitutes(index.encoder) else "company",
        "senses": senses,
        "points": points,
    }
