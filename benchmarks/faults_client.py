"""A server in a separate process, and its clients; an honest client measures the effect of an attack.

Used by faults_server.py.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

TOKEN = "a-token-nobody-guesses"
HONEST_SECONDS = 2.0
MEMORY = 200 << 20
FREE_AFTER = 45.0


@dataclass
class Found:
    """The result of one attack."""

    attack: str
    tried: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    honest: list[float] = field(default_factory=list)
    memory: int = 0

    def expect(self, holds: bool, otherwise: str) -> None:
        """Note a fault if ``holds`` is false."""
        if not holds and otherwise not in self.faults:
            self.faults.append(otherwise)

    def line(self) -> str:
        """The line for the table."""
        statuses = " ".join(f"{status}×{n}" for status, n in sorted(self.statuses.items())) or "–"
        longest = max(self.honest, default=0.0) * 1000
        verdict = "; ".join(self.faults) or "held"
        start = f"{self.attack:28} {self.tried:6,}   {statuses:44}"
        return f"{start} honest {longest:5.0f} ms   {self.memory >> 20:4} MB   {verdict}"


class Server:
    """``polyseme serve`` in a separate process."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "polyseme", "serve", str(folder / "words"), str(folder / "index"), *arguments]
        self.folder = folder
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
        assert self.process.stderr
        said: list[str] = []
        for line in self.process.stderr:
            said.append(line)
            if address := re.search(r"page: http://127\.0\.0\.1:(\d+)/", line):
                self.port = int(address[1])
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                answer(self, HONEST)  # the first query compiles
                return
        raise SystemExit("the server did not start: " + "".join(said))

    def memory(self) -> int:
        """The memory it uses now, in bytes."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def connections(self) -> int:
        """The number of open connections."""
        found = psutil.Process(self.process.pid).net_connections("tcp")
        return sum(one.status == psutil.CONN_ESTABLISHED for one in found)

    def stop(self) -> None:
        """Stop it like Ctrl-C; it is an error if it does not end."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise SystemExit("the server did not stop") from None


def connect(server: Server, *, buffer: int | None = None) -> socket.socket:
    """A connection; with a small ``buffer``, data that is not read stays on the server's side."""
    connection = socket.socket()
    if buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(10)
    connection.connect(("127.0.0.1", server.port))
    return connection


def request(target: str, body: object = None, *, host: str = "127.0.0.1", head: str = "") -> bytes:
    """The bytes of a request."""
    data = b"" if body is None else json.dumps(body).encode()
    verb = "GET" if body is None else "POST"
    lines = (
        f"{verb} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    )
    return f"{lines}{head}\r\n".encode("latin-1", "replace") + data


def answer(server: Server, data: bytes, *, hang_up: bool = False) -> tuple[str, bytes]:
    """Status and body; the status is ``closed`` if the server closed the connection, ``silent`` if nothing comes.

    With ``hang_up``, the client ends its side, so that the server does not wait for the rest of a request.
    """
    try:
        with connect(server) as connection:
            connection.sendall(data)
            if hang_up:
                connection.shutdown(socket.SHUT_WR)
            found = http.client.HTTPResponse(connection)
            found.begin()
            return str(found.status), found.read()
    except TimeoutError:
        return "silent", b""
    except (OSError, http.client.HTTPException):
        return "closed", b""


HONEST = request(
    "/api/neighbours?model=words&word=%E8%AF%8D7", head=f"Authorization: Bearer {TOKEN}\r\nConnection: close\r\n"
)


@contextlib.contextmanager
def watched(server: Server, found: Found) -> Iterator[None]:
    """Run an honest client and watch the server's memory during an attack."""
    before, done = server.memory(), threading.Event()

    def honest() -> None:
        while not done.wait(0.1):
            begun = time.monotonic()
            status, _ = answer(server, HONEST)
            found.honest.append(time.monotonic() - begun)
            found.expect(status == "200", f"an honest client got {status}")
            found.memory = max(found.memory, server.memory() - before)

    watcher = threading.Thread(target=honest)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        found.expect(max(found.honest, default=0) < HONEST_SECONDS, "an honest client waited too long")
        found.expect(found.memory < MEMORY, "too much memory")


def wait_until_free(server: Server, found: Found, *, most: int = 5) -> None:
    """Wait for the connections of an attack to end; a fault if they do not."""
    deadline = time.monotonic() + FREE_AFTER
    while server.connections() > most and time.monotonic() < deadline:
        time.sleep(0.2)
    found.expect(server.connections() <= most, "connections are held for ever")
