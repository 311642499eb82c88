"""Abuse of the server, on this machine only: attacks by clients, and their effect on an honest client.

    python benchmarks/faults_server.py [--scale 1.0]

Each attack is limited in number and time. While it lasts, an honest client sends ten queries per second. Bars: the
honest client always gets an answer within 2 s; the only 5xx status is 503; the server's memory grows by less than
200 MB; connections of an attack are freed within 45 s; no error reveals a path of the server; no forged request is
accepted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from faults_client import TOKEN, Found, Server, answer, connect, request, wait_until_free, watched

WORDS, DIM = 5_000, 300


def make_folder(folder: Path) -> None:
    """Create word vectors, and an index with an encoder made from them."""
    from polyseme.search import build_index
    from polyseme.sentences.lift import lift
    from polyseme.text.corpus import Corpus
    from polyseme.text.vocabulary import Vocabulary
    from polyseme.words.vectors import WordVectors

    rng = np.random.default_rng(0)
    names = [f"词{i}" for i in range(WORDS)]
    vectors = WordVectors(Vocabulary(names, np.arange(WORDS, 0, -1)), rng.standard_normal((WORDS, DIM), dtype="f4"))
    vectors.save(folder / "words")
    lift(vectors, "contexts").save(folder / "static")
    sentences = [[names[i] for i in rng.zipf(1.3, size=12) % 200] for _ in range(2_000)]
    corpus = Corpus.from_sentences(sentences, folder / "corpus", segment="space")
    build_index(folder / "static", corpus, folder / "index", dim=32)


# ---- attacks

LARGE = {"model": "words", "sentences": [["词1"] * 30] * 24, "layers": "top"}  # an answer of about 4 MB


def unread_answers(server: Server, scale: float) -> Found:
    """Request large answers and never read them."""
    found = Found("answers that nobody reads", max(3, int(60 * scale)))
    with watched(server, found), contextlib.ExitStack() as held:
        for _ in range(found.tried):
            connection = held.enter_context(connect(server, buffer=4096))
            connection.sendall(request("/api/encode/tokens", LARGE))
        wait_until_free(server, found)
    return found


def idle_connections(server: Server, scale: float) -> Found:
    """Open idle connections, more than the server accepts."""
    found = Found("idle connections", int(1500 * scale))
    with watched(server, found), contextlib.ExitStack() as held:
        for _ in range(found.tried):
            held.enter_context(connect(server))
        found.expect(server.connections() <= 1100, "more connections than the limit")
        found.statuses["open"] = server.connections()
    return found


def slow_requests(server: Server, scale: float) -> Found:
    """Send headers and bodies one byte at a time."""
    found = Found("slow heads and bodies", int(400 * scale))
    body = request("/api/encode/texts", {"model": "words", "texts": ["x" * 200]})
    with watched(server, found), contextlib.ExitStack() as held:
        slow = [held.enter_context(connect(server)) for _ in range(found.tried)]
        for step in range(8):
            for number, connection in enumerate(slow):
                start = len(body) - 100 if number % 2 else 0
                with contextlib.suppress(OSError):
                    connection.sendall(body[: start + 1] if step == 0 else body[start + step : start + step + 1])
            time.sleep(0.2)
    return found


FORGED_HOSTS = (
    "evil.example", "127.0.0.1.evil.example", "[::1]evil", "127.0.0.1:80\tx", "127.0.0.1@evil", "localhost:x", "",
    "127.0.0.1\x0b", "[::1", "127.0.0.1, evil", "127.0.0.1#", "127.0.0.1\\evil", "0", "127.1", "2130706433",
)  # fmt: skip
FORGED_ORIGINS = (
    "https://127.0.0.1",
    "null",
    "http://evil.example",
    "http://127.0.0.1.evil",
    "file://",
    "http://[::1]",
)


def forged_headers(server: Server, scale: float) -> Found:
    """Send foreign hosts and origins, and duplicated headers."""
    found = Found("forged Host and Origin")
    forged = [request("/api/library", host=host) for host in FORGED_HOSTS]
    forged += [request("/api/library", head=f"Origin: {origin}\r\n") for origin in FORGED_ORIGINS]
    forged += [request("/api/library", head=f"{name}: x\r\n{name}: y\r\n") for name in ("Origin", "Authorization")]
    forged += [request("/api/library", head="Host: 127.0.0.1\r\n")]
    with watched(server, found):
        for data in forged:
            status, _ = answer(server, data)
            found.tried += 1
            found.statuses[status] += 1
            found.expect(status in ("400", "403", "421", "closed"), f"accepted: {data[:90]!r}")
    return found


def token_guesses(server: Server, scale: float) -> Found:
    """Guess the token as often as possible for a few seconds; an honest client at this address would have to wait."""
    found = Found("guesses at the token", 0)
    deadline = time.monotonic() + max(2.0, 10 * scale)
    while time.monotonic() < deadline:
        guess = request("/api/library", head=f"Authorization: Bearer guess-{found.tried}\r\nConnection: close\r\n")
        status, _ = answer(server, guess)
        found.tried += 1
        found.statuses[status] += 1
    found.expect(found.statuses["200"] == 0, "a guess was accepted")
    found.expect(found.statuses["401"] <= 12, f"{found.statuses['401']} guesses were looked at")
    return found


SOUND: tuple[tuple[str, object], ...] = (
    ("/api/neighbours?model=words&word=%E8%AF%8D7&topn=5", None),
    ("/api/senses?index=index&word=%E8%AF%8D1", None),
    ("/api/map?model=words&size=50", None),
    ("/page/main.js", None),
    ("/api/encode/texts", {"model": "words", "texts": ["词1 词2", ["词3"]]}),
    ("/v1/embeddings", {"model": "words", "input": ["a", "b"], "encoding_format": "base64"}),
    ("/api/same-sense", {"index": "index", "sentence": ["词1", "词2"], "position": 0, "topn": 5}),
)


def mutated_requests(server: Server, scale: float) -> Found:
    """Send requests with bytes changed, removed or inserted, anywhere or in the query only."""
    found = Found("mutated requests", int(3000 * scale))
    rng = random.Random(0)
    with watched(server, found):
        for _ in range(found.tried):
            target, body = rng.choice(SOUND)
            if rng.random() < 0.3:
                data, hang_up = mutated(rng, request(target, body)), True
            elif body is None:
                path, _, query = target.partition("?")
                changed = mutated(rng, query.encode()).decode("latin-1")
                data, hang_up = request(f"{path}?{re.sub('[^!-~]', '+', changed)}"), False
            else:
                text = mutated(rng, json.dumps(body).encode())
                head = f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(text)}\r\n"
                data, hang_up = f"{head}Content-Type: application/json\r\n\r\n".encode() + text, False
            status, answered = answer(server, data, hang_up=hang_up)
            found.statuses[status] += 1
            _check_answer(server, found, status, answered)
    return found


PUT_IN = (b"\0", b"\r\n", b"%00", b"\xff", b"[" * 500, b"-1", b"\\ud800", b'"')


def mutated(rng: random.Random, data: bytes) -> bytes:
    """The data with a few random changes."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        place = rng.randrange(len(changed) + 1)
        match rng.randrange(4):
            case 0:
                changed[place : place + 1] = bytes([rng.randrange(256)])
            case 1:
                del changed[place : place + rng.randint(1, 30)]
            case 2:
                changed[place:place] = changed[: rng.randint(1, 200)]
            case _:
                changed[place:place] = rng.choice(PUT_IN)
    return bytes(changed)


