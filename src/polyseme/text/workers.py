"""Blocks worked on in parallel, in order, by helper processes.

A helper is a fresh interpreter that talks over its pipes, so nothing depends on how the caller's program was started:
no fork of a process with threads, no second run of the caller's script. Blocks are independent and results come back
in order, so the corpus is the same whatever the number of helpers. A helper ends when its input does: also when the
builder is killed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import marshal
import os
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import IO, Any

import numpy as np

from polyseme.errors import TextError
from polyseme.text.block import Block, Counted, Counter, Settings
from polyseme.text.segment import Segmentation

SERIAL = 8  # a text of fewer blocks is not worth starting helpers
_LENGTH = struct.Struct("<Q")
_RUN = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from polyseme.text.workers import serve; serve()"


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def counted_blocks(
    blocks: Iterator[tuple[Block, int]], settings: Settings, workers: int | None
) -> Iterator[tuple[Counted, int]]:
    """Every block counted, in order, with the number that came with it."""
    workers = cores() if workers is None else workers
    first = list(islice(blocks, SERIAL))
    if workers < 2 or len(first) < SERIAL or settings.segmentation.function or not sys.executable:
        counter = Counter(settings)
        for block, done in chain(first, blocks):
            yield _with_text(counter.count(block), block), done
        return
    helpers = Helpers(settings)
    try:
        yield from _in_order(chain(first, blocks), Counter(settings), helpers, workers - 1)
    finally:
        helpers.close()


def _in_order(
    jobs: Iterable[tuple[Block, int]], counter: Counter, helpers: Helpers, number: int
) -> Iterator[tuple[Counted, int]]:
    """Results in the order of the jobs. A job that would only wait for a helper is done here instead."""
    waiting: deque[tuple[Future[Counted], Block, int]] = deque()
    with ThreadPoolExecutor(number) as pool:
        try:
            for block, done in jobs:
                if sum(not future.done() for future, _, _ in waiting) < 2 * number:
                    future = pool.submit(helpers.count, block)
                else:
                    future = Future()
                    future.set_result(counter.count(block))
                waiting.append((future, block, done))
                while waiting and (waiting[0][0].done() or len(waiting) > 4 * number):
                    future, block, done = waiting.popleft()
                    yield _with_text(future.result(), block), done
            for future, block, done in waiting:
                yield _with_text(future.result(), block), done
        finally:
            for future, _, _ in waiting:
                future.cancel()


def _with_text(counted: Counted, block: Block) -> Counted:
    """A helper does not send back the text it was given."""
    if counted.text is None:
        counted.text = block.text.encode("utf-8", "replace")
    return counted


class Helpers:
    """One process for each thread that asks."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.mine = threading.local()
        self.starting = threading.Lock()
        self.started: list[subprocess.Popen[bytes]] = []

    def count(self, block: Block) -> Counted:
        """The block counted by this thread's process."""
        process = getattr(self.mine, "process", None) or self._start()
        try:
            _send(process.stdin, dataclasses.astuple(block))
            error, fields = _receive(process.stdout)
        except (EOFError, OSError):
            raise TextError(
                f"a helper process ended while it worked on {block.source} (was it out of memory?): try workers=1"
            ) from None
        if error:
            raise TextError(error)
        return _counted(fields)

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", _RUN, json.dumps([str(place) for place in sys.path])]
        # A helper is one thread; the threads its libraries would start for linear algebra only cost memory.
        alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=alone)
        _widen(process.stdin, process.stdout)
        self.mine.process = process
        with self.starting:
            self.started.append(process)
            _send(process.stdin, (_settings_to_json(self.settings), len(self.started)))
        return process

    def close(self) -> None:
        """End them all."""
        for process in self.started:
            assert process.stdin
            assert process.stdout
            process.stdin.close()
            process.stdout.close()
        for process in self.started:
            process.wait()


def serve() -> None:
    """The helper's side: read settings, then blocks, until the input ends."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the builder closes our input
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    try:
        settings, name = _receive(source)
        counter = Counter(_settings_from_json(settings), name)
        while True:
            _send(sink, _answer(_receive(source), counter))
    except (EOFError, BrokenPipeError):
        os._exit(0)


def _answer(block: Any, counter: Counter) -> tuple[str, Any]:
    try:
        counted = counter.count(Block(*block))
    except TextError as error:
        return str(error), None
    values = (getattr(counted, field.name) for field in dataclasses.fields(counted))
    return "", tuple(value.tobytes() if isinstance(value, np.ndarray) else value for value in values)


def _counted(fields: Any) -> Counted:
    counted = Counted()
    for field, value in zip(dataclasses.fields(counted), fields, strict=True):
        is_array = isinstance(getattr(counted, field.name), np.ndarray)
        setattr(counted, field.name, np.frombuffer(value, dtype=np.int32) if is_array else value)
    return counted


def _settings_to_json(settings: Settings) -> str:
    plain = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    return json.dumps({**plain, "segmentation": settings.segmentation.to_json()})


def _settings_from_json(text: str) -> Settings:
    record = json.loads(text)
    return Settings(**{**record, "segmentation": Segmentation.from_json(record["segmentation"])})


def _widen(*streams: IO[bytes] | None) -> None:
    """Pipes that hold a block, where the system allows it: fewer turns between the two sides."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        for stream in streams:
            if stream:
                fcntl.fcntl(stream, fcntl.F_SETPIPE_SZ, 1 << 20)


def _send(stream: IO[bytes] | None, value: Any) -> None:
    assert stream
    data = marshal.dumps(value)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def _receive(stream: IO[bytes] | None) -> Any:
    assert stream
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (size,) = _LENGTH.unpack(head)
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return marshal.loads(data)
