"""Concurrent queries share calls; a full queue refuses; one bad query fails alone."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from polyseme.interfaces import SentenceEncoder
from polyseme.serve.app import create_app
from polyseme.serve.batch import Batcher, ServerBusy
from polyseme.serve.library import Library


def test_questions_that_wait_together_are_answered_by_one_call() -> None:
    sizes: list[int] = []
    first = threading.Event()

    def answer(questions: list[int]) -> list[int]:
        sizes.append(len(questions))
        if len(sizes) == 1:
            first.wait(10)
        return [q * q for q in questions]

    async def ask_all() -> list[int]:
        batcher = Batcher(answer, most=16)
        asked = [asyncio.create_task(batcher.ask(0))]
        while not sizes:  # the first call is under way; what comes now has to wait
            await asyncio.sleep(0)
        asked += [asyncio.create_task(batcher.ask(n)) for n in range(1, 21)]
        await asyncio.sleep(0)
        first.set()
        return await asyncio.gather(*asked)

    assert asyncio.run(ask_all()) == [n * n for n in range(21)]
    assert sizes == [1, 16, 4]


def test_one_bad_question_fails_alone() -> None:
    def answer(questions: list[int]) -> list[float]:
        return [1 / q for q in questions]

    async def ask_all() -> list[Any]:
        batcher = Batcher(answer)
        return await asyncio.gather(*(batcher.ask(q) for q in (1, 0, 2)), return_exceptions=True)

    one, bad, half = asyncio.run(ask_all())
    assert (one, half) == (1, 0.5)
    assert isinstance(bad, ZeroDivisionError)


def test_a_full_queue_refuses_at_once_and_the_rest_is_answered() -> None:
    release = threading.Event()

    def answer(questions: list[int]) -> list[int]:
        release.wait(10)
        return questions

    async def ask_all() -> list[Any]:
        batcher = Batcher(answer, most=1, waiting=2)
        asked = [asyncio.create_task(batcher.ask(n)) for n in range(10)]
        await asyncio.wait(asked[3:], timeout=5, return_when=asyncio.FIRST_COMPLETED)
        release.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = asyncio.run(ask_all())
    assert 2 <= sum(isinstance(a, int) for a in answers) <= 3
    assert sum(isinstance(a, ServerBusy) for a in answers) >= 7


def test_heavy_questions_are_not_answered_by_one_call() -> None:
    calls: list[list[int]] = []

    def answer(questions: list[int]) -> list[int]:
        calls.append(questions)
        return questions

    async def ask() -> list[int]:
        batcher = Batcher(answer, weigh=lambda question: question, heaviest=10)
        return await asyncio.gather(*(batcher.ask(n) for n in (4, 5, 6, 50, 1, 2)))

    assert asyncio.run(ask()) == [4, 5, 6, 50, 1, 2]
    assert calls == [[4, 5], [6], [50], [1, 2]]


def test_patience_ends() -> None:
    release = threading.Event()

    def answer(questions: list[int]) -> list[int]:
        release.wait(10)
        return questions

    async def ask() -> int:
        try:
            return await Batcher(answer, patience=0.05).ask(1)
        finally:
            release.set()

    with pytest.raises(ServerBusy, match=r"no answer within 0\.05 s"):
        asyncio.run(ask())


def test_a_question_that_waits_too_long_for_its_turn_is_given_up_and_one_at_work_is_not() -> None:
    release = threading.Event()

    def answer(questions: list[int]) -> list[int]:
        release.wait(10)
        return questions

    async def ask_both() -> tuple[Any, int]:
        batcher = Batcher(answer, most=1, wait=0.05)
        first, second = (asyncio.create_task(batcher.ask(n)) for n in (1, 2))
        (given_up,) = await asyncio.gather(second, return_exceptions=True)
        release.set()
        return given_up, await first

    given_up, answered = asyncio.run(ask_both())
    assert isinstance(given_up, ServerBusy)
    assert "waited 0.05 s for its turn" in str(given_up)
    assert answered == 1


def test_a_question_that_would_wait_too_long_is_refused_at_once_and_told_when_to_come_back() -> None:
    now = [0.0]

    def answer(questions: list[int]) -> list[int]:
        now[0] += 5  # seconds, each
        return questions

    async def ask_all() -> list[Any]:
        batcher = Batcher(answer, most=1, wait=12, clock=lambda: now[0])
        for n in range(20):
            assert await batcher.ask(n) == n
        asked = [asyncio.create_task(batcher.ask(n)) for n in range(5)]
        return await asyncio.gather(*asked, return_exceptions=True)

    answered, refused = (answers := asyncio.run(ask_all()))[:3], answers[3:]
    assert answered == [0, 1, 2]  # the third waits ten seconds
    assert [(type(one), one.retry_after) for one in refused] == [(ServerBusy, 15)] * 2


def test_concurrent_encodes_share_calls_of_the_encoder(address: str, encoder: Any) -> None:
    question = {"model": "context", "texts": ["他 打 电话"]}
    before = encoder.calls
    with ThreadPoolExecutor(16) as pool, httpx.Client(base_url=address, trust_env=False) as client:
        posts = [pool.submit(client.post, "/api/encode/texts", json=question) for _ in range(64)]
        answers = [post.result().json()["vectors"] for post in posts]
    assert all(answer == answers[0] for answer in answers)
    assert encoder.calls - before < 64


def test_more_than_the_queue_holds_gets_503_with_a_line_of_json(shelf: Any, serving: Any) -> None:
    gate = threading.Event()

    class Slow(SentenceEncoder):
        """An encoder that waits until it is released."""

        dim = 4

        def encode_batch(self, texts: Any) -> Any:
            import numpy as np

            gate.wait(20)
            return np.zeros((len(texts), 4), dtype=np.float32)

    from polyseme.serve.library import Item

    app = create_app(Library([Item("slow", "sentences", "slow", Slow())]))
    with serving(app) as address, ThreadPoolExecutor(200) as pool:

        def post(_: int) -> httpx.Response:
            return httpx.post(
                f"{address}/v1/embeddings", json={"model": "slow", "input": "x"}, timeout=30, trust_env=False
            )

        asked = [pool.submit(post, n) for n in range(200)]
        while sum(future.done() for future in asked) < 30:
            pass
        refused = [future.result() for future in asked if future.done()]
        gate.set()
        answers = [future.result() for future in asked]
    assert {response.status_code for response in refused} == {503}
    assert refused[0].json()["error"]["type"] == "busy"
    assert refused[0].headers["retry-after"] == "1"
    assert {response.status_code for response in answers} == {200, 503}
