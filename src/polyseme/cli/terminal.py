"""What reaches the terminal: lines, logs and progress, without control characters.

Words come from other people's files and may contain escape sequences. Every printed line goes through ``say``,
``print_json`` or a ``SafeConsole`` (``tables``).
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from polyseme.machine import leads

if TYPE_CHECKING:
    from polyseme.interfaces import Progress

# Controls but tab and newline, those of Latin-1 among them; signs that reorder text; halves of surrogate pairs.
_UNSAFE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

QUALITY = ("perplexity", "loss", "accuracy", "f1", "score")  # in the names of figures of how good a model is
_WIDE = 110  # columns from which on there is room for a bar
_SHORT = {
    "forward_perplexity": "ppl fwd",
    "backward_perplexity": "bwd",
    "words_per_second": "words/s",
    "tokens_per_second": "tokens/s",
}


def printable(text: str) -> str:
    """The text with each control character replaced by a visible sign: ␛ for escape, � for others."""
    return _UNSAFE.sub(_sign, text)


def json_printable(text: str) -> str:
    """JSON with the same characters escaped; lone surrogates, which JSON should not contain, as �."""
    return _UNSAFE.sub(lambda match: _sign(match) if match[0] >= "\ud800" else f"\\u{ord(match[0]):04x}", text)


def say(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a line."""
    click.echo(printable(text), err=err, nl=nl)


class SafeFormatter(logging.Formatter):
    """For log messages, which may name files and words."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"


def plain(value: Any) -> str:
    """A value as people write it."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4f}" if isinstance(value, float) else printable(str(value))


@contextmanager
def shown_progress(out: str = "") -> Iterator[Progress]:
    """A Progress on stderr: a live bar on a terminal, otherwise an occasional line.

    Nothing where the result is printed on the terminal line by line (``out`` is -): the lines show how far it is.
    Of torchrun's processes only the first shows it.
    """
    from polyseme.interfaces import silent

    if (out == "-" and sys.stdout.isatty()) or not leads():
        yield silent
    elif sys.stderr.isatty():
        with _live_bars() as progress:
            yield progress
    else:
        yield _spaced_lines()


@contextmanager
def _live_bars() -> Iterator[Progress]:
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars
    from rich.table import Column

    from polyseme.cli.tables import SafeConsole

    to = SafeConsole(stderr=True)
    bar = [BarColumn(bar_width=28)] if to.width >= _WIDE else []  # the figures need the room
    bars = Bars(
        TextColumn("{task.description}"),
        *bar,
        TextColumn("{task.fields[share]:>4}", table_column=Column(min_width=4, no_wrap=True)),
        TextColumn("{task.fields[facts]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        TimeElapsedColumn(table_column=Column(min_width=7, no_wrap=True)),
        _left_column(),
        console=to,
        expand=True,  # what does not fit is cut from the facts, never from the bar
        redirect_stdout=False,  # a result that goes to a file or a pipe stays there, and its lines stay whole
    )
    tasks: dict[str, Any] = {}

    def progress(what: str, done: float, total: float | None, /, **facts: Any) -> None:
        if what not in tasks:
            for before in bars.tasks:  # its name would take room from the figures
                bars.update(before.id, visible=not before.finished)
            tasks[what] = bars.add_task(what, total=total, facts="", share="0%" if total else "")
        fields: dict[str, Any] = {"facts": _facts(_important(facts)), "share": f"{done / total:.0%}" if total else ""}
        bars.update(tasks[what], completed=done, total=total, visible=True, **fields)

    with bars:
        yield progress


def _left_column() -> Any:
    from rich.progress import Task, TimeRemainingColumn
    from rich.table import Column
    from rich.text import Text

    class Left(TimeRemainingColumn):
        """The time that is left, where it is known how much there is to do."""

        def render(self, task: Task) -> Text:
            return Text("") if task.total is None else Text.assemble("left ", super().render(task))

    return Left(table_column=Column(min_width=12, no_wrap=True))


def _important(facts: dict[str, Any]) -> dict[str, Any]:
    """Quality before speed, with short names, to fit a narrow terminal."""
    order = sorted(facts, key=lambda name: (name not in how_good(facts), "per_second" in name))
    return {_SHORT.get(name, name): facts[name] for name in order}


def _spaced_lines(every: float = 10.0) -> Progress:
    started: dict[str, float] = {}
    last: dict[str, float] = {}
    ended: set[str] = set()

    def progress(what: str, done: float, total: float | None, /, **facts: Any) -> None:
        now = time.monotonic()
        if what not in started and total is None and not done:  # nobody knows how long it takes: say what it is
            say(f"{what} …", err=True)
        begun = started.setdefault(what, now)
        finished = total is not None and done >= total
        if now - last.get(what, begun) < every and not (finished and what in last and what not in ended):
            return
        ended.update({what} if finished else ())
        last[what] = now
        share = f" {done / total:.0%}" if total else ""
        left = f", {(now - begun) * (total - done) / done:.0f} s left" if total and done and not finished else ""
        say(f"{what}{share} {_facts(facts)} ({now - begun:.0f} s{left})".replace("  ", " "), err=True)

    return progress


def say_end(made: str, begun: float, curve: Sequence[dict[str, Any]] = (), *, then: str = "") -> None:
    """The end of a long command: what was written, its last score, the time, and what to try next."""
    if not leads():
        return
    good = how_good(curve[-1]) if curve else {}
    took = time.monotonic() - begun
    time_taken = f"{took:.1f} s" if took < 100 else f"{took / 60:.1f} min"
    say(f"{made} ({', '.join(filter(None, (_facts(good), time_taken)))})", err=True)
    if then:
        say(f"next: {then}", err=True)


def how_good(report: dict[str, Any]) -> dict[str, Any]:
    """The quality part of a training report."""
    return {name: value for name, value in report.items() if any(word in name for word in QUALITY)}


def _facts(facts: dict[str, Any]) -> str:
    return "  ".join(f"{name.replace('_', ' ')} {_short(value)}" for name, value in facts.items())


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return plain(value)
