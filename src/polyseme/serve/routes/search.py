"""What one asks of an index, a corpus or texts: uses of a word, a concordance, the texts nearest to a query."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from polyseme.errors import FormatError, OptionError
from polyseme.search import Index, TextIndex
from polyseme.search.kwic.concordance import Concordance, Line, concordance
from polyseme.search.occurrences.uses import Listing, offers_substitutes
from polyseme.serve.batch import ResponseCache, Worker
from polyseme.serve.library import Library
from polyseme.serve.responses import JsonAnswer
from polyseme.serve.routes.encode import ENCODERS
from polyseme.serve.shapes import (
    CollocatesShape,
    ConcordanceShape,
    FoundTexts,
    Hits,
    IndexQuery,
    SameSense,
    SearchTexts,
    Senses,
    SentenceHits,
    SentenceShape,
    TextQuery,
    UsesShape,
    WordQuery,
)

MOST_POINTS = 2000  # on a map of uses
MOST_KEPT = 64 << 20  # bytes of answers about senses

CorpusQuery = Annotated[str, Query(min_length=1, max_length=200, description="name of a corpus or an index")]
ModeQuery = Annotated[Literal["text", "regex", "words"], Query(description="how to read the query")]
TagQuery = Annotated[str | None, Query(min_length=1, max_length=40, description="tag of the first word: n, or n*")]
EXPRESSION_SECONDS = 5.0

SOURCES = ("texts", "corpus", "index")
# Sentences of a corpus that is indexed at the first question, by the kind of the model, and the seconds for it.
MOST_TEXTS = {"words": 200_000, "sentences": 20_000, "contexts": 20_000}
INDEXING_SECONDS = 30.0


def sense_routes(library: Library) -> APIRouter:
    """Routes under /api for an index of occurrences: the uses of a word, and what is used the same way."""
    router = APIRouter(prefix="/api", tags=["senses"])
    # An index is used by one thread, its own; its encoder may be asked by others too, which encoders allow.
    indexes = {name: Worker() for name, item in library.items.items() if item.kind == "index"}
    cache = ResponseCache(MOST_KEPT)

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
        return JsonAnswer(await cache.ask(asked, indexes[index], partial(clustered, *asked)))

    @router.post("/same-sense", response_model=Hits)
    async def same_sense(question: SameSense) -> JsonAnswer:
        """Occurrences that are used as a word is in a sentence, and what the model expects in its place."""
        index = library.find(question.index, "index")

        def answer() -> dict[str, Any]:
            asked = question.model_dump(exclude={"index", "sentence"})
            return {
                "hits": [hit.to_json() for hit in index.same_sense(question.sentence, **asked)],
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
            listing = listed(index, word, max_senses)
            lines = listing.lines(use, offset, offset + limit, sort=sort)
            return {"count": listing.count(use), "occurrences": [line.to_json() for line in lines]}

        return JsonAnswer(await indexes[index].ask(answer))

    return router


def corpus_routes(library: Library) -> APIRouter:
    """Routes under /api for a corpus: where something occurs in it, and next to which words."""
    router = APIRouter(prefix="/api", tags=["corpus"])
    # A corpus is only read, so that it can be searched while senses are computed from it.
    workers = {name: Worker() for name, item in library.items.items() if item.kind in ("index", "corpus")}

    @lru_cache(maxsize=16)
    def matches(corpus: str, query: str, mode: str, tag: str | None) -> Concordance:
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
            hits = matches(corpus, query, mode, tag)
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
            hits = matches(corpus, query, mode, tag)
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
            hits = matches(corpus, word, "words", None)
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


def search_routes(library: Library) -> APIRouter:
    """Routes under /api for texts: those nearest to a query, by the vectors of a model, by words, or by both."""
    router = APIRouter(prefix="/api", tags=["search"])
    workers = {name: Worker(patience=INDEXING_SECONDS) for name, item in library.items.items() if item.kind in ENCODERS}
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
        return {"model": question.model, "texts": question.texts, "hits": [hit.to_json() for hit in hits]}

    @router.post("/texts/search", response_model=FoundTexts)
    @router.post("/search", response_model=FoundTexts, deprecated=True)
    async def search(question: SearchTexts) -> JsonAnswer:
        """The texts of a text index, or the sentences of a corpus or of the one under an index, nearest to a query."""
        library.find(question.model, *ENCODERS)
        library.find(question.texts, *SOURCES)
        return JsonAnswer(await workers[question.model].ask(partial(answer, question)))

    return router
