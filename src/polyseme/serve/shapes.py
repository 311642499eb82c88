"""The shapes of questions and answers, as OpenAPI describes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt

from polyseme.search.kwic.concordance import Line
from polyseme.search.occurrences.uses import UseOccurrence


def _writable(text: str) -> str:
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise ValueError("holds half of a surrogate pair, which is not text")
    return text


Name = Annotated[str, Field(min_length=1, max_length=200, description="name of a loaded model, index or corpus")]
Word = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_writable)]
Text = Annotated[str, Field(max_length=20_000), AfterValidator(_writable)]
Tokens = Annotated[list[Word], Field(max_length=2_000)]
TwoTexts = Annotated[list[Text], Field(min_length=2, max_length=2)]
Layers = Literal["all", "top", "mean", "mix"] | Annotated[int, Field(ge=0, le=64)]

Unknown = Annotated[
    Literal["zeros", "nan", "error"],
    Field(description="what a text without any known word gives: zeros, NaN (null in JSON) or an error"),
]

ModelQuery = Annotated[str, Query(min_length=1, max_length=200, description="name of a loaded model")]
IndexQuery = Annotated[str, Query(min_length=1, max_length=200, description="name of a loaded index")]
WordQuery = Annotated[str, Query(min_length=1, max_length=200), AfterValidator(_writable)]
TextQuery = Annotated[str, Query(min_length=1, max_length=500), AfterValidator(_writable)]


class RequestBody(BaseModel):
    """A body in which nothing unknown is skipped in silence."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AskNeighbours(BaseModel):
    model: Name
    word: Word
    topn: Annotated[int, Field(ge=1, le=200, description="how many")] = 10


class AskAnalogy(BaseModel):
    model: Name
    a: Word
    b: Word
    c: Word
    topn: Annotated[int, Field(ge=1, le=200, description="how many")] = 10
    method: Literal["add", "mul"] = "add"


class EncodeTokens(RequestBody):
    model: Name
    sentences: Annotated[list[Text | Tokens], Field(min_length=1, max_length=256)]
    layers: Layers = "top"


class AskAttention(RequestBody):
    model: Name
    sentence: Text | Tokens
    layer: int | None = None  # from 1; the top one unless given
    head: int = 1


class AttentionShape(BaseModel):
    model: str
    tokens: list[str]
    layers: int
    heads: int
    layer: int
    head: int
    weights: list[list[float]]  # from each word to each word; what is missing to one goes to special pieces


class EncodeTexts(RequestBody):
    model: Name
    texts: Annotated[list[Text | Tokens], Field(min_length=1, max_length=1024)]
    unknown: Unknown = "zeros"


class AskPassage(RequestBody):
    passage: Text
    question: Annotated[Text, Field(max_length=2_000)]


class AskChoice(RequestBody):
    context: Text
    alternatives: Annotated[list[Text], Field(min_length=2, max_length=26)]


class AskPredict(RequestBody):
    """Rows of one kind, the one that the model's task takes."""

    model: Name
    texts: Annotated[list[Text | Tokens], Field(min_length=1, max_length=1024)] | None = None
    pairs: Annotated[list[TwoTexts], Field(min_length=1, max_length=1024)] | None = None
    sentences: Annotated[list[Text | Tokens], Field(min_length=1, max_length=256)] | None = None
    passages: Annotated[list[AskPassage], Field(min_length=1, max_length=64)] | None = None
    choices: Annotated[list[AskChoice], Field(min_length=1, max_length=64)] | None = None
    attention: Annotated[bool, Field(description="also how much each word mattered, if the head has attention")] = False


class SameSense(RequestBody):
    index: Name
    sentence: Text | Tokens
    position: Annotated[int, Field(ge=0, le=20_000)] | None = None
    word: Word | None = None
    topn: Annotated[int, Field(ge=1, le=200)] = 10
    any_word: bool = False
    layer: Annotated[int, Field(ge=0, le=64)] | None = None


class SearchTexts(RequestBody):
    model: Name
    texts: Name
    query: Annotated[str, Field(min_length=1, max_length=2_000), AfterValidator(_writable)]
    k: Annotated[int, Field(ge=1, le=200, description="how many")] = 10
    how: Literal["vectors", "words", "both"] = "vectors"
    context: Annotated[int, Field(ge=0, le=20, description="neighbouring texts shown")] = 1


