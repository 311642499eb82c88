"""What one asks of an index of occurrences: the uses of a word, all that is used so, and what is used the same way."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from polyseme.search import Index
from polyseme.search.occurrences.uses import Listing, offers_substitutes
from polyseme.serve.batch import Worker
from polyseme.serve.kept import KeptAnswers
from polyseme.serve.library import Library
from polyseme.serve.responses import JsonAnswer
from polyseme.serve.shapes import Hits, IndexQuery, SameSense, Senses, UsesShape, WordQuery

MOST_POINTS = 2000  # on a map of uses
MOST_KEPT = 64 << 20  # bytes of answers about senses


def sense_routes(library: Library) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api", tags=["senses"])
    # An index is used by one thread, its own; its encoder may be asked by others too, which encoders allow.
    indexes = {name: Worker() for name, item in library.items.items() if item.kind == "index"}
    kept = KeptAnswers(MOST_KEPT)

    def clustered(name: str, word: str, max_senses: int) -> bytes:
        index: Index = library.find(name, "index")
        uses = index.senses(word, max_senses=max_senses)
        labels = "substitutes" if offers_substitutes(index.encoder) else "company"
        answer = {"index": name, **uses.to_json(), "labels": labels, "points": uses.map_to_json(MOST_POINTS)}
        return bytes(JsonAnswer(answer).body)

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
                "hits": [hit.to_json() for hit in found],
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
            return {"count": found.count(use), "occurrences": [line.to_json() for line in lines]}

        return JsonAnswer(await indexes[index].ask(answer))

    return router
