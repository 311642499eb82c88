"""Write the table of methods into both READMEs, between its two markers. ``--check`` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from polyseme.catalog import METHODS

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- methods -->\n", "<!-- /methods -->"
HEADERS = {
    "README.md": ("method", "Chinese name", "kind", "paper"),
    "README.zh-CN.md": ("方法", "名称", "类别", "论文"),
}


def with_table(text: str, header: tuple[str, ...]) -> str:
    """The text with the table of the catalog in its place."""
    rows = [f"| `{row.name}` | {row.chinese} | {row.kind} | {row.paper} ({row.year}) |" for row in METHODS]
    table = "\n".join([f"| {' | '.join(header)} |", "|---|---|---|---|", *rows, ""])
    before, rest = text.split(BEGIN)
    return before + BEGIN + table + END + rest.split(END)[1]


def main() -> int:
    """Write, or with ``--check`` exit 1 where a README differs from the catalog."""
    stale = 0
    for name, header in HEADERS.items():
        file = ROOT / name
        old = file.read_text(encoding="utf-8")
        new = with_table(old, header)
        if new != old and "--check" in sys.argv:
            print(f"{name} is not what the catalog says: run python scripts/readme.py")
            stale = 1
        elif new != old:
            file.write_text(new, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
