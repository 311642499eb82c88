"""What is served stays in one version, whatever happens to its folders; what is computed long is computed once."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import pytest

from polyseme.errors import UnknownWord
from polyseme.search import build_index
from polyseme.sentences.lift import lift
from polyseme.serve.app import create_app
from polyseme.serve.batch import ResponseCache, Worker
from polyseme.serve.library import Library
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

Serving = Callable[..., AbstractContextManager[str]]

pytestmark = pytest.mark.usefixtures("every_core")


def write_version(folder: Path, number: int) -> None:
    """Write word vectors, an encoder, a corpus and an index whose words all contain the version number."""
    words = [f"v{number}w{place}" for place in range(30)]
    rng = np.random.default_rng(number)
    vectors = WordVectors(Vocabulary(words, np.arange(30, 0, -1)), rng.normal(size=(30, 8)).astype(np.float32))
    vectors.save(folder / "words", force=True)
    lift(vectors, "contexts").save(folder / "static", force=True)
    sentences = [[words[(place * step) % 30] for step in range(1, 6)] for place in range(60)]
    corpus = Corpus.from_sentences(sentences, folder / "corpus", segment="space", force=True)
    build_index(folder / "static", corpus, folder / "index", dim=2 + number, force=True)


@contextmanager
def replaced_meanwhile(folder: Path) -> Iterator[threading.Event]:
    """A writer that replaces everything by versions 2 to 5, over and over; yields an event set when it has begun."""
    done, began = threading.Event(), threading.Event()

    def write() -> None:
        while not done.is_set():
            for number in range(2, 6):
                write_version(folder, number)
                began.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield began
    finally:
        done.set()
        writer.join()


QUESTIONS = (
    "/api/neighbours?model=words&word=v1w3",
    "/api/words?model=words&prefix=v",
    "/api/senses?index=index&word=v1w0",
    "/api/search?corpus=corpus&word=v1w0",
    "/api/concordance?corpus=index&query=v1w0",
    "/api/map?model=words&size=30",
)


def test_what_is_served_is_never_mixed_with_what_takes_its_place(tmp_path: Path, serving: Serving) -> None:
    write_version(tmp_path, 1)
    library = Library.open(tmp_path / name for name in ("words", "static", "index", "corpus"))
    same = {"index": "index", "sentence": ["v1w0", "v1w1"], "position": 0}
    with (
        serving(create_app(library)) as address,
        httpx.Client(base_url=address, timeout=30, trust_env=False) as client,
        replaced_meanwhile(tmp_path) as began,
    ):
        assert began.wait(60)
        for _ in range(3):
            answers = [client.get(question) for question in QUESTIONS]
            answers.append(client.post("/api/same-sense", json=same))
            for answer in answers:
                assert answer.status_code == 200, answer.text
                assert set(re.findall(r"v(\d)w", answer.text)) == {"1"}, answer.text


def test_a_model_that_is_being_replaced_is_served_in_one_version(tmp_path: Path) -> None:
    write_version(tmp_path, 1)
    seen: set[str] = set()
    with replaced_meanwhile(tmp_path):
        while len(seen) < 3:
            words = Library.open([tmp_path / "words"]).items["words"].thing
            found = {word[:2] for word in words.index_to_key}
            assert len(found) == 1
            seen |= found


def test_what_is_asked_again_is_computed_once_and_the_oldest_answers_are_forgotten() -> None:
    computed: list[str] = []

    def compute(word: str) -> bytes:
        computed.append(word)
        if word == "bad":
            raise UnknownWord(word)
        return word.encode() * 10

    async def questions() -> None:
        kept, worker = ResponseCache(most=30), Worker()
        for _ in range(2):
            together = [kept.ask("a", worker, partial(compute, "a")) for _ in range(20)]
            assert set(await asyncio.gather(*together)) == {b"a" * 10}
        assert computed == ["a"]
        for word in ("b", "c", "d"):  # with the third of them, a is one too many
            await kept.ask(word, worker, partial(compute, word))
        await kept.ask("b", worker, partial(compute, "b"))
        assert computed == ["a", "b", "c", "d"]
        await kept.ask("a", worker, partial(compute, "a"))
        assert computed == ["a", "b", "c", "d", "a"]
        for _ in range(2):  # an error is not kept
            with pytest.raises(UnknownWord):
                await kept.ask("bad", worker, partial(compute, "bad"))
        assert computed[-2:] == ["bad", "bad"]

    with ThreadPoolExecutor(1) as pool:  # the browser of other tests keeps an event loop in this thread
        pool.submit(lambda: asyncio.run(questions())).result()
