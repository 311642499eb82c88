"""Common parts of the fault campaigns: running commands in forked children of this warm process, and tallies."""

from __future__ import annotations

import hashlib
import io
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # children are forked, and threads of libraries do not survive a fork

# Calls before which a command is killed; ``exchange`` is added to them.
CALLS = ("rename", "replace", "mkdir", "fsync", "unlink", "rmdir", "remove", "link", "symlink", "posix_fallocate")
TRACEBACK = 70  # the exit code of a child with an uncaught exception


@dataclass(frozen=True)
class Ended:
    """How a child ended: exit code (negative: the signal that killed it), stderr, number of calls, seconds."""

    code: int
    said: str
    calls: int
    seconds: float

    @property
    def failure(self) -> str:
        """What must never happen (hang, crash, traceback); "" if nothing did."""
        if self.code == -signal.SIGALRM:
            return "hangs"
        if self.code < 0 and self.code != -signal.SIGKILL:
            return f"dies of signal {-self.code}"
        if self.code == TRACEBACK or "Traceback" in self.said:
            return f"traceback: {self.said.strip().splitlines()[-1]}"
        *progress, error = self.said.strip().splitlines() or [""]
        if self.code == 1 and (not error.startswith("polyseme: ") or any("rror" in line for line in progress)):
            return f"an error that is not one line: {self.said!r}"
        return ""


def in_child(
    action: Callable[[], int],
    *,
    kill_before: int | None = None,
    kill_after: float | None = None,
    limit: Callable[[], None] | None = None,
    seconds: int = 120,
) -> Ended:
    """Run ``action`` in a forked child; optionally kill it before call number ``kill_before`` or after some seconds."""
    said_in, said_out = os.pipe()
    counted_in, counted_out = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if not child:
        os.close(said_in)
        os.close(counted_in)
        _become(action, said_out, counted_out, kill_before, limit, seconds)
    os.close(said_out)
    os.close(counted_out)
    if kill_after is not None:
        time.sleep(kill_after)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    said, counted = (_read_all(end) for end in (said_in, counted_in))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Ended(status, said.decode("utf-8", "replace"), len(counted), time.monotonic() - began)


def _become(
    action: Callable[[], int],
    said: int,
    counted: int,
    kill_before: int | None,
    limit: Callable[[], None] | None,
    seconds: int,
) -> NoReturn:
    """Run as the child, and exit."""
    code = TRACEBACK
    try:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)
        os.dup2(said, 2)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="replace", closefd=False)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        _count_calls(counted, kill_before)
        if limit:
            limit()
        code = action()
    except SystemExit as ended:
        code = int(ended.code or 0) if not isinstance(ended.code, str) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _count_calls(counted: int, kill_before: int | None) -> None:
    """Count every call that changes file names or syncs to disk, and kill this process before call ``kill_before``."""
    from polyseme.disk import atomic

    made = 0

    def wrapped(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **more: Any) -> Any:
            nonlocal made
            if made == kill_before:
                os.kill(os.getpid(), signal.SIGKILL)
            made += 1
            os.write(counted, b".")
            return call(*arguments, **more)

        return counting

    for name in CALLS:
        if hasattr(os, name):
            setattr(os, name, wrapped(getattr(os, name)))
    atomic.exchange = wrapped(atomic.exchange)  # type: ignore[assignment]


def _read_all(descriptor: int) -> bytes:
    pieces = []
    while piece := os.read(descriptor, 1 << 16):
        pieces.append(piece)
    os.close(descriptor)
    return b"".join(pieces)


def command(*arguments: object) -> Callable[[], int]:
    """A command of polyseme, as an action."""

    def call() -> int:
        from polyseme.cli.main import main

        sys.argv = ["polyseme", *map(str, arguments)]
        main()
        return 0

    return call


def in_this_process(*arguments: object) -> None:
    """Run a command in this process, so that its imports and compiled code are available to all children."""
    argv, sys.argv = sys.argv, ["polyseme", *map(str, arguments)]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    from polyseme.cli.main import main

    said = io.StringIO()
    try:
        with redirect_stderr(said):
            main()
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(f"polyseme {' '.join(map(str, arguments))} failed: {said.getvalue()}") from None
    finally:
        sys.argv = argv
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def small_steps() -> Iterator[None]:
    """Make index building save checkpoints often."""
    from polyseme.search.occurrences import build

    before = build._BLOCK_TOKENS, build._CHECKPOINT_TOKENS
    build._BLOCK_TOKENS, build._CHECKPOINT_TOKENS = 200, 400
    try:
        yield
    finally:
        build._BLOCK_TOKENS, build._CHECKPOINT_TOKENS = before


def bounded_memory(megabytes: int) -> Callable[[], None]:
    """A function that limits memory to this many megabytes more than the process has now."""

    def limit() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    return limit


def digest(path: Path, aside: tuple[str, ...] = ()) -> str:
    """The hash of a file, or of all files of a folder except those in ``aside``; "" if it does not exist."""
    if not os.path.exists(path):
        return ""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    found = hashlib.sha256()
    for file in files:
        if file.name not in aside:
            name = str(file.relative_to(path)) if path.is_dir() else ""
            found.update(f"{name}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    return found.hexdigest()


@dataclass
class Tally:
    """What was tried, and what broke."""

    name: str
    tried: int = 0
    broken: list[str] = field(default_factory=list)
    facts: dict[str, int] = field(default_factory=dict)

    def count(self, fact: str) -> None:
        """Count one occurrence of ``fact``."""
        self.facts[fact] = self.facts.get(fact, 0) + 1

    def check(self, good: bool, what: str) -> None:
        """Note what broke, if ``good`` is false."""
        if not good:
            self.broken.append(what)
            print(f"    BROKEN {self.name}: {what}", flush=True)

    def line(self) -> str:
        """The line for the table at the end."""
        facts = ", ".join(f"{number:,} {fact}" for fact, number in self.facts.items())
        return f"{self.name:34} {self.tried:8,} {len(self.broken):7,}   {facts}"


def spread(n: int, most: int) -> Iterator[int]:
    """At most ``most`` of the numbers 0 … n−1, evenly spaced."""
    if n <= most:
        yield from range(n)
    else:
        yield from sorted({round(place * (n - 1) / (most - 1)) for place in range(most)} if most > 1 else {n // 2})
