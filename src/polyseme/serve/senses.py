"""What one asks of an index of occurrences: the senses of a word, and the same sense elsewhere."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query

from polyseme.search.senses import offers_substitutes
from polyseme.serve.answers import Answer
from polyseme.serve.batch import Worker
from polyseme.serve.kept import KeptAnswers
from polyseme.serve.library import Library
from polyseme.serve.shapes import Hits, IndexQuery, SameSense, Senses, WordQuery
from polyseme.view.maps import fitted

MOST_POINTS = 2000  # on a map of senses
MOST_KEPT = 64 << 20  # bytes of answers about senses


def sense_routes(library: Library) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api", tags=["senses"])
    # An index is used by one thread, its own; its encoder may be asked by others too, which encoders allow.
    indexes = {name: Worker() for name, item in library.items.items() if item.kind == "index"}
    kept = KeptAnswers(MOST_KEPT)

    def clustered(index: str, word: str, max_senses: int) -> bytes:
        return Answer(_senses(library.find(index, "index"), index, word, max_senses)).body  # type: ignore[return-value]

    @router.get("/senses", response_model=Senses)
    async def senses(index: IndexQuery, word: WordQuery, max_senses: Annotated[int, Query(ge=1, le=20)] = 8) -> Answer:
        """The senses of a word: its occurrences in clusters, each with its share, typical sentences and substitutes."""
        library.find(index, "index")
        asked = (index, word, max_senses)
        return Answer(await kept.ask(asked, indexes[index], partial(clustered, *asked)))

    @router.post("/same-sense", response_model=Hits)
    async def same_sense(question: SameSense) -> Answer:
        """Occurrences that mean the same as a word in a sentence."""
        index = library.find(question.index, "index")
        asked = question.model_dump(exclude={"index", "sentence"})
        found = await indexes[question.index].ask(partial(index.same_sense, question.sentence, **asked))
        return Answer({"hits": [hit_json(hit) for hit in found]})

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
            "substitutes": list(sense.substitutes),
            "typical": [hit_json(hit) for hit in sense.typical],
        }
        for sense in found.senses
    ]
    step = max(1, -(-len(found.points) // MOST_POINTS))
    plane = fitted(found.points)
    points = [
        {"x": round(float(x), 5), "y": round(float(y), 5), "sense": int(label), "hit": hit_json(hit)}
        for (x, y), label, hit in zip(plane[::step], found.labels[::step], found.hits[::step], strict=True)
    ]
    return {
        "index": name,
        "word": word,
        "count": found.count,
        "labels": "substitutes" if offers_substitutes(index.encoder) else "company",
        "senses": senses,
        "points": points,
    }