def _check_answer(server: Server, found: Found, status: str, body: bytes) -> None:
    found.expect(status != "silent", "no answer and no end")
    found.expect(not status.startswith("5") or status == "503", f"a status of {status}")
    found.expect(status == "200" or str(server.folder).encode() not in body, "an error tells a path")
    found.expect(b"Traceback" not in body, "an answer tells a traceback")


def pipelined_requests(server: Server, scale: float) -> Found:
    """Send hundreds of requests at once on each of several connections, without reading any answer."""
    found = Found("pipelined, never read", int(40 * scale) or 2)
    many = request("/api/words?model=words&limit=1000") * 500
    with watched(server, found), contextlib.ExitStack() as held:
        for _ in range(found.tried):
            connection = held.enter_context(connect(server, buffer=4096))
            connection.settimeout(1)
            with contextlib.suppress(OSError):
                connection.sendall(many)
        wait_until_free(server, found)
    return found


def bad_questions(server: Server, scale: float) -> Found:
    """Send invalid queries: each error must be one line that reveals no path."""
    found = Found("questions without an answer")
    names = ("words", "index", "corpus", "../words", "/etc/passwd", "x" * 300, "\ud800", "")
    gets = (
        "neighbours?model={}&word=zz", "senses?index={}&word=zz", "search?corpus={}&word=zz", "map?model={}&size=9999",
        "library/{}", "library/{}/curve", "sentence?corpus={}&number=99999999", "tokens?model={}&text=x",
    )  # fmt: skip
    bodies = [b"", b"{", b"[" * 100_000, b'{"model": "words", "texts": [' + b'"x",' * 2000 + b'"x"]}', b"\xff" * 1000]
    with watched(server, found):
        for name in names:
            quoted = "".join(f"%{byte:02x}" for byte in name.encode("utf-8", "surrogatepass"))
            for get in gets:
                _note(server, found, request("/api/" + get.format(quoted)))
            for path in ("/api/encode/tokens", "/api/encode/texts", "/api/same-sense", "/v1/embeddings"):
                body = {"model": name, "index": name, "texts": ["x"], "sentences": ["x"], "sentence": "x", "input": "x"}
                _note(server, found, request(path, body))
        for path in ("/api/encode/texts", "/api/same-sense", "/v1/embeddings"):
            for data in bodies:
                head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n\r\n".encode()
                _note(server, found, head + data)
    return found


