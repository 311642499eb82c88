"""Clients that waste resources (connections, buffers, places in the queue) or guess the token."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from polyseme.serve import guard, limits
from polyseme.serve.app import create_app
from polyseme.serve.guard import FORGOTTEN, FREE_GUESSES, Guard, TokenCheck
from polyseme.serve.library import Library
from polyseme.serve.limits import Connections, Outgoing, client_address

TOKEN = "a-long-enough-token"
SIZE = 32 << 20  # more than the system's own buffers take


async def large_answer(scope: Scope, receive: Receive, send: Send) -> None:
    """An application whose answers are all large, except for /small."""
    size = 10 if scope["path"] == "/small" else SIZE
    headers = [(b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": bytes(size)})


@contextlib.contextmanager
def connected(address: str, sent: bytes = b"") -> Iterator[socket.socket]:
    where = urlsplit(address)
    with socket.create_connection((str(where.hostname), where.port or 80), timeout=20) as connection:
        connection.sendall(sent)
        yield connection


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline


def received(connection: socket.socket) -> int:
    """The number of bytes received until the connection ends."""
    total = 0
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(1 << 20):
            total += len(piece)
    return total


@pytest.mark.parametrize("header", [b"", b"Connection: close\r\n"])
def test_a_client_that_does_not_read_is_cut_off(serving: Any, monkeypatch: pytest.MonkeyPatch, header: bytes) -> None:
    monkeypatch.setattr("polyseme.serve.limits.SEND_SECONDS", 0.2)
    connections = Connections()
    with (
        serving(Guard(large_answer), connections) as address,
        connected(address, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + header + b"\r\n") as connection,
    ):
        connection.recv(1)
        until(lambda: len(connections) == 0)
        assert received(connection) < SIZE - 1


def test_a_client_that_reads_gets_the_whole_answer(serving: Any) -> None:
    with serving(Guard(large_answer)) as address, httpx.Client(base_url=address, trust_env=False) as client:
        assert len(client.get("/").content) == len(client.get("/").content) == SIZE


def test_an_unread_answer_lies_in_small_pieces_in_the_buffers(serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from polyseme.serve.limits import UNREAD_BYTES, BoundedProtocol

    buffered: list[int] = []
    pause = BoundedProtocol.pause_writing

    def noted(self: BoundedProtocol) -> None:
        buffered.append(self.transport.get_write_buffer_size())
        pause(self)

    monkeypatch.setattr(BoundedProtocol, "pause_writing", noted)
    with serving(Guard(large_answer)) as address:
        assert len(httpx.get(address, trust_env=False).content) == SIZE
    assert buffered
    assert max(buffered) <= UNREAD_BYTES + limits.PIECE


def test_large_answers_that_nobody_reads_make_the_next_wait_and_small_ones_go_on(
    serving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BYTES_OF_ONE_CLIENT", SIZE)
    with (
        serving(Guard(large_answer)) as address,
        connected(address, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as first,
        httpx.Client(base_url=address, trust_env=False) as client,
    ):
        first.recv(1)
        refused = client.get("/")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.json()["error"]["type"] == "busy"
        assert client.get("/small").status_code == 200
        first.close()
        until(lambda: client.get("/").status_code == 200)


def test_all_clients_together_hold_a_bounded_number_of_bytes() -> None:
    sent = Outgoing()
    taken = [sent.take(str(client), limits.BYTES_OF_ONE_CLIENT // 2) for client in range(8) for _ in range(2)]
    assert taken == [True] * 9 + [False, True] * 3 + [False]  # each may have one; the second only while there is room


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nHost: 127.", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"]
)
def test_connections_that_do_nothing_keep_nobody_out(library: Library, serving: Any, sent: bytes) -> None:
    connections = Connections(in_all=8, of_one_client=6)
    with serving(create_app(library), connections) as address, contextlib.ExitStack() as idle:
        for _ in range(40):
            idle.enter_context(connected(address, sent))
        until(lambda: len(connections) == 6)
        for _ in range(3):
            assert httpx.get(f"{address}/api/library", trust_env=False).status_code == 200
        assert len(connections) <= 6


class _Client:
    def __init__(self, address: str, waits: bool, last_active: float) -> None:
        self.address, self.waits, self.last_active = address, waits, last_active
        self.closed = False

    def waits_for_client(self) -> bool:
        return self.waits

    def abort(self) -> None:
        self.closed = True


def test_who_has_most_connections_gives_one_up_the_longest_idle_first() -> None:
    connections = Connections(in_all=6, of_one_client=5)
    greedy = [_Client("10.0.0.1", waits=place != 0, last_active=10 - place) for place in range(5)]
    modest = _Client("10.0.0.2", waits=True, last_active=0)
    assert all(connections.admit(one) for one in (*greedy, modest))
    assert connections.admit(_Client("10.0.0.3", True, 20))
    assert [one.closed for one in greedy] == [False, False, False, False, True]
    assert not modest.closed
    assert len(connections) == 6


def test_connections_at_work_are_not_closed_and_the_next_is_refused() -> None:
    connections = Connections(in_all=9, of_one_client=2)
    at_work = [_Client("10.0.0.1", waits=False, last_active=0) for _ in range(2)]
    assert all(connections.admit(one) for one in at_work)
    assert not connections.admit(_Client("10.0.0.1", True, 1))
    assert connections.admit(_Client("10.0.0.2", True, 1))
    assert not any(one.closed for one in at_work)


def test_a_client_is_its_ipv4_address_or_its_ipv6_network() -> None:
    assert client_address(("10.1.2.3", 5)) == client_address(("::ffff:10.1.2.3", 6)) == "10.1.2.3"
    assert client_address(("2001:db8::1", 5)) == client_address(("2001:db8::ffff:1", 6))
    assert client_address(("2001:db8::1", 5)) != client_address(("2001:db8:0:1::1", 5))
    assert client_address(("fe80::1%eth0", 5)) == "fe80::/64"
    assert client_address(None) == ""


class _Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_each_further_wrong_token_doubles_the_wait() -> None:
    clock = _Clock()
    check = TokenCheck(TOKEN, clock=clock)
    waits = []
    for guess in range(FREE_GUESSES + 9):
        assert not check.accepts("10.0.0.1", str(guess).encode())
        waits.append(check.seconds_to_wait("10.0.0.1"))
        clock.now += waits[-1]
    assert waits == [0] * FREE_GUESSES + [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert check.seconds_to_wait("10.0.0.1") == 0
    assert check.seconds_to_wait("10.0.0.2") == 0
    assert check.accepts("10.0.0.1", TOKEN.encode())


def test_the_same_wrong_token_again_is_no_further_guess_and_guesses_are_forgotten() -> None:
    clock = _Clock()
    check = TokenCheck(TOKEN, clock=clock)
    for _ in range(50):
        assert not check.accepts("10.0.0.1", b"the token of yesterday")
    assert check.seconds_to_wait("10.0.0.1") == 0
    for guess in range(FREE_GUESSES):
        check.accepts("10.0.0.1", str(guess).encode())
    assert check.seconds_to_wait("10.0.0.1") == 1
    clock.now += FORGOTTEN + 1
    check.accepts("10.0.0.1", b"another")
    assert check.seconds_to_wait("10.0.0.1") == 0


def test_the_memory_of_guesses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST_CLIENTS", 100)
    check = TokenCheck(TOKEN)
    for client in range(1000):
        check.accepts(str(client), b"guess")
    assert len(check._clients) == 100


def test_a_guesser_is_told_to_wait_and_then_even_the_right_token_is_not_looked_at(
    library: Library, serving: Any
) -> None:
    app = create_app(library, token=TOKEN)
    with serving(app) as address, httpx.Client(base_url=address, trust_env=False) as client:

        def ask(token: str | None) -> httpx.Response:
            return client.get("/api/library", headers={"Authorization": f"Bearer {token}"} if token else {})

        assert [ask(None).status_code for _ in range(20)] == [401] * 20  # no token is no guess
        statuses = [ask(f"guess-{n}").status_code for n in range(20)]
        assert statuses == [401] * (FREE_GUESSES + 1) + [429] * (19 - FREE_GUESSES)
        refused = ask(TOKEN)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert client.get("/").status_code == 200
        until(lambda: ask(TOKEN).status_code == 200)


def test_no_error_tells_where_the_server_keeps_its_files(client: httpx.Client, shelf: Any) -> None:
    bodies = [
        client.get("/api/senses", params={"index": "index", "word": "不识"}),
        client.get("/api/neighbours", params={"model": "words", "word": "不识"}),
        client.get("/api/sentence", params={"corpus": "corpus", "number": 10**6}),
        client.get("/api/library/none"),
        client.post("/api/same-sense", json={"index": "index", "sentence": "他 打 球", "word": "打", "layer": 7}),
        client.post("/api/same-sense", json={"index": "index", "sentence": "没 有", "word": "有"}),
        client.post("/api/same-sense", json={"index": "index", "sentence": "没 有"}),
    ]
    for body in bodies:
        assert body.status_code in (400, 404)
        assert str(shelf) not in body.text
        assert "/" not in body.json()["error"]["message"]
