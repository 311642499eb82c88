"""The files that a command goes through: `python scripts/architecture.py` writes them into docs/architecture.md.

Each walk is a real run, on a few lines of text, in a process of its own. A file counts from the first of its functions
that is called; what runs while a module is imported does not count, and compiled code is not seen. ``--check`` says
which lists name other files than today's runs; numbers of lines may differ.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple
from urllib.parse import quote

from readme import placed, table

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "polyseme"
PAGES = {"docs/architecture.md": False, "docs/zh/architecture.md": True}  # page → whether it is in Chinese
PORT = 8639
_FUNCTION = 0x1  # CO_OPTIMIZED: a function, and neither a module nor the body of a class


Steps = dict[str, tuple[str, int]]  # file → the first function called in it, lines of all functions called


class Walk(NamedTuple):
    """A command, what it is run on, and which of its files are its subject."""

    command: str
    prepare: Callable[[Path], None]
    subject: re.Pattern[str] | None = None


class Recorder:
    """Notes each file of the package at the first call of one of its functions; a profile function of Python."""

    def __init__(self) -> None:
        self.first_calls: dict[str, str] = {}  # file below src/polyseme → the function
        self.called: dict[str, set[int]] = {}  # file → the lines of all functions that were called
        self.is_on = True
        self._seen: dict[int, CodeType] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or not self.is_on or id(code) in self._seen:
            return
        file = _file_of(frame)
        if file is None or not code.co_flags & _FUNCTION:
            self._seen[id(code)] = code
        elif not _is_importing(frame):
            self._seen[id(code)] = code
            self.first_calls.setdefault(file, _name_of(frame))
            lines = [line for _, _, line in code.co_lines() if line] if code.co_filename != "<string>" else []
            self.called.setdefault(file, set()).update(range(min(lines, default=0), max(lines, default=-1) + 1))


def _file_of(frame: FrameType) -> str | None:
    """The file of the package that a function stands in; of what dataclasses write, the file of the class."""
    name = frame.f_code.co_filename
    if name == "<string>":
        module = sys.modules.get(str(frame.f_globals.get("__name__")))
        name = getattr(module, "__file__", None) or ""
    return Path(name).relative_to(SOURCE).as_posix() if name.startswith(f"{SOURCE}{os.sep}") else None


def _name_of(frame: FrameType) -> str:
    """The function, with its class; of what dataclasses write, the class."""
    if frame.f_code.co_filename == "<string>":
        return type(next(iter(frame.f_locals.values()))).__name__
    return str(getattr(frame.f_code, "co_qualname", frame.f_code.co_name))  # Python 3.10 has no names with classes


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


# ---- what the walks are run on

PEOPLE = ("小明", "老王", "姐姐", "弟弟", "张老师")
DOINGS = ("打了一个电话给朋友。", "在学校打了篮球。", "打开窗户，看见外面下雨了。", "喜欢看书，也喜欢听音乐。")
LINES = [person + doing for doing in DOINGS for person in PEOPLE] * 2
TINY = {"dim": 16, "n_layers": 2, "n_heads": 2, "max_size": 200, "epochs": 1, "length": 24, "seed": 1}


def labelled_texts(folder: Path) -> None:
    """``train.tsv``, and a BERT that was trained on its texts."""
    import polyseme

    rows = [f"{line}\t{'ball' if '篮球' in line else 'other'}\n" for line in LINES]
    (folder / "train.tsv").write_text("".join(rows), encoding="utf-8")
    polyseme.train("bert", polyseme.Corpus.from_sentences(LINES), out=folder / "bert", **TINY)


def labelled_pairs(folder: Path) -> None:
    """``pairs.tsv``."""
    rows = [f"{a}\t{b}\t{'same' if a[:2] == b[:2] else 'other'}\n" for a, b in zip(LINES, reversed(LINES), strict=True)]
    (folder / "pairs.tsv").write_text("".join(rows), encoding="utf-8")


def index_of_occurrences(folder: Path) -> None:
    """``elmo``, ``corpus`` and ``index``."""
    import polyseme
    from polyseme.search import build_index

    corpus = polyseme.Corpus.from_sentences(LINES, folder / "corpus")
    polyseme.train("elmo", corpus, out=folder / "elmo", epochs=1, seed=1)
    build_index(folder / "elmo", folder / "corpus", folder / "index")


def word_vectors(folder: Path) -> None:
    """``words``."""
    import polyseme

    polyseme.train("svd", polyseme.Corpus.from_sentences(LINES), out=folder / "words", dim=8, min_count=1)


REQUEST = f"/api/neighbours?model=words&word={quote('朋友')}"
WALKS = {
    "fit-classify": Walk(
        "polyseme fit classify --train train.tsv --encoder bert --encoder-mode finetune --epochs 1 -o model",
        labelled_texts,
        re.compile(
            r"learn/(?!metrics)|sentences/|contexts/fine_tuning|contexts/transformer/tuning|tasks/(?!options|fit|metrics)"
        ),
    ),
    "train-infersent": Walk(
        "polyseme train infersent pairs.tsv --dim 10 --hidden 6 --classifier 8 --epochs 1 -o model", labelled_pairs
    ),
    "uses": Walk("polyseme uses index 打", index_of_occurrences),
    "request": Walk(f"polyseme serve words --port {PORT}", word_vectors),
}


# ---- walking


def walk(name: str) -> Steps:
    """The files in the order of their first calls; run in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        WALKS[name].prepare(Path(folder))
        command = [sys.executable, __file__, "--walk", name]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise SystemExit(f"{name}: {done.stderr}")
        steps: Steps = json.loads((Path(folder) / "files.json").read_text(encoding="utf-8"))
    if not steps:
        raise SystemExit(f"{name}: nothing below {SOURCE} was called: is another polyseme on the path (PYTHONPATH)?")
    return steps


