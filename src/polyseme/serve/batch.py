"""Micro-batching (小批合并): questions that arrive together are answered by one call, in a thread of the model's own.

A model is used by its thread alone, so it need not be safe for threads. While it works, questions wait in a short
queue; when the queue is full the next one is refused at once (503), since a server that queues without bound answers
everybody too late.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from polyseme.errors import PolysemeError

Q = TypeVar("Q")
A = TypeVar("A")


class Busy(PolysemeError):
    """The queue is full, or the answer took too long: try again later."""


class Batcher(Generic[Q, A]):
    """Answers questions in batches, in order, in one thread."""

    def __init__(
        self,
        answer: Callable[[list[Q]], Sequence[A]],
        *,
        most: int = 64,  # questions in one call
        waiting: int = 256,  # questions in the queue, before the next one is refused
        collect: float = 0.0,  # seconds to wait for company before a call, where the last one had some
        patience: float = 30.0,  # seconds until a question is given up
        weigh: Callable[[Q], int] = lambda question: 0,
        heaviest: int = 0,  # what the questions of one call weigh together, at most; one alone may weigh more
    ) -> None:
        self._answer, self._weigh, self._heaviest = answer, weigh, heaviest
        self._most, self._waiting, self._collect, self._patience = most, waiting, collect, patience
        self._queue: deque[tuple[Q, asyncio.Future[A]]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="polyseme-serve")
        self._task: asyncio.Task[None] | None = None
        self._company = False

    async def ask(self, question: Q) -> A:
        """The answer, or what the answering raised; Busy where the queue is full or patience ends."""
        if len(self._queue) >= self._waiting:
            raise Busy("too many requests are waiting: try again in a moment")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        self._queue.append((question, future))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())
        alarm = loop.call_later(self._patience, self._give_up, future)
        try:
            return await future
        finally:
            alarm.cancel()

    def warm_up(self, question: Q) -> None:
        """Answer a question that nobody asked, so that what is made at the first one is there for the next."""
        self._thread.submit(self._answer_each, [question])

    def _give_up(self, future: asyncio.Future[A]) -> None:
        if not future.done():
            future.set_exception(Busy(f"no answer within {self._patience:g} s: ask for less, or try again later"))

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            if self._company and self._collect and len(self._queue) < self._most:
                await asyncio.sleep(self._collect)
            batch = self._next_batch()
            self._company = len(batch) > 1
            if not batch:
                continue
            results = await loop.run_in_executor(self._thread, self._answer_each, [question for question, _ in batch])
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():  # its client went away or lost patience
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    def _next_batch(self) -> list[tuple[Q, asyncio.Future[A]]]:
        batch: list[tuple[Q, asyncio.Future[A]]] = []
        weight = 0
        while self._queue and len(batch) < self._most:
            question, future = self._queue[0]
            weight += self._weigh(question)
            if batch and weight > self._heaviest:
                break
            self._queue.popleft()
            if not future.done():
                batch.append((question, future))
        return batch

    def _answer_each(self, questions: list[Q]) -> list[A | Exception]:
        try:
            return list(self._answer(questions))
        except Exception as error:
            if len(questions) == 1:
                return [error]
        # One bad question must not spoil the others of its batch.
        return [answer for question in questions for answer in self._answer_each([question])]


class Desk(Batcher[Callable[[], Any], Any]):
    """A thread that carries out calls one after the other: for work that does not gain from batches."""

    def __init__(self, *, waiting: int = 64, patience: float = 60.0) -> None:
        super().__init__(lambda calls: [call() for call in calls], most=1, waiting=waiting, patience=patience)
