"""What one asks of texts: those nearest to a query, by the vectors of a model, by words, or by both."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter

from polyseme.errors import FormatError, OptionError
from polyseme.search import TextIndex
from polyseme.serve.batch import Worker
from polyseme.serve.library import Library
from polyseme.serve.responses import JsonAnswer
from polyseme.serve.routes.encode import ENCODERS
from polyseme.serve.shapes import FoundTexts, SearchTexts

SOURCES = ("texts", "corpus", "index")
# Sentences of a corpus that is indexed at the first question, by the kind of the model, and the seconds for it.
MOST_TEXTS = {"words": 200_000, "sentences": 20_000, "contexts": 20_000}
WAIT = 30.0


def search_routes(library: Library) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api", tags=["search"])
    workers = {name: Worker(patience=WAIT) for name, item in library.items.items() if item.kind in ENCODERS}
    indexes: dict[tuple[str, str], TextIndex] = {}

    def index_of(model: str, texts: str) -> TextIndex:
        """The texts with the vectors of the model; those of a corpus are made at the first question and kept."""
        if (model, texts) not in indexes:
            encoder, thing = library.as_texts(library.find(model)), library.find(texts)
            if isinstance(thing, TextIndex):
                try:
                    indexes[model, texts] = thing.asked_with(encoder)
                except FormatError:
                    raise OptionError(
                        f"{texts!r} was indexed with a different model or pooling than {model!r}"
                    ) from None
            else:
                thing = library.corpus(texts)
                if len(thing) > MOST_TEXTS[library.items[model].kind]:
                    raise OptionError(
                        f"{texts!r} has {len(thing):,} sentences, too many for {model!r} to index on the fly: "
                        f"build an index to serve with polyseme search {model} {texts} -o INDEX"
                    )
                indexes[model, texts] = TextIndex.build(encoder, thing)
        return indexes[model, texts]

    def answer(question: SearchTexts) -> dict[str, Any]:
        index = index_of(question.model, question.texts)
        hits = index.search(question.query, question.k, how=question.how, context=question.context)
        found = [hit.to_json() for hit in hits]
        return {"model": question.model, "texts": question.texts, "hits": found}

    @router.post("/texts/search", response_model=FoundTexts)
    @router.post("/search", response_model=FoundTexts, deprecated=True)
    async def search(question: SearchTexts) -> JsonAnswer:
        """The texts of a text index, or the sentences of a corpus or of the one under an index, nearest to a query."""
        library.find(question.model, *ENCODERS)
        library.find(question.texts, *SOURCES)
        return JsonAnswer(await workers[question.model].ask(partial(answer, question)))

    return router
