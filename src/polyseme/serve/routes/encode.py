"""What one asks of encoders: vectors of tokens and of texts, and the same in OpenAI's shape."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query

from polyseme.arrays import FloatArray, filled_rows
from polyseme.errors import OptionError
from polyseme.interfaces import ContextEncoder, EncodedSentence, SentenceEncoder, mark_unknown
from polyseme.sentences.lift import lift
from polyseme.serve.batch import Batcher, ServerBusy
from polyseme.serve.library import Library
from polyseme.serve.responses import JsonAnswer, RefusedParameter
from polyseme.serve.shapes import CutText, Embeddings, EncodedTexts, EncodedTokens, EncodeTexts, EncodeTokens, Text

ENCODERS = ("words", "contexts", "sentences")
MOST_NUMBERS = 2_000_000  # in one answer: some 40 MB of JSON
MOST_CHARACTERS = 200_000  # in one question
BATCH_CHARACTERS = 20_000  # of small questions that are answered by one call: none waits long for the others
LARGE = 100_000  # numbers in an answer that is written in a thread of its own
LARGE_AT_ONCE = 4  # such answers of one model that are in memory at a time
WAIT = 2.0  # seconds for a turn
COLLECT = 0.003  # seconds that an encode waits for company while there is some


@dataclass(frozen=True)
class Encode:
    """Sentences to encode; ``layers`` is None for one vector per text."""

    sentences: list[Any]
    layers: str | int | None


class SharedEncoder:
    """One encoder: concurrent questions become one call, in the encoder's own thread."""

    def __init__(self, model: Any, texts: SentenceEncoder) -> None:
        self.tokens = None if isinstance(model, SentenceEncoder) else lift(model, "contexts")
        self.texts = texts
        self.batcher: Batcher[Encode, Any] = Batcher(
            self._answer, most=32, waiting=128, collect=COLLECT, wait=WAIT, weigh=_characters, heaviest=BATCH_CHARACTERS
        )
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)

    def most_numbers(self, question: Encode) -> int:
        """What the answer may hold, before anything is cut into tokens."""
        if question.layers is None or not self.tokens:
            return len(question.sentences) * self.texts.dim
        planes = self.tokens.n_layers if question.layers == "all" else 1
        return _characters(question) * planes * self.tokens.dim

    @asynccontextmanager
    async def memory(self) -> AsyncIterator[None]:
        """One of a few places for large answers."""
        try:
            await asyncio.wait_for(self._large.acquire(), WAIT)
        except asyncio.TimeoutError:
            raise ServerBusy("too many large requests are being processed: try again in a moment") from None
        try:
            yield
        finally:
            self._large.release()

    def _answer(self, questions: list[Encode]) -> list[Any]:
        answers: list[Any] = [None] * len(questions)
        for layers in dict.fromkeys(question.layers for question in questions):
            places = [i for i, question in enumerate(questions) if question.layers == layers]
            together = [sentence for i in places for sentence in questions[i].sentences]
            encoded: Any
            if layers is not None and self.tokens:
                encoded = self._encoded_tokens(self.tokens, together, layers)
            else:
                encoded = self.texts.encode_silently(together)
            start = 0
            for i in places:
                stop = start + len(questions[i].sentences)
                answers[i], start = encoded[start:stop], stop
        return answers

    @staticmethod
    def _encoded_tokens(encoder: ContextEncoder, sentences: list[Any], layers: str | int) -> list[EncodedSentence]:
        cut = [encoder.tokenize(sentence) if isinstance(sentence, str) else sentence for sentence in sentences]
        planes = encoder.n_layers if layers == "all" else 1
        # Before they take any memory; questions that are too large only together are then asked one by one.
        if sum(map(len, cut)) * planes * encoder.dim > MOST_NUMBERS:
            raise OptionError(
                f"the response would contain more than {MOST_NUMBERS:,} numbers: ask for one layer or fewer sentences"
            )
        return list(encoder.encode_tokens(cut, layers=layers))


