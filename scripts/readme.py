"""Write tables from the code: of methods into both READMEs, of options into docs/methods. ``--check`` only compares.

Each table stands between two markers. A page of a method that has none gets its table at the end, or in the place of
one that was written by hand.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

from polyseme.api import options_of
from polyseme.catalog import METHODS, Row
from polyseme.catalog.options_zh import in_chinese

ROOT = Path(__file__).resolve().parents[1]
BY_HAND = re.compile(r"\| option \| meaning \|\n\|---\|---\|\n(?:\|.*\n)+")
HEADERS = {
    "README.md": ("method", "Chinese name", "kind", "paper"),
    "README.zh-CN.md": ("方法", "名称", "类别", "论文"),
}


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, *rows)).replace(
        "\n", f"\n|{'---|' * len(header)}\n", 1
    )


def methods(header: tuple[str, ...]) -> str:
    """The catalog."""
    return table(header, [(f"`{r.name}`", r.chinese, r.kind, f"{r.paper} ({r.year})") for r in METHODS])


def options(row: Row, *, chinese: bool = False) -> str:
    """The options of a method that training can use, those that change the speed only marked."""
    kind = options_of(row.name)
    fields = [field for field in dataclasses.fields(kind) if field.name not in getattr(kind, "for_encoders", ())]
    rows = [
        (
            f"`{field.name}`",
            shown(field.default, chinese),
            meaning(field, in_chinese(row.name, field.name) if chinese else ""),
        )
        for field in fields
    ]
    return table(("参数", "默认", "含义") if chinese else ("option", "default", "meaning"), rows)


def shown(value: Any, chinese: bool = False) -> str:
    """A default as people write it; nothing where the meaning says what happens without the option."""
    if isinstance(value, bool):
        return ("是" if value else "否") if chinese else "yes" if value else "no"
    return "" if value is None else f"`{value}`"


def meaning(field: dataclasses.Field[Any], chinese: str = "") -> str:
    """The help text, or that in Chinese, the values that there are, and whether only the speed changes."""
    choices = [f"`{choice}`" for choice in field.metadata["choices"] or ()]
    if chinese:
        return chinese.replace("|", "\\|") + (f"：{'、'.join(choices)}" if choices else "")
    named = f": {', '.join(choices)}" if choices else ""
    speed = " (speed only)" if field.metadata["changes"] == "speed" else ""
    return f"{field.metadata['help'].replace('|', chr(92) + '|')}{named}{speed}"


def placed(text: str, name: str, new: str) -> str:
    """The text with a table between its markers; at the end where it has none."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    if begin not in text:  # in the place of a table written by hand
        text, found = BY_HAND.subn(f"{begin}{end}\n", text, count=1)
        text = text if found else f"{text.rstrip()}\n\n## Options\n\n{begin}{end}\n"
    before, rest = text.split(begin)
    return before + begin + new + end + rest.split(end)[1]


def main() -> int:
    """Write, or with ``--check`` exit 1 where a document differs from the code."""
    wanted = [(ROOT / name, "methods", methods(header)) for name, header in HEADERS.items()]
    wanted += [(ROOT / "docs" / "methods" / f"{row.name}.md", "options", options(row)) for row in METHODS]
    stale = 0
    for file, name, new in wanted:
        old = file.read_text(encoding="utf-8")
        text = placed(old, name, new)
        if text != old and "--check" in sys.argv:
            print(f"{file.relative_to(ROOT)} is not what the code says: run python scripts/readme.py")
            stale = 1
        elif text != old:
            file.write_text(text, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
