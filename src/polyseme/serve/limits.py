"""uvicorn's HTTP protocol with bounds on what a client can hold: connections, the head of a request, unread answers.

Without them a client that sends headers without end, or one letter a minute, or that never reads its answer, would
hold memory or a connection for ever. The bounds of the body are in ``guard``.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from polyseme.serve.connections import Connections, client_address
from polyseme.serve.guard import App
from polyseme.serve.responses import busy

HEAD_BYTES = 64 << 10
HEAD_SECONDS = 20.0
IDLE_SECONDS = 30
UNREAD_BYTES = 256 << 10  # of an answer in the buffers of one connection; the rest waits
SEND_SECONDS = 10.0  # in which a client must have read three quarters of that


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    _in_head = False
    _head = 0
    _head_alarm: asyncio.TimerHandle | None = None
    _send_alarm: asyncio.TimerHandle | None = None
    address = ""
    last_active = 0.0

    def __init__(self, connections: Connections, **settings: Any) -> None:
        super().__init__(**settings)
        self._all = connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=UNREAD_BYTES, low=UNREAD_BYTES // 4)
        self.address = client_address(self.client)
        self.last_active = self.loop.time()
        self._head_alarm = self.loop.call_later(HEAD_SECONDS, self.abort)
        if not self._all.admit(self):
            self.app = busy("too many connections are open: try again in a moment", close=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.remove(self)
        self._stop_alarm("_head_alarm")
        self._stop_alarm("_send_alarm")
        super().connection_lost(exc)

    def waits_for_client(self) -> bool:
        """Nothing is being computed for it: the next step is the client's."""
        cycle = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body or self.flow.write_paused

    def abort(self) -> None:
        """End it now, whatever is still to be sent."""
        self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head = True, 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_alarm("_head_alarm")
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        self.last_active = self.loop.time()
        super().data_received(data)
        if self._in_head:  # most heads come whole, and never get here
            self._head += len(data)
            if self._head_alarm is None:
                self._head_alarm = self.loop.call_later(HEAD_SECONDS, self.abort)
            if self._head > HEAD_BYTES:
                self.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._send_alarm is None:
            self._send_alarm = self.loop.call_later(SEND_SECONDS, self.abort)

    def resume_writing(self) -> None:
        self._stop_alarm("_send_alarm")
        super().resume_writing()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._send_alarm is None and self.transport.get_write_buffer_size():  # too little to have been paused for
            self._send_alarm = self.loop.call_later(SEND_SECONDS, self._abort_unread)

    def _abort_unread(self) -> None:
        self._send_alarm = None
        if self.transport.get_write_buffer_size():
            self.abort()

    def _stop_alarm(self, name: str) -> None:
        alarm: asyncio.TimerHandle | None = getattr(self, name)
        if alarm:
            alarm.cancel()
            setattr(self, name, None)


def server_of(app: App, connections: Connections | None = None) -> uvicorn.Server:
    """A server of this protocol, quiet and without what we do not use."""
    config = uvicorn.Config(
        app,
        http=partial(BoundedProtocol, Connections() if connections is None else connections),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=3,
    )
    return uvicorn.Server(config)