def text_routes(library: Library) -> APIRouter:
    """Routes under /api and /v1."""
    router = APIRouter(tags=["encode"])
    encoders = {
        name: SharedEncoder(item.thing, library.as_texts(item.thing))
        for name, item in library.items.items()
        if item.kind in ENCODERS
    }

    async def answer(
        model: str, sentences: list[Any], layers: str | int | None, write: Callable[[Any], bytes]
    ) -> JsonAnswer:
        library.find(model, *ENCODERS)
        encoder, question = encoders[model], Encode(sentences, layers)
        if layers is not None and encoder.tokens is None:
            raise OptionError(f"{model!r} gives vectors of texts only, not of tokens")
        if _characters(question) > MOST_CHARACTERS:
            raise OptionError(f"one request takes at most {MOST_CHARACTERS:,} characters: send several")
        if encoder.most_numbers(question) < LARGE:
            return JsonAnswer(write(await encoder.batcher.ask(question)))
        async with encoder.memory():
            return JsonAnswer(await asyncio.to_thread(write, await encoder.batcher.ask(question)))

    @router.post("/api/encode/tokens", response_model=EncodedTokens)
    async def encode_tokens(question: EncodeTokens) -> JsonAnswer:
        """One vector per token and layer: ``layers`` is (layers, tokens, dim)."""
        return await answer(question.model, question.sentences, question.layers, partial(_tokens_json, question.model))

    @router.post("/api/encode/texts", response_model=EncodedTexts)
    async def encode_texts(question: EncodeTexts) -> JsonAnswer:
        """One vector per text; of words and tokens their mean, or what the server was started with (--pool)."""
        return await answer(question.model, question.texts, None, partial(_texts_json, question))

    @router.get("/api/tokens", response_model=CutText)
    async def tokens(
        model: Annotated[str, Query(min_length=1, max_length=200, description="a model, an index or a corpus")],
        text: Annotated[Text, Query(max_length=2000)],
    ) -> JsonAnswer:
        """Text segmented like the model's training text."""
        thing = library.find(model)
        if library.items[model].kind in ("index", "corpus"):
            cut = library.corpus(model).tokenize
        elif hasattr(thing, "tokenize"):
            cut = thing.tokenize
        else:
            raise OptionError(f"{model!r} reads whole texts and does not segment them")
        return JsonAnswer({"tokens": await asyncio.to_thread(cut, text)})

    @router.post("/v1/embeddings", tags=["openai"])
    async def embeddings(question: Embeddings) -> JsonAnswer:
        """OpenAI's embeddings call: the vectors of /api/encode/texts.

        ``dimensions`` may be that of the model; a model whose first dimensions are a smaller model of its kind (LSA)
        takes fewer. A text without any known word is marked by ``unknown: true``.
        """
        texts = [question.input] if isinstance(question.input, str) else question.input
        if "" in texts:
            raise RefusedParameter(f"input: text {texts.index('')} is empty", "input", "empty_string")
        if question.model in encoders:
            check_dimensions(question, encoders[question.model].texts)
        write = partial(_openai_json, question, list(texts))
        return await answer(question.model, list(texts), None, write)

    @router.get("/v1/models", tags=["openai"])
    async def models() -> JsonAnswer:
        """The models that /v1/embeddings takes."""
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "polyseme"} for name in encoders]
        return JsonAnswer({"object": "list", "data": data})

    return router


def check_dimensions(question: Embeddings, encoder: SentenceEncoder) -> None:
    """Refuse a number of dimensions that the model cannot give."""
    n, dim = question.dimensions, encoder.dim
    if n is None or n == dim or (n < dim and encoder.shortens):
        return
    possible = f"1 to {dim:,}" if encoder.shortens else f"{dim:,}, since its vectors cannot be shortened"
    raise RefusedParameter(f"dimensions: {question.model!r} gives {possible}, not {n:,}", "dimensions")


def _characters(question: Encode) -> int:
    return sum(len(s) if isinstance(s, str) else sum(map(len, s)) for s in question.sentences)


def _finite(vectors: FloatArray) -> FloatArray:
    return np.nan_to_num(vectors)  # JSON has no NaN


def _base64(vector: FloatArray) -> str:
    return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()


def _marked(texts: Sequence[Any], unknown: str, vectors: FloatArray) -> tuple[FloatArray, list[int]]:
    """The vectors, NaN where that is asked for, and the numbers of the texts without any known word."""
    marked = _finite(vectors)
    rows = np.flatnonzero(~filled_rows(marked)).tolist()
    mark_unknown(marked, texts, unknown)
    return marked, rows


def _texts_json(question: EncodeTexts, vectors: FloatArray) -> bytes:
    marked, unknown = _marked(question.texts, question.unknown, vectors)
    return _joined({"model": question.model, "unknown": unknown}, "vectors", map(_numbers, marked))


def _openai_json(question: Embeddings, texts: list[str], vectors: FloatArray) -> bytes:
    marked, unknown = _marked(texts, question.unknown, vectors)
    write, empty = _base64 if question.encoding_format == "base64" else _numbers, set(unknown)
    data = (
        {"object": "embedding", "index": i, "embedding": write(vector)} | ({"unknown": True} if i in empty else {})
        for i, vector in enumerate(marked[:, : question.dimensions])
    )
    characters = sum(map(len, texts))
    usage = {"prompt_tokens": characters, "total_tokens": characters}  # characters: the tokens of each model differ
    return _joined({"object": "list", "model": question.model, "usage": usage}, "data", data)


def _numbers(vector: FloatArray) -> list[float] | None:
    """A vector as JSON has it; None for NaN, which it has not."""
    return None if np.isnan(vector[:1]).any() else vector.tolist()


def _tokens_json(model: str, encoded: list[EncodedSentence]) -> bytes:
    rows = ({"tokens": s.tokens, "layers": _finite(s.layers).tolist()} for s in encoded)
    return _joined({"model": model}, "sentences", rows)


def _joined(facts: dict[str, Any], name: str, rows: Iterable[Any]) -> bytes:
    """The facts, and under ``name`` the rows, written one by one: other threads get their turn between two of them."""
    write = partial(json.dumps, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return f"{write(facts)[:-1]},{write(name)}:[{','.join(map(write, rows))}]}}".encode()