def _note(server: Server, found: Found, data: bytes) -> None:
    status, body = answer(server, data)
    found.tried += 1
    found.statuses[status] += 1
    _check_answer(server, found, status, body)
    if status.startswith("4") and body.startswith(b"{"):
        found.expect("\n" not in json.loads(body)["error"]["message"], "an error of several lines")


def flood(server: Server, scale: float) -> Found:
    """Send the slowest queries from 64 clients as fast as possible: each must be answered or rejected in time."""
    found = Found("a flood of senses and maps")
    deadline = time.monotonic() + max(2.0, 10 * scale)
    lock = threading.Lock()

    def ask(seed: int) -> None:
        rng = random.Random(seed)
        while time.monotonic() < deadline:
            word = "".join(f"%{byte:02x}" for byte in f"词{rng.randrange(1, 100)}".encode())
            size = rng.randrange(2000, 5000)
            target = rng.choice([f"/api/senses?index=index&word={word}", f"/api/map?model=words&size={size}"])
            begun = time.monotonic()
            status, _ = answer(server, request(target, head="Connection: close\r\n"))
            taken = time.monotonic() - begun
            with lock:
                found.tried += 1
                found.statuses[status] += 1
                found.expect(status in ("200", "404", "503"), f"a status of {status}")
                found.expect(taken < 10, "a question took over 10 s")

    with watched(server, found):
        clients = [threading.Thread(target=ask, args=(seed,)) for seed in range(64)]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
    return found


Attack = Callable[[Server, float], Found]
# Options of the server -> attacks on it.
ATTACKS: dict[tuple[str, ...], tuple[Attack, ...]] = {
    (): (
        forged_headers, bad_questions, mutated_requests, idle_connections, slow_requests, unread_answers,
        pipelined_requests, flood,
    ),
    ("--token", TOKEN): (token_guesses,),
}  # fmt: skip


def campaign(
    folder: Path, scale: float, attacks: dict[tuple[str, ...], tuple[Attack, ...]] = ATTACKS
) -> Iterator[Found]:
    """Run the attacks, one after the other."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192) if hard > 0 else 8192, hard))
    make_folder(folder)
    try:
        for arguments, chosen in attacks.items():
            server = Server(folder, *arguments)
            try:
                for attack in chosen:
                    yield attack(server, scale)
            finally:
                server.stop()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def main() -> None:
    """Run all attacks, print the table, and fail if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="how often each attack is tried, beside the usual")
    given = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as name:
        for found in campaign(Path(name), given.scale):
            results.append(found)
            print(found.line(), flush=True)
    faults = sum(len(found.faults) for found in results)
    print(f"{sum(found.tried for found in results):,} tries, {faults} faults")
    if faults:
        raise SystemExit("a bar was missed")


if __name__ == "__main__":
    main()
