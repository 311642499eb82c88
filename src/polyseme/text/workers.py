"""Segment text on all cores, keeping the order of the blocks.

jieba releases the GIL, so threads are enough for Chinese. The rules for English are Python regular expressions, which
do not release it, so these blocks go to worker processes. A worker is a fresh interpreter that communicates through
pipes, so it does not matter how the caller's program was started: no process with threads is forked, and the caller's
script is not run again. Workers keep no state, so their memory does not grow and the corpus is the same for any number
of them. A worker ends when its input is closed, which also happens when the main process is killed.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import IO

from polyseme.errors import TextError
from polyseme.machine import cores, keep_freed_memory
from polyseme.text import segmenter
from polyseme.text.blocks import Block, BlockSettings, CountedBlock
from polyseme.text.numbering import Counter, PreparedBlock
from polyseme.text.segment import HEAVY
from polyseme.text.segmenter import receive, send

MOST_WORKERS = 1024
SERIAL = 8  # for a text of fewer blocks it is not worth starting workers
_RUN = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from polyseme.text.segmenter import serve_jobs; serve_jobs()"
)


def counted_blocks(
    blocks: Iterator[tuple[Block, int]], settings: BlockSettings, workers: int | None
) -> Iterator[tuple[CountedBlock, int]]:
    """Count every block, in order; each result comes with the number of bytes that came with its block."""
    keep_freed_memory()
    workers = cores() if workers is None else workers
    counter = Counter(settings)
    first = list(islice(blocks, SERIAL))
    every = chain(first, blocks)
    if workers > 1 and len(first) == SERIAL and settings.segmentation.method in HEAVY and sys.executable:
        helpers = Helpers(settings.segmentation.words)
        try:
            yield from _in_order(every, counter, helpers, workers - 1)
        finally:
            helpers.close()
        return
    for block, done in every:
        prepared = counter.prepare(block)
        yield counter.finish(prepared, segmenter.work(prepared.jobs, settings.segmentation.words)), done


def _in_order(
    blocks: Iterable[tuple[Block, int]], counter: Counter, helpers: Helpers, number: int
) -> Iterator[tuple[CountedBlock, int]]:
    """Results in the order of the blocks. While the workers have enough to do, blocks are segmented in this thread."""
    waiting: deque[tuple[PreparedBlock, Future[bytes], int]] = deque()
    with ThreadPoolExecutor(number) as pool:
        try:
            for block, done in blocks:
                prepared = counter.prepare(block)
                if sum(not future.done() for _, future, _ in waiting) < 2 * number:
                    future = pool.submit(helpers.work, prepared.jobs)
                else:
                    future = Future()
                    future.set_result(segmenter.work(prepared.jobs, helpers.words))
                waiting.append((prepared, future, done))
                while waiting and (waiting[0][1].done() or len(waiting) > 4 * number):
                    prepared, future, done = waiting.popleft()
                    yield counter.finish(prepared, future.result()), done
            for prepared, future, done in waiting:
                yield counter.finish(prepared, future.result()), done
        finally:
            for _, future, _ in waiting:
                future.cancel()


class Helpers:
    """Runs jobs for the threads of a pool; each thread starts a worker process of its own when it needs one."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.mine = threading.local()
        self.started: list[subprocess.Popen[bytes]] = []

    def work(self, jobs: list[segmenter.Job]) -> bytes:
        """The results of the jobs, computed in this thread or in its worker process."""
        if 2 * sum(len(lines) for rule, lines in jobs if rule != "english") > sum(len(lines) for _, lines in jobs):
            return segmenter.work(jobs, self.words)
        try:
            process = getattr(self.mine, "process", None) or self._start()
            send(process.stdin, jobs)
            answer: bytes = receive(process.stdout)
        except (EOFError, OSError):
            raise TextError("a worker process died (out of memory?): try workers=1") from None
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", _RUN, json.dumps([str(place) for place in sys.path])]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        _widen(process.stdin, process.stdout)
        self.mine.process = process
        self.started.append(process)
        send(process.stdin, self.words)
        return process

    def close(self) -> None:
        """End all worker processes."""
        for process in self.started:
            assert process.stdin
            assert process.stdout
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.stdout.close()
        for process in self.started:
            process.wait()


def _widen(*streams: IO[bytes] | None) -> None:
    """Make the pipes large enough for a block, if the system allows it: fewer switches between the two sides."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        for stream in streams:
            if stream:
                fcntl.fcntl(stream, fcntl.F_SETPIPE_SZ, 1 << 20)
