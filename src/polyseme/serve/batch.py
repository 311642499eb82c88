"""Micro-batching (小批合并): questions that arrive together are answered by one call, in a thread of the model's own.

A model is used by its thread alone, so it need not be safe for threads. While it works, questions wait in a queue,
never longer than the ``wait`` of their kind: a question that would wait longer, by the time that the last ones took, is
refused at once (503, with the seconds after which to ask again), since a server that queues without bound answers
everybody too late. Answers that take long are kept (``ResponseCache``).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from polyseme.errors import PolysemeError

Q = TypeVar("Q")
A = TypeVar("A")

_RECENT = 0.3  # how much the last call counts in the mean time of a call


class ServerBusy(PolysemeError):
    """Too much is being asked, or the answer took too long: try again after so many seconds."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = max(1, math.ceil(retry_after))


@dataclass(eq=False)
class _Waiting(Generic[Q, A]):
    question: Q
    future: asyncio.Future[A]
    begun: bool = False
    alarms: list[asyncio.TimerHandle] = field(default_factory=list)


class Batcher(Generic[Q, A]):
    """Answers questions in batches, in order, in one thread."""

    def __init__(
        self,
        answer: Callable[[list[Q]], Sequence[A]],
        *,
        most: int = 64,  # questions in one call
        waiting: int = 256,  # questions in the queue, before the next one is refused
        collect: float = 0.0,  # seconds to wait for company before a call, where the last one had some
        wait: float = 1.0,  # seconds that a question waits for its turn, at most
        patience: float = 30.0,  # seconds until a question is given up, the work on it counted
        weigh: Callable[[Q], int] = lambda question: 0,
        heaviest: int = 0,  # what the questions of one call weigh together, at most; one alone may weigh more
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._answer, self._weigh, self._heaviest = answer, weigh, heaviest
        self._most, self._waiting, self._collect = most, waiting, collect
        self._wait, self._patience, self._clock = wait, patience, clock
        self._queue: deque[_Waiting[Q, A]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="polyseme-serve")
        self._task: asyncio.Task[None] | None = None
        self._company = False
        self._seconds_each = 0.0  # that a question took recently
        self._call_ends = 0.0  # by the clock, if it takes as long as those before

    async def ask(self, question: Q) -> A:
        """The answer, or what the answering raised; ServerBusy where it would come too late."""
        expected = self._expected_wait()
        if len(self._queue) >= self._waiting or expected > self._wait:
            raise ServerBusy("too many requests of this kind are waiting: try again in a moment", expected)
        loop = asyncio.get_running_loop()
        asked: _Waiting[Q, A] = _Waiting(question, loop.create_future())
        self._queue.append(asked)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())
        asked.alarms = [
            loop.call_later(self._wait, self._waited_too_long, asked),
            loop.call_later(self._patience, self._give_up, asked),
        ]
        try:
            return await asked.future
        finally:
            for alarm in asked.alarms:
                alarm.cancel()

    def warm_up(self, question: Q) -> None:
        """Answer a question that nobody asked, so that what is made at the first one is there for the next."""
        self._thread.submit(self._answer_each, [question])

    def _expected_wait(self) -> float:
        return max(0.0, self._call_ends - self._clock()) + len(self._queue) * self._seconds_each

    def _waited_too_long(self, asked: _Waiting[Q, A]) -> None:
        if not asked.begun and not asked.future.done():
            message = f"the request waited {self._wait:g} s for its turn: try again in a moment"
            asked.future.set_exception(ServerBusy(message, self._expected_wait()))

    def _give_up(self, asked: _Waiting[Q, A]) -> None:
        if not asked.future.done():
            message = f"no answer within {self._patience:g} s: ask for less, or try again later"
            asked.future.set_exception(ServerBusy(message))

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            if self._company and self._collect and len(self._queue) < self._most:
                await asyncio.sleep(self._collect)
            batch = self._next_batch()
            self._company = len(batch) > 1
            if not batch:
                continue
            begun = self._clock()
            self._call_ends = begun + self._seconds_each * len(batch)
            results = await loop.run_in_executor(self._thread, self._answer_each, [asked.question for asked in batch])
            each = (self._clock() - begun) / len(batch)
            self._seconds_each += _RECENT * (each - self._seconds_each)
            self._call_ends = 0.0
            for asked, result in zip(batch, results, strict=True):
                if asked.future.done():  # its client went away or lost patience
                    continue
                if isinstance(result, Exception):
                    asked.future.set_exception(result)
                else:
                    asked.future.set_result(result)

    def _next_batch(self) -> list[_Waiting[Q, A]]:
        batch: list[_Waiting[Q, A]] = []
        weight = 0
        while self._queue and len(batch) < self._most:
            weight += self._weigh(self._queue[0].question)
            if batch and weight > self._heaviest:
                break
            asked = self._queue.popleft()
            if not asked.future.done():
                asked.begun = True
                batch.append(asked)
        return batch

    def _answer_each(self, questions: list[Q]) -> list[A | Exception]:
        try:
            return list(self._answer(questions))
        except Exception as error:
            if len(questions) == 1:
                return [error]
        # One bad question must not spoil the others of its batch.
        return [answer for question in questions for answer in self._answer_each([question])]


class Worker(Batcher[Callable[[], Any], Any]):
    """A thread that carries out calls one after the other: for work that does not gain from batches."""

    def __init__(self, *, waiting: int = 64, wait: float = 2.0, patience: float = 60.0) -> None:
        super().__init__(
            lambda calls: [call() for call in calls], most=1, waiting=waiting, wait=wait, patience=patience
        )


class ResponseCache:
    """The bodies of the last answers, up to ``most`` bytes; what many ask at the same time is computed once."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._bodies: OrderedDict[Hashable, bytes] = OrderedDict()
        self._pending: dict[Hashable, asyncio.Future[bytes]] = {}

    async def ask(self, key: Hashable, worker: Worker, compute: Callable[[], bytes]) -> bytes:
        """The answer that is kept under ``key``, or what the worker computes; ServerBusy where it is asked too much."""
        if key in self._bodies:
            self._bodies.move_to_end(key)
            return self._bodies[key]
        if key not in self._pending:
            task = asyncio.ensure_future(worker.ask(compute))
            self._pending[key] = task
            task.add_done_callback(partial(self._store, key))
        return await asyncio.shield(self._pending[key])  # a client that leaves takes nothing from the others

    def _store(self, key: Hashable, task: asyncio.Future[bytes]) -> None:
        del self._pending[key]
        if task.cancelled() or task.exception():
            return
        self._bodies[key] = task.result()
        self._size += len(task.result())
        while self._size > self._most:
            self._size -= len(self._bodies.popitem(last=False)[1])
