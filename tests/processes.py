"""Processes of Python that start in milliseconds: each is forked from one that has imported what they need.

A new interpreter spends a second of the CPU on torch and three on transformers before it does what a test is about.
``run_command`` and ``run_program`` are like ``subprocess.run`` of ``python -m polyseme`` and of ``python -c``: pipes,
environment, working folder, signals and exit codes are those of a process. What a test says about the start itself
(what it imports, what it needs of the environment) it says of a new interpreter.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

# What the usual commands import while they run.
COMMANDS = (
    "rich.table", "scipy.stats", "scipy.sparse.linalg", "rjieba", "polyseme.cli.train", "polyseme.cli.encode",
    "polyseme.cli.evaluate", "polyseme.evaluate.word_pairs", "polyseme.evaluate.kernels_analogy",
    "polyseme.search.occurrences.build", "polyseme.text.survey", "polyseme.words.files.models",
)  # fmt: skip
STREAMS = {"stdin": "r", "stdout": "w", "stderr": "w"}


def run_command(
    *arguments: object, stdin: str | bytes = b"", cwd: Path | None = None, text: bool = False
) -> subprocess.CompletedProcess[Any]:
    """Run ``polyseme ARGUMENTS``."""
    return run_program("", *arguments, stdin=stdin, cwd=cwd, text=text, imports=COMMANDS)


def run_program(
    code: str,
    *arguments: object,
    stdin: str | bytes = b"",
    cwd: Path | None = None,
    text: bool = False,
    environment: Mapping[str, str] | None = None,
    imports: Sequence[str] = (),
) -> subprocess.CompletedProcess[Any]:
    """Run a program, or the command line if it is empty, in a process that has imported these modules.

    ``environment``: variables besides those of this process. Its output is a string with ``text``, else bytes.
    """
    given = [str(argument) for argument in arguments]
    variables = {**os.environ, **(environment or {})}
    data = stdin.encode() if isinstance(stdin, str) else stdin
    if hasattr(os, "fork"):
        done = _fork({"code": code, "arguments": given, "cwd": str(cwd or Path.cwd()), "imports": list(imports),
                      "environment": variables}, data)  # fmt: skip
    else:
        command = [sys.executable, *(["-c", code] if code else ["-m", "polyseme"]), *given]
        done = subprocess.run(command, input=data, capture_output=True, cwd=cwd, env=variables)
    if text:
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    return done


def _fork(request: Mapping[str, Any], data: bytes) -> subprocess.CompletedProcess[bytes]:
    (stdin, feed), (out, stdout), (errors, stderr), (status, code) = (os.pipe() for _ in range(4))
    _origin().fork(request, (stdin, stdout, stderr, code))
    with ThreadPoolExecutor(4) as pool:
        pool.submit(_write, feed, data)
        ended, printed, said = pool.map(_read, (status, out, errors))
    assert ended, said.decode()
    return subprocess.CompletedProcess(request["arguments"], int(ended), printed, said)


def _read(number: int) -> bytes:
    with os.fdopen(number, "rb") as pipe:
        return pipe.read()


def _write(number: int, data: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(number, "wb") as pipe:  # which it may close without reading all
        pipe.write(data)


class Origin:
    """The process that the others are forked from; it ends when this one does."""

    def __init__(self) -> None:
        self.socket, its_own = socket.socketpair()
        command = [sys.executable, __file__, str(its_own.fileno())]
        path = os.pathsep.join(filter(None, sys.path))
        environment = {**os.environ, "PYTHONPATH": path}
        self.process = subprocess.Popen(command, pass_fds=[its_own.fileno()], env=environment)
        its_own.close()
        self.lock = threading.Lock()
        atexit.register(self.end)

    def fork(self, request: Mapping[str, Any], numbers: Sequence[int]) -> None:
        """Fork a process with these open files: its three streams, and one to write its exit code to."""
        line = json.dumps(request).encode() + b"\n"
        with self.lock:
            sent = socket.send_fds(self.socket, [line], numbers)
            self.socket.sendall(line[sent:])
        for number in numbers:
            os.close(number)

    def end(self) -> None:
        self.socket.close()
        self.process.wait()


@cache
def _origin() -> Origin:
    return Origin()


# ---- in the process that the others are forked from


def next_process(control: socket.socket) -> Mapping[str, Any] | None:
    """The request of a test, returned in a new process with the streams of the test; None at the end."""
    while True:
        line, numbers, _, _ = socket.recv_fds(control, 1 << 16, 4)
        if not line:
            _reap()
            return None
        while not line.endswith(b"\n"):
            line += control.recv(1 << 16)
        request = json.loads(line)
        for name in request["imports"]:
            with suppress(ImportError):  # the program will say so
                import_module(name)
        gc.freeze()  # what is shared stays shared
        keeper = os.fork()
        if not keeper:
            control.close()
            child = os.fork()
            if not child:
                _take(numbers)
                return request
            _, status = os.waitpid(child, 0)
            os.write(numbers[3], str(os.waitstatus_to_exitcode(status)).encode())
            os._exit(0)
        for number in numbers:
            os.close(number)
        _reap(os.WNOHANG)


def _reap(how: int = 0) -> None:
    """Take leave of the processes that have ended, and unless told otherwise wait for all."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, how)[0]:
            pass


def _take(numbers: Sequence[int]) -> None:
    """Make these files the three streams of this process, and close the others."""
    for place, (name, mode) in enumerate(STREAMS.items()):
        usual = getattr(sys, name)
        os.dup2(numbers[place], place)
        stream = open(place, mode, encoding=usual.encoding, errors=usual.errors, closefd=False)  # noqa: SIM115
        stream.reconfigure(line_buffering=name == "stderr")
        setattr(sys, name, stream)
    for number in numbers:
        os.close(number)


def become(request: Mapping[str, Any]) -> None:
    """Run the program of a request."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = ["-c", *request["arguments"]]
    if request["code"]:
        exec(compile(request["code"], "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_module("polyseme", run_name="__main__", alter_sys=True)


def end(request: Mapping[str, Any]) -> NoReturn:
    """Run the program, and end like an interpreter that does not take its modules apart, which costs half a second."""
    code: object = 0
    try:
        become(request)
    except SystemExit as stop:
        code = stop.code
        if not isinstance(code, int | None):
            sys.stderr.write(f"{code}\n")
            code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def main(number: int) -> None:
    sys.path[0] = ""  # as for python -c, and not the folder of this file
    with socket.socket(fileno=number) as control:
        request = next_process(control)
    if request is not None:
        end(request)


if __name__ == "__main__":
    main(int(sys.argv[1]))
