"""What one asks of an index of occurrences and of a corpus: senses, the same sense elsewhere, a word in context."""

from __future__ import annotations

import dataclasses
from functools import lru_cache, partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query
from numpy.typing import NDArray

from polyseme.errors import OptionError
from polyseme.search.senses import offers_substitutes
from polyseme.serve.answers import Answer
from polyseme.serve.batch import Worker
from polyseme.serve.library import Library
from polyseme.serve.maps import fitted
from polyseme.serve.shapes import Found, Hits, IndexQuery, SameSense, Senses, SentenceShape, WordQuery
from polyseme.text.corpus import Corpus

MOST_POINTS = 2000  # on a map of senses


def sense_routes(library: Library) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api", tags=["senses"])
    # An index is used by one thread, its own; its encoder may be asked by others too, which encoders allow. Its corpus
    # is only read, so that words can be looked for while senses are computed.
    indexes = {name: Worker() for name, item in library.items.items() if item.kind == "index"}
    corpora = {name: Worker() for name, item in library.items.items() if item.kind in ("index", "corpus")}

    @lru_cache(maxsize=64)
    def clustered(index: str, word: str, max_senses: int) -> bytes:
        return Answer(_senses(library.find(index, "index"), index, word, max_senses)).body  # type: ignore[return-value]

    @lru_cache(maxsize=64)
    def places(name: str, query: str) -> NDArray[np.int64]:
        return _occurrences(library.corpus(name), query)

    @router.get("/senses", response_model=Senses)
    async def senses(index: IndexQuery, word: WordQuery, max_senses: Annotated[int, Query(ge=1, le=20)] = 8) -> Answer:
        """The senses of a word: its occurrences in clusters, each with its share, typical sentences and substitutes."""
        library.find(index, "index")
        return Answer(await indexes[index].ask(partial(clustered, index, word, max_senses)))

    @router.post("/same-sense", response_model=Hits)
    async def same_sense(question: SameSense) -> Answer:
        """Occurrences that mean the same as a word in a sentence."""
        index = library.find(question.index, "index")
        asked = question.model_dump(exclude={"index", "sentence"})
        found = await indexes[question.index].ask(partial(index.same_sense, question.sentence, **asked))
        return Answer({"hits": [hit_json(hit) for hit in found]})

    @router.get("/search", response_model=Found)
    async def search(
        corpus: Annotated[str, Query(min_length=1, max_length=200, description="name of a corpus or an index")],
        word: WordQuery,
        limit: Annotated[int, Query(ge=1, le=200)] = 20,
        offset: Annotated[int, Query(ge=0, le=1 << 40)] = 0,
    ) -> Answer:
        """A word, or several in a row, in the sentences of the corpus."""
        text = library.corpus(corpus)

        def found() -> dict[str, Any]:
            tokens = places(corpus, word)
            length = len(_wanted(text, word))
            hits = [_place(text, int(token), length) for token in tokens[offset : offset + limit]]
            return {"total": len(tokens), "hits": hits}

        return Answer(await corpora[corpus].ask(found))

    @router.get("/sentence", response_model=SentenceShape)
    async def sentence(
        corpus: Annotated[str, Query(min_length=1, max_length=200, description="name of a corpus or an index")],
        number: Annotated[int, Query(ge=0, le=1 << 40)],
    ) -> Answer:
        """A sentence of the corpus, as written and as cut."""
        text = library.corpus(corpus)
        if number >= text.n_sentences:
            raise OptionError(f"{corpus!r} has {text.n_sentences:,} sentences, no number {number:,}")
        return Answer({"number": number, "text": text.text(number), "tokens": text.sentence(number)})

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


def _wanted(corpus: Corpus, query: str) -> list[str]:
    return [query] if query in corpus.vocabulary else corpus.segmentation.tokens(query)


def _occurrences(corpus: Corpus, query: str) -> NDArray[np.int64]:
    """Places in ``corpus.ids`` where the words of the query stand in a row, within one sentence."""
    wanted = corpus.vocabulary.ids(_wanted(corpus, query))
    if not len(wanted) or (wanted >= len(corpus.vocabulary)).any():
        return np.empty(0, dtype=np.int64)
    starts = np.flatnonzero(corpus.ids == wanted[0])
    for step, word in enumerate(wanted[1:], start=1):
        starts = starts[starts + step < len(corpus.ids)]
        starts = starts[corpus.ids[starts + step] == word]
    if len(wanted) > 1:
        first = np.searchsorted(corpus.sentence_offsets, starts, side="right")
        last = np.searchsorted(corpus.sentence_offsets, starts + len(wanted) - 1, side="right")
        starts = starts[first == last]
    return np.asarray(starts, dtype=np.int64)


def _place(corpus: Corpus, token: int, length: int) -> dict[str, Any]:
    sentence = int(np.searchsorted(corpus.sentence_offsets, token, side="right")) - 1
    within = token - int(corpus.sentence_offsets[sentence])
    spans = corpus.token_spans(sentence)
    text = corpus.text(sentence)
    start, end = spans[within][0], spans[within + length - 1][1]
    tag = corpus.tag_names[int(corpus.tags[token])] if corpus.tags is not None else None
    return {
        "sentence": sentence, "token": within, "word": text[start:end], "score": 1.0, "text": text,
        "start": start, "end": end, "tag": tag,
    }  # fmt: skip