class Embeddings(BaseModel):
    """OpenAI's request, and ``unknown``; what we do not know of it (``user``) is skipped, as clients expect."""

    model: Name
    input: Text | Annotated[list[Text], Field(min_length=1, max_length=1024)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[StrictInt, Field(ge=1)] | None = None
    unknown: Unknown = "zeros"


class Failure(BaseModel):
    """Every answer that is not a success."""

    class Detail(BaseModel):
        message: str
        type: str

    error: Detail


class ScoredWord(BaseModel):
    word: str
    score: float


class WordCount(BaseModel):
    word: str
    count: int


class WordList(BaseModel):
    model: str
    total: int
    words: list[WordCount]


class Neighbours(BaseModel):
    model: str
    word: str
    neighbours: list[ScoredWord]


class Analogy(BaseModel):
    model: str
    a: str
    b: str
    c: str
    answers: list[ScoredWord]


class Link(BaseModel):
    source: str
    target: str
    score: float


class Graph(BaseModel):
    model: str
    word: str
    nodes: list[ScoredWord]
    links: list[Link]


class MapPoint(BaseModel):
    word: str
    x: float
    y: float
    count: int
    cluster: int
    tag: str | None


class VocabularyMap(BaseModel):
    model: str
    method: Literal["pca", "tsne"]
    state: Literal["ready", "computing", "failed"]
    reason: str | None = None
    points: list[MapPoint]
    tags: list[str]  # of the words, by a tagged corpus that is loaded too; the most frequent first


class TokenVectors(BaseModel):
    tokens: list[str]
    layers: list[list[list[float]]]


class EncodedTokens(BaseModel):
    model: str
    sentences: list[TokenVectors]


class EncodedTexts(BaseModel):
    model: str
    unknown: list[int]  # the numbers, from 0 on, of texts without any known word
    vectors: list[list[float] | None]


class Predictions(BaseModel):
    model: str
    task: str
    predictions: list[dict[str, Any]]


class CutText(BaseModel):
    tokens: list[str]


class SentenceShape(BaseModel):
    number: int
    text: str
    tokens: list[str]


class HitShape(BaseModel):
    occurrence: int | None = None  # its place in an index; not there for a place in a corpus
    sentence: int
    token: int
    word: str
    score: float
    text: str
    start: int
    end: int
    tag: str | None


class FoundText(BaseModel):
    """A text; ``marks`` are starts and ends of words that the query has too."""

    number: int
    score: float
    text: str
    source: str
    line: int
    marks: list[tuple[int, int]]
    before: list[str]
    after: list[str]


class FoundTexts(BaseModel):
    model: str
    texts: str
    hits: list[FoundText]


class Hits(BaseModel):
    hits: list[HitShape]
    cutoff: float | None  # hits with a lower score are as likely used otherwise
    expected: list[str]  # by the language model, in the place of the word


class SenseShape(BaseModel):
    share: float
    size: int
    sure: float | None  # mean silhouette
    substitutes: list[str]
    typical: list[HitShape]


class SensePoint(BaseModel):
    x: float
    y: float
    sense: int
    sure: float
    hit: HitShape


class Senses(BaseModel):
    index: str
    word: str
    count: int
    looked_at: int  # of these occurrences, evenly drawn
    sure: float | None
    labels: Literal["substitutes", "company"]  # what ``substitutes`` hold: the model's own, or words that occur near
    senses: list[SenseShape]
    points: list[SensePoint]


class UsesShape(BaseModel):
    count: int
    occurrences: list[UseOccurrence]


class SentenceHits(BaseModel):
    total: int
    hits: list[HitShape]


class ConcordanceShape(BaseModel):
    count: int
    per_million: float
    documents: int
    of_documents: int
    dispersion: float | None
    parts: list[int]
    lines: list[Line]


class CollocateShape(BaseModel):
    word: str
    count: int
    left: int
    right: int
    in_corpus: int
    expected: float
    loglik: float
    mi: float
    logdice: float


class CollocatesShape(BaseModel):
    count: int
    collocates: list[CollocateShape]


class LibraryShape(BaseModel):
    version: str
    items: list[dict[str, Any]]


class Card(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str
    kind: str
    options: list[dict[str, Any]]
    corpus: dict[str, Any]


class Curve(BaseModel):
    name: str
    records: list[dict[str, Any]]
