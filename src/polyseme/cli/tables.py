"""What the commands answer: JSON, tables, files of rows, and words in context (KWIC). 语境中的关键词"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import click
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from polyseme.cli.terminal import json_printable, plain, printable, say
from polyseme.disk.atomic import new_files
from polyseme.errors import OptionError
from polyseme.text.spacing import joined

if TYPE_CHECKING:
    from polyseme.words.vectors import Neighbours

ROW_SUFFIXES = {".csv": "csv", ".tsv": "tsv", ".txt": "tsv", ".jsonl": "jsonl"}
ROW_FORMATS = ("csv", "tsv", "jsonl")
PIPED_WIDTH = 100
_SOURCE_WIDTH = 16
_ELLIPSIS = "…"


class SafeConsole(Console):
    """Printed text contains no terminal control characters; rich adds its own colours later."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **settings)

    def print(self, *objects: Any, **settings: Any) -> None:
        """Print as rich does, without control characters."""
        super().print(*map(_safe, objects), **settings)


def _safe(value: Any) -> Any:
    if isinstance(value, Text):
        value.plain = printable(value.plain)  # as long as before, so that the styles keep their places
        return value
    return printable(value) if isinstance(value, str) else value


def print_json(value: Any) -> None:
    """One JSON value on stdout."""
    click.echo(json_printable(json.dumps(value, ensure_ascii=False, indent=1)))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table on stdout; Chinese characters count as two columns, numbers are right-aligned."""
    from rich.table import Table

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
    for cells in table.columns:
        cells.no_wrap = True
    with to.capture() as captured:
        to.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def answers_to_json(answers: Neighbours, score: str) -> list[dict[str, Any]]:
    """Words with their scores, for programs."""
    return [{"word": word, score: round(value, 6)} for word, value in answers]


def print_answers(answers: Neighbours, score: str) -> None:
    """The same for people."""
    print_table(("word", score), answers)


def write_rows(
    out: str, form: str | None, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, force: bool
) -> None:
    """Write a file atomically and report its number of rows, or write to stdout for ``-``.

    CSV starts with a byte order mark, by which spreadsheets recognise UTF-8.
    """
    chosen = form or ROW_SUFFIXES.get(Path(out).suffix.lower()) or ("tsv" if out == "-" else None)
    if chosen is None:
        formats = ", ".join(ROW_FORMATS)
        raise OptionError(f"no known format for the suffix of {out}: choose one with --format ({formats})")
    if out == "-":
        _write_table(sys.stdout, chosen, columns, rows)
        return
    encoding = "utf-8-sig" if chosen == "csv" else "utf-8"
    with (
        new_files(out, force=force) as (part,),
        part.open("w", encoding=encoding, newline="", errors="replace") as file,
    ):
        n = _write_table(file, chosen, columns, rows)
    say(f"{n:,} rows in {out}", err=True)


def _write_table(file: IO[str], form: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    listed = list(rows)
    if form == "jsonl":
        file.writelines(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n" for row in listed)
    else:
        table = csv.writer(file, delimiter="," if form == "csv" else "\t", lineterminator="\n")
        table.writerows([columns, *listed])  # None is an empty cell
    return len(listed)


@contextmanager
def sink_of(out: str, force: bool) -> Iterator[IO[str]]:
    """Where lines go: stdout for -, or a new file, written atomically."""
    if out == "-":
        yield sys.stdout
        return
    with new_files(Path(out), force=force) as (part,), part.open("w", encoding="utf-8", errors="replace") as sink:
        yield sink


def console() -> Console:
    """Stdout as rich sees it: colours on a terminal, plain lines in a pipe."""
    stdout = SafeConsole(soft_wrap=True)
    if not stdout.is_terminal:
        stdout.width = PIPED_WIDTH
    return stdout


class InSentence(Protocol):
    """A match in a sentence, ``text[start:end]``; perhaps with a ``score``, a ``source`` and neighbouring sentences."""

    @property
    def text(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def tag(self) -> str | None: ...


def print_kwic(
    to: Console,
    hits: Sequence[InSentence],
    *,
    indent: int = 0,
    scores: bool = True,
    sources: bool = False,
    faded: bool = False,
) -> None:
    """One line per hit: score, source, tag if there are tags, and the word in its context."""
    width = to.width - indent
    for line in kwic_lines(hits, width=width, scores=scores, sources=sources, brackets=not to.is_terminal):
        whole = Text(" " * indent) + (Text(line.plain, "dim") if faded else line)
        to.print(whole, no_wrap=True, crop=False)


def kwic_lines(
    hits: Sequence[InSentence], *, width: int, scores: bool = True, sources: bool = False, brackets: bool = False
) -> Iterable[Text]:
    """The lines, each at most ``width`` columns wide; a Chinese character takes two."""
    names = [trimmed(_clean(hit.source), _SOURCE_WIDTH) if sources else "" for hit in hits]  # type: ignore[attr-defined]
    named = max(map(cell_len, names), default=0)
    tags = max((cell_len(hit.tag) for hit in hits if hit.tag), default=0)
    words = min(max((cell_len(_clean(hit.text[hit.start : hit.end])) for hit in hits), default=0), width // 2)
    marks = 4 if brackets else 2
    taken = (7 if scores else 0) + (tags + 1 if tags else 0) + (named + 2 if named else 0)
    side = max((width - words - marks - taken) // 2, 4)
    for hit, name in zip(hits, names, strict=True):
        line = Text()
        if scores:
            line.append(f"{hit.score:5.3f}  ", style="dim")  # type: ignore[attr-defined]
        if named:
            line.append(name + " " * (named - cell_len(name) + 2), style="dim")
        if tags:
            line.append(f"{hit.tag or '':<{tags}} ", style="cyan")
        left = trimmed_left(_clean(joined([getattr(hit, "before", ""), hit.text[: hit.start]])), side)
        right = trimmed(_clean(joined([hit.text[hit.end :], getattr(hit, "behind", "")])), side)
        word = trimmed(_clean(hit.text[hit.start : hit.end]), max(words, 1))
        line.append(" " * (side - cell_len(left)) + left)
        line.append(f"【{word}】" if brackets else f" {word} ", style="bold red")
        line.append(right)
        yield line


def trimmed(text: str, width: int) -> str:
    """The start of a text that fits ``width`` columns, with ``…`` if something is cut off."""
    if cell_len(text) <= width:
        return text
    used, kept = cell_len(_ELLIPSIS), []
    for character in text:
        used += cell_len(character)
        if used > width:
            break
        kept.append(character)
    return "".join(kept) + _ELLIPSIS


def trimmed_left(text: str, width: int) -> str:
    """The end of a text in the same way."""
    if cell_len(text) <= width:
        return text
    used, kept = cell_len(_ELLIPSIS), []
    for character in reversed(text):
        used += cell_len(character)
        if used > width:
            break
        kept.append(character)
    return _ELLIPSIS + "".join(reversed(kept))


def _clean(text: str) -> str:
    # A corpus may hold control characters; a terminal must not obey them.
    return "".join(character if character.isprintable() else " " for character in text)
