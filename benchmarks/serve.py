"""Load test of the server: many clients at once, each sending the next query as soon as the last is answered.

    python benchmarks/serve.py [--seconds 60] [--each 10] [--document docs/serve.md]

The server is a separate process (`polyseme serve`) with 100,000 words × 100 dimensions and an index of 200,000
occurrences with a small ELMo; clients and server share the machine. First all kinds of queries mixed, as from 32
readers of the page; then each kind alone, from 1, 16 and 64 clients. After a refusal (503), a client waits as long as
the server says. Bars: no other error, 95 % of the neighbour queries in the mix answered within 50 ms, and no query,
answered or refused, takes longer than its maximum waiting time (see docs/serve.md) plus its own work.
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
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import psutil

WORDS, DIM = 100_000, 100
TOKENS, CORPUS_WORDS = 200_000, 2_000
BAR = 0.050  # seconds, 95th percentile of neighbours
MIXED = 32  # clients for the mix of all queries
ALONE = (1, 16, 64)  # clients for one kind of query
LONGEST = {"map": 5.0, "neighbours": 1.0, "analogy": 1.0, "words": 1.0, "graph": 1.0}  # maximum seconds in the queue
OTHERS = 2.0
MARKS = ("<!-- load -->", "<!-- /load -->")


def make_vectors(folder: Path) -> list[str]:
    """Create a model folder of random vectors; return its words."""
    from polyseme.text.vocabulary import Vocabulary
    from polyseme.words.vectors import WordVectors

    rng = np.random.default_rng(0)
    letters = [chr(c) for c in range(0x4E00, 0x4E00 + 1500)]
    words = [f"{letters[i % 1500]}{letters[(i * 7 + i // 1500) % 1500]}{i}" for i in range(WORDS)]
    vectors = rng.standard_normal((WORDS, DIM), dtype=np.float32)
    WordVectors(Vocabulary(words, np.arange(WORDS, 0, -1)), vectors).save(folder)
    return words


def make_index(folder: Path) -> list[str]:
    """Create an index, its corpus (random text by Zipf's law) and its model; return some frequent words."""
    from polyseme.api import train
    from polyseme.search import build_index
    from polyseme.text.corpus import Corpus

    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, CORPUS_WORDS + 1)
    ids = rng.choice(CORPUS_WORDS, size=TOKENS, p=shares / shares.sum())
    names = np.array([f"{chr(0x4E00 + i % 700)}{chr(0x5E00 + i // 7)}" for i in range(CORPUS_WORDS)])
    sentences = [names[row].tolist() for row in np.array_split(ids, TOKENS // 20)]
    corpus = Corpus.from_sentences(sentences, folder / "corpus", segment="space")
    train("elmo", corpus, out=folder / "elmo", size="tiny", minutes=0.2, threads=1)
    build_index(folder / "elmo", corpus, folder / "index")
    return corpus.vocabulary.words[5:300]


def start_server(*paths: Path) -> tuple[subprocess.Popen[str], int]:
    """Start ``polyseme serve``; return the process and the port it prints."""
    command = [sys.executable, "-m", "polyseme", "serve", *map(str, paths)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    assert server.stderr
    for line in server.stderr:
        if found := re.search(r"page: http://127\.0\.0\.1:(\d+)/", line):
            return server, int(found[1])
    raise SystemExit("the server did not start")


def cpu_seconds(process: int) -> float:
    """CPU time of a process so far, including its threads."""
    times = psutil.Process(process).cpu_times()
    return float(times.user + times.system)


Make = Callable[[np.random.Generator, list[str], list[str]], tuple[str, bytes | None]]


def _get(path: str, **query: object) -> tuple[str, None]:
    return f"{path}?{urlencode(query)}", None


def _post(path: str, body: object) -> tuple[str, bytes]:
    return path, json.dumps(body).encode()


def pick(rng: np.random.Generator, words: list[str]) -> str:
    return words[int(rng.integers(len(words)))]


def some(rng: np.random.Generator, words: list[str], n: int) -> list[str]:
    return [pick(rng, words) for _ in range(n)]


def _occurrence(sentence: list[str]) -> dict[str, object]:
    return {"index": "index", "sentence": sentence, "position": 5}


# query → (fraction of the mix, how to make it from the words w of the vectors and c of the corpus)
QUESTIONS: dict[str, tuple[float, Make]] = {
    "neighbours": (0.60, lambda r, w, c: _get("/api/neighbours", model="words", word=pick(r, w), topn=10)),
    "analogy": (0.10, lambda r, w, c: _get("/api/analogy", model="words", a=pick(r, w), b=pick(r, w), c=pick(r, w))),
    "words": (0.10, lambda r, w, c: _get("/api/words", model="words", prefix=pick(r, w)[:1])),
    "graph": (0.05, lambda r, w, c: _get("/api/graph", model="words", word=pick(r, w))),
    "embeddings": (0.05, lambda r, w, c: _post("/v1/embeddings", {"model": "words", "input": [" ".join(w[:20])] * 4})),
    "tokens": (0.05, lambda r, w, c: _post("/api/encode/tokens", {"model": "elmo", "sentences": [some(r, c, 12)]})),
    "map": (0.00, lambda r, w, c: _get("/api/map", model="words", size=int(r.integers(900, 1000)))),
    "search": (0.03, lambda r, w, c: _get("/api/sentences", corpus="index", word=pick(r, c))),
    "same-sense": (0.01, lambda r, w, c: _post("/api/same-sense", _occurrence(some(r, c, 12)))),
    "concordance": (0.00, lambda r, w, c: _get("/api/concordance", corpus="index", query=pick(r, c))),
    "collocates": (0.00, lambda r, w, c: _get("/api/collocates", corpus="index", query=pick(r, c))),
    "senses": (0.00, lambda r, w, c: _get("/api/senses", index="index", word=pick(r, c))),
}  # fmt: skip

Request = tuple[str, bytes]  # the kind of query, and the bytes to send


def requests_of(names: list[str], words: list[str], frequent: list[str], seed: int, n: int = 300) -> list[Request]:
    """The queries that one client repeats; made beforehand, since the clients share the server's cores."""
    rng = np.random.default_rng(seed)
    made = []
    for name in names * n if len(names) == 1 else rng.choice(names, size=n, p=_shares(names)).tolist():
        target, body = QUESTIONS[name][1](rng, words, frequent)
        verb = "GET" if body is None else "POST"
        head = f"{verb} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        made.append((name, f"{head}Content-Length: {len(body or b'')}\r\n\r\n".encode() + (body or b"")))
    return made


def _shares(names: list[str]) -> list[float]:
    total = sum(QUESTIONS[name][0] for name in names)
    return [QUESTIONS[name][0] / total for name in names]


@dataclass
class Times:
    """Seconds of each answer and of each refusal by kind of query, and the number of errors."""

    answered: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    refused: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: int = 0


async def client(port: int, requests: list[Request], until: float, times: Times) -> None:
    """Run one client on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for name, request in itertools.cycle(requests):
        begun = time.perf_counter()
        if time.monotonic() > until:
            break
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        assert length
        await reader.readexactly(int(length[1]))
        taken = time.perf_counter() - begun
        if head.startswith(b"HTTP/1.1 200 "):
            times.answered[name].append(taken)
        elif head.startswith(b"HTTP/1.1 503 "):
            times.refused[name].append(taken)
            later = re.search(rb"retry-after: (\d+)", head)
            await asyncio.sleep(min(int(later[1]) if later else 1, max(0.0, until - time.monotonic())))
        else:
            times.errors += 1
    writer.close()


def load(port: int, asked: list[list[Request]], seconds: float) -> Times:
    """Run all clients for this many seconds."""
    times = Times()

    async def all_clients() -> None:
        until = time.monotonic() + seconds
        await asyncio.gather(*(client(port, requests, until, times) for requests in asked))

    asyncio.run(all_clients())
    return times


def mixed(process: int, port: int, asked: list[list[Request]], seconds: float) -> bool:
    """Run the mix of all queries; return whether the bars hold."""
    load(port, asked, 3)  # the first query sorts the vocabulary and computes the norms
    before = cpu_seconds(process)
    times = load(port, asked, seconds)
    total = sum(map(len, times.answered.values()))
    spent = cpu_seconds(process) - before
    refused = sum(map(len, times.refused.values()))
    print(f"{total / seconds:,.0f} answers a second, {len(asked)} clients, {refused} refused, {times.errors} errors")
    print(f"{spent / total * 1000:.2f} ms of the server's CPU for an answer")
    for name, taken in sorted(times.answered.items()):
        middle, late, last = np.quantile(taken, [0.5, 0.95, 1.0]) * 1000
        print(f"{name:12} {len(taken):7,} answers   median {middle:6.1f} ms   p95 {late:6.1f} ms   max {last:7.1f} ms")
    p95 = float(np.quantile(times.answered["neighbours"], 0.95))
    print(f"p95 of neighbours: {p95 * 1000:.1f} ms (bar {BAR * 1000:.0f} ms)")
    return not times.errors and p95 <= BAR


def each_alone(
    process: int, port: int, words: list[str], frequent: list[str], seconds: float
) -> tuple[list[str], bool]:
    """Run each kind of query alone; return the lines of the table, and whether all stay within their time."""
    many = " | ".join(f"{n} clients: median | 95 of 100 | longest | refused at first" for n in ALONE[1:])
    lines = [f"| question | CPU | 1 client | {many} |", "|---|" + "--:|" * (2 + 4 * len(ALONE[1:]))]
    kept = True
    for name in QUESTIONS:
        cells: list[str] = []
        alone = 0.0
        for clients in ALONE:
            before, asked = (
                cpu_seconds(process),
                [requests_of([name], words, frequent, seed) for seed in range(clients)],
            )
            times = load(port, asked, seconds)
            taken, refused = times.answered[name] or [np.nan], times.refused[name]
            if clients == 1:
                alone = max(taken)
                cpu = (cpu_seconds(process) - before) / len(taken)
                cells += [_milliseconds(cpu), _milliseconds(float(np.median(taken)))]
                continue
            middle, late, last = np.quantile(taken, [0.5, 0.95, 1.0])
            longest = max(last, max(refused, default=0.0))
            kept &= not times.errors and bool(longest <= LONGEST.get(name, OTHERS) + 1 + 5 * alone)
            share = len(refused) / (len(taken) + len(refused))
            cells += [*map(_milliseconds, (middle, late, longest)), f"{share:.0%}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines, kept


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms" if seconds < 0.01 else f"{seconds * 1000:,.0f} ms"


def main() -> None:
    """Run, print the tables, and fail if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="of the mix")
    parser.add_argument("--each", type=float, default=10, help="seconds of each kind alone, by each number of clients")
    parser.add_argument("--document", type=Path, help="a document whose table to replace")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words, frequent = make_vectors(folder / "words"), make_index(folder)
        mix = [name for name, (share, _) in QUESTIONS.items() if share]
        asked = [requests_of(mix, words, frequent, seed) for seed in range(MIXED)]
        server, port = start_server(folder / "words", folder / "elmo", folder / "index")
        try:
            kept = mixed(server.pid, port, asked, given.seconds)
            lines, alone = each_alone(server.pid, port, words, frequent, given.each)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(20)
    if given.document:
        before, rest = given.document.read_text(encoding="utf-8").split(MARKS[0])
        table = "\n".join([MARKS[0], *lines, MARKS[1]])
        given.document.write_text(before + table + rest.split(MARKS[1])[1], encoding="utf-8")
    if not (kept and alone):
        raise SystemExit("a bar was missed")


if __name__ == "__main__":
    main()
