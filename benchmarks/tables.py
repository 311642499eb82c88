"""Write tables of results into pages of docs, between their marks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def write_table(page: Path, name: str, rows: Sequence[Sequence[str]]) -> None:
    """Put a table, its header first, between ``<!-- name -->`` and ``<!-- /name -->``."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    page.write_text(before + begin + "\n".join(lines) + "\n" + end + rest.partition(end)[2], encoding="utf-8")


def read_table(page: Path, name: str) -> list[list[str]]:
    """The rows of such a table without its header."""
    text = page.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines()[2:]]