def record(name: str) -> None:
    """Run a walk's command in this process and write what it called to ``files.json``."""
    recorder = Recorder()
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    if name == "request":
        recorder.is_on = False
        threading.Thread(target=_ask, args=[recorder], daemon=True).start()
    from polyseme.cli.main import main

    sys.argv = WALKS[name].command.split()
    try:
        main()
    except SystemExit as stop:
        if stop.code and name != "request":
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    steps = {file: (name, len(recorder.called[file])) for file, name in recorder.first_calls.items()}
    Path("files.json").write_text(json.dumps(steps, ensure_ascii=False), encoding="utf-8")


def _ask(recorder: Recorder) -> None:
    """Wait until the server has answered once, ask it again while it is watched, and end it."""
    sys.setprofile(None)  # of this thread nothing is of interest
    for _ in range(600):
        if _is_answered():
            time.sleep(0.2)  # until that connection is gone
            recorder.is_on = True
            _is_answered()
            recorder.is_on = False
            break
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)


def _is_answered() -> bool:
    connection = HTTPConnection("127.0.0.1", PORT, timeout=30)
    try:
        connection.request("GET", REQUEST)
        return connection.getresponse().status == 200
    except OSError:  # it does not listen yet
        return False
    finally:
        connection.close()


# ---- the lists


def listed(name: str, steps: Steps, chinese: bool) -> str:
    """The table of a walk, with sums."""
    subject = WALKS[name].subject
    rows, in_all, of_subject = [], [0, 0], [0, 0]
    for number, (file, (function, n_called)) in enumerate(steps.items(), start=1):
        n_lines = (SOURCE / file).read_text(encoding="utf-8").count("\n")
        is_subject = subject is not None and subject.match(file) is not None
        for sums in (in_all, of_subject) if is_subject else (in_all,):
            sums[0] += n_lines
            sums[1] += n_called
        path = f"**`{file}`**" if is_subject else f"`{file}`"
        rows.append((str(number), path, str(n_lines), str(n_called or ""), f"`{function}`"))
    header = ("", "文件", "行", "其中调用到的函数", "从这里开始")
    header = header if chinese else ("", "file", "lines", "in functions called", "begins with")

    def told(sums: list[int]) -> str:
        if chinese:
            return f"{sums[0]:,} 行，其中 {sums[1]:,} 行在调用到的函数里"
        return f"{sums[0]:,} lines, {sums[1]:,} of them in functions that are called"

    total = f"{len(rows)} 个文件，{told(in_all)}" if chinese else f"{len(rows)} files, {told(in_all)}"
    if subject is not None:
        total += f"；主题（粗体）{told(of_subject)}" if chinese else f"; the subject, in bold: {told(of_subject)}"
    return table(header, rows) + f"\n{total}{'。' if chinese else '.'}\n"


def names_in(text: str, name: str) -> list[str]:
    """The files that a page lists for a walk."""
    block = text.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0]
    return re.findall(r"^\| \d+ \| \**`(.+?)`\** \|", block, re.MULTILINE)


def main() -> int:
    """Write the lists, or with ``--check`` exit 1 where they name other files than the runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(WALKS), help=f"of {', '.join(WALKS)}; default: all")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--walk", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.walk:
        record(given.walk)
        return 0
    stale = 0
    for name in given.names:
        steps = walk(name)
        for page, chinese in PAGES.items():
            text = (ROOT / page).read_text(encoding="utf-8")
            if not given.check:
                (ROOT / page).write_text(placed(text, name, listed(name, steps, chinese)), encoding="utf-8")
            elif difference := sorted(set(steps) ^ set(names_in(text, name))):
                print(f"{page}, {name}: {', '.join(difference)}: run python scripts/architecture.py {name}")
                stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
