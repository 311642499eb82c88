"""Bounds on what a client can hold: connections, the head of a request, answers that it does not read.

Without them a client that sends headers without end, or one letter a minute, or that never reads its answer, would
hold memory or a connection for ever. The bounds of the body are in ``guard``.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter, defaultdict
from functools import partial
from typing import Any, Protocol

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from polyseme.serve.responses import busy

# Connections: of one client, and how many beyond all are told that the server is busy before they are just closed.
CONNECTIONS_OF_ONE_CLIENT, MOST_REFUSED = 300, 100
HEAD_BYTES, HEAD_SECONDS = 64 << 10, 20.0
IDLE_SECONDS = 30
# An answer: what of it is in the buffers of one connection, while the rest waits, and the seconds in which a client
# must have read three quarters of that.
UNREAD_BYTES, SEND_SECONDS = 256 << 10, 10.0
PIECE = 64 << 10  # bytes sent at a time
# Answers on their way: smaller ones are always sent; others up to these bytes together.
LARGE, BYTES_OF_ONE_CLIENT, BYTES_IN_ALL = 1 << 20, 64 << 20, 256 << 20


class Connection(Protocol):
    """What is known of one connection."""

    address: str
    last_active: float

    def waits_for_client(self) -> bool: ...

    def abort(self) -> None: ...


class Connections:
    """The open connections, by the address of the client: how many there may be, in all and from one address.

    A connection that waits for its client (nothing asked yet, half a request sent, an answer not read) can be closed to
    make room; one that waits for an answer cannot. So connections that do nothing never keep anybody else out.
    """

    def __init__(self, *, in_all: int = 1000, of_one_client: int = CONNECTIONS_OF_ONE_CLIENT) -> None:
        self.in_all, self.of_one_client = in_all, of_one_client
        self._by_address: defaultdict[str, set[Connection]] = defaultdict(set)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def admit(self, connection: Connection) -> bool:
        """Count a new connection; False if it has to be refused, since all others are at work."""
        of_client = self._by_address[connection.address]
        room = True
        if len(of_client) >= self.of_one_client:
            room = self._close_one_of(of_client)
        elif self._n >= self.in_all:
            room = self._close_one_of(max(self._by_address.values(), key=len))
        # Looked up again: closing the last one of an address forgets the address.
        self._by_address[connection.address].add(connection)
        self._n += 1
        if not room and self._n > self.in_all + MOST_REFUSED:
            connection.abort()
        return room

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        of_client = self._by_address.get(connection.address, set())
        if connection in of_client:
            of_client.remove(connection)
            self._n -= 1
            if not of_client:
                del self._by_address[connection.address]

    def _close_one_of(self, connections: set[Connection]) -> bool:
        """Close the one that has been waiting for its client longest; False if none does."""
        waiting = [connection for connection in connections if connection.waits_for_client()]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda connection: connection.last_active)
        self.remove(oldest)
        oldest.abort()
        return True


def client_address(client: tuple[str, int] | None) -> str:
    """What tells clients apart: the IPv4 address, or the network of an IPv6 address, which one client has whole."""
    if client is None:
        return ""
    try:
        address = ipaddress.ip_address(client[0].partition("%")[0])
    except ValueError:
        return client[0]
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


class Outgoing:
    """The bytes of large answers that are being sent, by the address of the client.

    A client that requests large answers and does not read them holds each until its connection is closed; a further
    large answer is refused (503) while too many bytes wait, from this client or in all.
    """

    def __init__(self) -> None:
        self._bytes: Counter[str] = Counter()

    def take(self, address: str, size: int) -> bool:
        """Count an answer; False if there is no room for it. The first of a client always has room."""
        if size < LARGE:
            return True
        waiting = self._bytes[address]
        if waiting and (waiting + size > BYTES_OF_ONE_CLIENT or self._bytes.total() + size > BYTES_IN_ALL):
            return False
        self._bytes[address] += size
        return True

    def release(self, address: str, size: int) -> None:
        """The answer was sent, or its client has gone."""
        if size >= LARGE:
            self._bytes[address] -= size
            if not self._bytes[address]:
                del self._bytes[address]


class BoundedProtocol(HttpToolsProtocol):
    """One connection: uvicorn's HTTP protocol with these bounds."""

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


def server_of(app: ASGIApp, connections: Connections | None = None) -> uvicorn.Server:
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
