"""Write tables for other programs: CSV, TSV, JSON lines."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from polyseme.cli.terminal import say
from polyseme.disk.atomic import new_files
from polyseme.errors import OptionError

SUFFIXES = {".csv": "csv", ".tsv": "tsv", ".txt": "tsv", ".jsonl": "jsonl"}
FORMATS = ("csv", "tsv", "jsonl")


def write_rows(
    out: str, form: str | None, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, force: bool
) -> None:
    """Write a file atomically and report its number of rows, or write to stdout for ``-``.

    CSV starts with a byte order mark, by which spreadsheets recognise UTF-8.
    """
    chosen = form or SUFFIXES.get(Path(out).suffix.lower()) or ("tsv" if out == "-" else None)
    if chosen is None:
        raise OptionError(f"no known format for the suffix of {out}: choose one with --format ({', '.join(FORMATS)})")
    if out == "-":
        _written(sys.stdout, chosen, columns, rows)
        return
    encoding = "utf-8-sig" if chosen == "csv" else "utf-8"
    with (
        new_files(out, force=force) as (part,),
        part.open("w", encoding=encoding, newline="", errors="replace") as file,
    ):
        n = _written(file, chosen, columns, rows)
    say(f"{n:,} rows in {out}", err=True)


def _written(file: IO[str], form: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    counted = list(rows)
    if form == "jsonl":
        file.writelines(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n" for row in counted)
    else:
        table = csv.writer(file, delimiter="," if form == "csv" else "\t", lineterminator="\n")
        table.writerows([columns, *counted])  # None is an empty cell
    return len(counted)
