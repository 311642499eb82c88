"""A worker process: it receives segmentation jobs and sends back words. It imports only what it needs."""

from __future__ import annotations

import marshal
import os
import signal
import struct
import sys
from typing import IO, Any

from polyseme.text import segmenter

_LENGTH = struct.Struct("<Q")


def serve() -> None:
    """Read the user dictionary, then jobs, until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the main process closes our input
    try:
        words = receive(sys.stdin.buffer)
        while True:
            send(sys.stdout.buffer, segmenter.work(receive(sys.stdin.buffer), words))
    except (EOFError, BrokenPipeError):
        os._exit(0)


def send(stream: IO[bytes] | None, value: Any) -> None:
    """Send a plain value, preceded by its length."""
    assert stream
    data = marshal.dumps(value)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes] | None) -> Any:
    """Receive what ``send`` sent; EOFError if the other side is gone."""
    assert stream
    head = stream.read(_LENGTH.size)
    size = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else 1
    data = stream.read(size) if len(head) == _LENGTH.size else b""
    if len(data) < size:
        raise EOFError
    return marshal.loads(data)
