"""What one asks of a corpus: where something occurs in it, and next to which words."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from polyseme.errors import OptionError
from polyseme.search.kwic.concordance import Concordance, Line, concordance
from polyseme.serve.batch import Worker
from polyseme.serve.library import Library
from polyseme.serve.responses import JsonAnswer
from polyseme.serve.shapes import CollocatesShape, ConcordanceShape, SentenceHits, SentenceShape, TextQuery, WordQuery

CorpusQuery = Annotated[str, Query(min_length=1, max_length=200, description="name of a corpus or an index")]
ModeQuery = Annotated[Literal["text", "regex", "words"], Query(description="how to read the query")]
TagQuery = Annotated[str | None, Query(min_length=1, max_length=40, description="tag of the first word: n, or n*")]
EXPRESSION_SECONDS = 5.0


def corpus_routes(library: Library) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api", tags=["corpus"])
    # A corpus is only read, so that it can be searched while senses are computed from it.
    workers = {name: Worker() for name, item in library.items.items() if item.kind in ("index", "corpus")}

    @lru_cache(maxsize=16)
    def found(corpus: str, query: str, mode: str, tag: str | None) -> Concordance:
        return concordance(library.corpus(corpus), query, mode, tag=tag, seconds=EXPRESSION_SECONDS)

    @router.get("/concordance", response_model=ConcordanceShape)
    async def lines(
        corpus: CorpusQuery,
        query: TextQuery,
        mode: ModeQuery = "text",
        tag: TagQuery = None,
        sort: Literal["order", "left", "right", "match", "random"] = "order",
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
        offset: Annotated[int, Query(ge=0, le=1 << 40)] = 0,
    ) -> JsonAnswer:
        """A string, an expression or words in their sentences; how often, and where in the text."""
        library.corpus(corpus)

        def answer() -> dict[str, Any]:
            hits = found(corpus, query, mode, tag)
            shown = [line.to_json() for line in hits.lines(offset, offset + limit, sort=sort)]
            return {**hits.to_json(), "lines": shown}

        return JsonAnswer(await workers[corpus].ask(answer))

    @router.get("/collocates", response_model=CollocatesShape)
    async def near(
        corpus: CorpusQuery,
        query: TextQuery,
        mode: ModeQuery = "text",
        tag: TagQuery = None,
        left: Annotated[int, Query(ge=0, le=20)] = 5,
        right: Annotated[int, Query(ge=0, le=20)] = 5,
        by: Literal["loglik", "mi", "logdice", "count"] = "loglik",
        min_count: Annotated[int, Query(ge=1, le=10_000)] = 3,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    ) -> JsonAnswer:
        """The words that occur near it more often than chance would have them."""
        library.corpus(corpus)

        def answer() -> dict[str, Any]:
            hits = found(corpus, query, mode, tag)
            best = hits.collocates(left=left, right=right, min_count=min_count, score=by, topn=limit)
            return {"count": hits.count, "collocates": [collocate.to_json() for collocate in best]}

        return JsonAnswer(await workers[corpus].ask(answer))

    @router.get("/sentences", response_model=SentenceHits)
    @router.get("/search", response_model=SentenceHits, deprecated=True)
    async def sentences(
        corpus: CorpusQuery,
        word: WordQuery,
        limit: Annotated[int, Query(ge=1, le=200)] = 20,
        offset: Annotated[int, Query(ge=0, le=1 << 40)] = 0,
    ) -> JsonAnswer:
        """A word, or several in a row, in the sentences of the corpus."""
        library.corpus(corpus)

        def answer() -> dict[str, Any]:
            hits = found(corpus, word, "words", None)
            return {"total": hits.count, "hits": [_hit(line) for line in hits.lines(offset, offset + limit)]}

        return JsonAnswer(await workers[corpus].ask(answer))

    @router.get("/sentence", response_model=SentenceShape)
    async def sentence(corpus: CorpusQuery, number: Annotated[int, Query(ge=0, le=1 << 40)]) -> JsonAnswer:
        """A sentence of the corpus, as written and as cut."""
        text = library.corpus(corpus)
        if number >= text.n_sentences:
            raise OptionError(f"{corpus!r} has {text.n_sentences:,} sentences, no number {number:,}")
        return JsonAnswer({"number": number, "text": text.text(number), "tokens": text.sentence(number)})

    return router


def _hit(line: Line) -> dict[str, Any]:
    return {**line.to_json(), "word": line.text[line.start : line.end], "score": 1.0}
