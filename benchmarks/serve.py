"""Load on the server: 32 clients at once, each asking the next question as soon as the last is answered, for a minute.

    python benchmarks/serve.py [--seconds 60] [--clients 32] [--encoder MODEL]

The server is a process of its own (`polyseme serve`) with 100,000 words × 100 numbers; client and server share the
machine. With a contextual model, one question in twenty asks it to encode a sentence. Bars: no error, and 95 of 100
neighbour questions answered within 50 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import psutil

WORDS, DIM = 100_000, 100
BAR = 0.050  # seconds, 95th percentile of neighbours


def make_vectors(folder: Path) -> list[str]:
    """A model folder of random vectors; its words."""
    from polyseme.text.vocabulary import Vocabulary
    from polyseme.words.vectors import WordVectors

    rng = np.random.default_rng(0)
    letters = [chr(c) for c in range(0x4E00, 0x4E00 + 1500)]
    words = [f"{letters[i % 1500]}{letters[(i * 7 + i // 1500) % 1500]}{i}" for i in range(WORDS)]
    vectors = rng.standard_normal((WORDS, DIM), dtype=np.float32)
    WordVectors(Vocabulary(words, np.arange(WORDS, 0, -1)), vectors).save(folder)
    return words


def start_server(*paths: Path) -> tuple[subprocess.Popen[str], int]:
    """``polyseme serve``, and the port that it says it listens on."""
    command = [sys.executable, "-m", "polyseme", "serve", *map(str, paths)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    assert server.stderr
    for line in server.stderr:
        if found := re.search(r"page: http://127\.0\.0\.1:(\d+)/", line):
            return server, int(found[1])
    raise SystemExit("the server did not start")


def cpu_seconds(process: int) -> float:
    """CPU time of a process so far, its threads included."""
    times = psutil.Process(process).cpu_times()
    return float(times.user + times.system)


Make = Callable[[np.random.Generator, list[str]], tuple[str, bytes | None]]


def _get(path: str, **query: object) -> tuple[str, None]:
    return f"{path}?{urlencode(query)}", None


def _post(path: str, body: object) -> tuple[str, bytes]:
    return path, json.dumps(body).encode()


def _encode_sentence(model: str, rng: np.random.Generator, words: list[str]) -> tuple[str, bytes]:
    return _post("/api/encode/tokens", {"model": model, "sentences": [[pick(rng, words)[:2] for _ in range(12)]]})


def pick(rng: np.random.Generator, words: list[str]) -> str:
    return words[int(rng.integers(len(words)))]


# question → (share of all, how it is made)
QUESTIONS: dict[str, tuple[float, Make]] = {
    "neighbours": (0.60, lambda r, w: _get("/api/neighbours", model="words", word=pick(r, w), topn=10)),
    "analogy": (0.10, lambda r, w: _get("/api/analogy", model="words", a=pick(r, w), b=pick(r, w), c=pick(r, w))),
    "words": (0.10, lambda r, w: _get("/api/words", model="words", prefix=pick(r, w)[:1])),
    "graph": (0.05, lambda r, w: _get("/api/graph", model="words", word=pick(r, w))),
    "embeddings": (0.10, lambda r, w: _post("/v1/embeddings", {"model": "words", "input": [" ".join(w[:20])] * 4})),
    "tokens": (0.05, lambda r, w: _post("/api/encode/tokens", {"model": "words", "sentences": [w[5:15]]})),
}


Request = tuple[str, bytes]  # the name of the question, and what is sent


def requests_of(words: list[str], seed: int, n: int = 500) -> list[Request]:
    """What one client asks, over and over; made beforehand, since the clients share the server's cores."""
    rng = np.random.default_rng(seed)
    shares = np.array([share for share, _ in QUESTIONS.values()])
    made = []
    for name in rng.choice(list(QUESTIONS), size=n, p=shares / shares.sum()).tolist():
        target, body = QUESTIONS[name][1](rng, words)
        verb = "GET" if body is None else "POST"
        head = f"{verb} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        made.append((name, f"{head}Content-Length: {len(body or b'')}\r\n\r\n".encode() + (body or b"")))
    return made


async def client(port: int, requests: list[Request], until: float, times: dict[str, list[float]]) -> int:
    """One client on one connection; the number of answers that were not 200."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    errors = 0
    for name, request in itertools.cycle(requests):
        begun = time.perf_counter()
        if time.monotonic() > until:
            break
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        assert length
        await reader.readexactly(int(length[1]))
        times[name].append(time.perf_counter() - begun)
        errors += not head.startswith(b"HTTP/1.1 200 ")
    writer.close()
    return errors


def main() -> None:
    """Run, print the table, and fail where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--encoder", type=Path, help="a contextual model to serve beside the words")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        words = make_vectors(Path(folder) / "words")
        paths = [Path(folder) / "words"]
        if arguments.encoder:
            paths.append(arguments.encoder)
            QUESTIONS["encoder"] = (0.05, lambda r, w: _encode_sentence(arguments.encoder.name, r, w))
        asked = [requests_of(words, seed) for seed in range(arguments.clients)]
        server, port = start_server(*paths)
        times: dict[str, list[float]] = defaultdict(list)

        async def load(seconds: float) -> int:
            until = time.monotonic() + seconds
            return sum(await asyncio.gather(*(client(port, requests, until, times) for requests in asked)))

        try:
            asyncio.run(load(2))  # the vocabulary is sorted and the lengths are computed at the first question
            times.clear()
            before = cpu_seconds(server.pid)
            errors = asyncio.run(load(arguments.seconds))
            spent = cpu_seconds(server.pid) - before
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(20)
    total = sum(map(len, times.values()))
    print(f"{total / arguments.seconds:,.0f} answers a second, {arguments.clients} clients, {errors} errors")
    print(f"{spent / total * 1000:.2f} ms of the server's CPU for an answer")
    for name, taken in sorted(times.items()):
        middle, late, last = np.quantile(taken, [0.5, 0.95, 1.0]) * 1000
        print(f"{name:12} {len(taken):7,} answers   median {middle:6.1f} ms   p95 {late:6.1f} ms   max {last:7.1f} ms")
    p95 = float(np.quantile(times["neighbours"], 0.95))
    print(f"p95 of neighbours: {p95 * 1000:.1f} ms (bar {BAR * 1000:.0f} ms)")
    if errors or p95 > BAR:
        raise SystemExit("a bar was missed")


if __name__ == "__main__":
    main()
