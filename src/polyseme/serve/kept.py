"""Answers that take long, kept: asked again they come at once, and what many ask at the same time is computed once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable

from polyseme.serve.batch import Worker


class KeptAnswers:
    """The bodies of the last answers, up to ``most`` bytes together."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._bodies: OrderedDict[Hashable, bytes] = OrderedDict()
        self._coming: dict[Hashable, asyncio.Future[bytes]] = {}

    async def ask(self, key: Hashable, worker: Worker, compute: Callable[[], bytes]) -> bytes:
        """The answer that is kept under ``key``, or what the worker computes; Busy where it is asked too much."""
        if key in self._bodies:
            self._bodies.move_to_end(key)
            return self._bodies[key]
        if key not in self._coming:
            coming = asyncio.ensure_future(worker.ask(compute))
            self._coming[key] = coming
            coming.add_done_callback(lambda done: self._came(key, done))
        return await asyncio.shield(self._coming[key])  # a client that leaves takes nothing from the others

    def _came(self, key: Hashable, coming: asyncio.Future[bytes]) -> None:
        del self._coming[key]
        if coming.cancelled() or coming.exception():
            return
        self._bodies[key] = coming.result()
        self._size += len(coming.result())
        while self._size > self._most:
            self._size -= len(self._bodies.popitem(last=False)[1])
