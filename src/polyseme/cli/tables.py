"""What the commands share: tables, JSON and progress."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from polyseme.cli.terminal import json_printable, printable, say
from polyseme.errors import close_matches
from polyseme.interfaces import Progress, silent
from polyseme.machine import leads

json_option: Callable[[Any], Any] = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


QUALITY = ("perplexity", "loss", "accuracy", "f1", "score")  # what figures of how good a model is are called


_WIDE = 110  # columns from which on there is room for a bar
_SHORT = {
    "forward_perplexity": "ppl fwd",
    "backward_perplexity": "bwd",
    "words_per_second": "words/s",
    "tokens_per_second": "tokens/s",
}


_VALUES = 60  # columns of the values of an option in the help


class OneOf(click.Choice[str]):
    """Named values, with suggestions for a mistyped one; in the help, many values take several lines."""

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        shown = super().get_metavar(param, ctx)
        if not shown or len(shown) <= _VALUES:
            return shown
        lines = textwrap.wrap(shown.replace("|", "| "), _VALUES, break_on_hyphens=False)
        return "\n      ".join(line.replace("| ", "|") for line in lines)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return f"{value!r} is not one of {', '.join(self.choices)}{close_matches(str(value), self.choices)}"


def out_folder(ctx: click.Context, parameter: click.Parameter, path: str) -> str:
    """A callback for ``--out``: a folder cannot be written to stdout."""
    if path == "-":
        raise click.BadParameter("the result is a folder, which cannot be written to stdout: name it")
    return path


def force_flag() -> click.Option:
    """The flag of every command that writes."""
    return click.Option(["--force"], is_flag=True, help="Replace what is at the output path, if polyseme made it.")


def force_option(command: Any) -> Any:
    """The same as a decorator, above or below that of the command."""
    return click.option("--force", is_flag=True, help=force_flag().help)(command)


def choice_option(flag: str, choices: Sequence[str], help: str) -> Callable[[Any], Any]:
    """A flag with named values, of which the first is the default."""
    return click.option(flag, type=OneOf(choices), default=choices[0], show_default=True, help=help)


def print_json(value: Any) -> None:
    """One JSON value on stdout."""
    click.echo(json_printable(json.dumps(value, ensure_ascii=False, indent=1)))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table on stdout; Chinese characters count as two columns, numbers are right-aligned."""
    from rich.table import Table

    from polyseme.cli.console import SafeConsole

    rows = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[place], (int, float, type(None))) for row in rows)
        table.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(plain(value) for value in row))
    to = SafeConsole()
    if to.is_terminal:
        to.print(table)
        return
    to.width = 10_000  # a pipe gets whole lines, whatever the width of a screen
    for each in table.columns:
        each.no_wrap = True
    with to.capture() as captured:
        to.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


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

    from polyseme.cli.console import SafeConsole

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
        told: dict[str, Any] = {"facts": _facts(_important(facts)), "share": f"{done / total:.0%}" if total else ""}
        bars.update(tasks[what], completed=done, total=total, visible=True, **told)

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
