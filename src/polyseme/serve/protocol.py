"""uvicorn's HTTP protocol with bounds on the head of a request: its size, and the time it may take to arrive.

Without them a client that sends headers without end, or one letter a minute, would hold memory or a connection for
ever. The bounds of the body are in ``guard``.
"""

from __future__ import annotations

import asyncio

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from polyseme.serve.guard import App

HEAD_BYTES = 64 << 10
HEAD_SECONDS = 20.0
CONNECTIONS = 1000


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    _in_head = False
    _head = 0
    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._alarm = self.loop.call_later(HEAD_SECONDS, self._too_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_alarm()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head = True, 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_alarm()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:  # most heads come whole, and never get here
            self._head += len(data)
            if self._alarm is None:
                self._alarm = self.loop.call_later(HEAD_SECONDS, self._too_late)
            if self._head > HEAD_BYTES:
                self.transport.abort()

    def _too_late(self) -> None:
        self.transport.abort()

    def _stop_alarm(self) -> None:
        if self._alarm:
            self._alarm.cancel()
            self._alarm = None


def server_of(app: App) -> uvicorn.Server:
    """A server of this protocol, quiet and without what we do not use."""
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=3,
    )
    return uvicorn.Server(config)
