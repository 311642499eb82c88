"""Tables to files for other programs: CSV, TSV, JSON lines."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from polyseme.disk.atomic import new_files
from polyseme.errors import OptionError

SUFFIXES = {".csv": "csv", ".tsv": "tsv", ".txt": "tsv", ".jsonl": "jsonl"}
FORMATS = ("csv", "tsv", "jsonl")


def write_rows(
    out: str, form: str | None, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, force: bool
) -> int:
    """Write a file whole or not at all, or standard output where it is ``-``; the number of rows.

    CSV begins with a byte order mark, by which spreadsheets know UTF-8.
    """
    chosen = form or SUFFIXES.get(Path(out).suffix.lower()) or ("tsv" if out == "-" else None)
    if chosen is None:
        raise OptionError(f"the suffix of {out} names no format: say which with --format ({', '.join(FORMATS)})")
    if out == "-":
        return _written(sys.stdout, chosen, columns, rows)
    encoding = "utf-8-sig" if chosen == "csv" else "utf-8"
    with (
        new_files(out, force=force) as (part,),
        part.open("w", encoding=encoding, newline="", errors="replace") as file,
    ):
        return _written(file, chosen, columns, rows)


def _written(file: IO[str], form: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    counted = list(rows)
    if form == "jsonl":
        file.writelines(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n" for row in counted)
    else:
        table = csv.writer(file, delimiter="," if form == "csv" else "\t", lineterminator="\n")
        table.writerows([columns, *counted])  # None is an empty cell
    return len(counted)
