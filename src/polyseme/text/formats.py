"""What the lines of a source are. 文本格式

| format      | a line is |
|-------------|-----------|
| `text`      | a paragraph |
| `wrapped`   | part of a paragraph: lines were broken at some width, blank lines separate paragraphs |
| `jsonl`     | a JSON record with the text in one field |
| `segmented` | words with spaces between them |
| `tagged`    | `word/TAG` with spaces between them, as in the People's Daily corpus |

``auto`` tells text, wrapped, jsonl and tagged apart by the file's name and its first lines.
"""

from __future__ import annotations

import re
from itertools import pairwise
from statistics import median

FORMATS = ("auto", "text", "wrapped", "jsonl", "segmented", "tagged")
_TAGGED = re.compile(r"\S*/[A-Za-z][A-Za-z0-9_-]{0,7}\]?(?:/?[A-Za-z]{1,4})?")
_PACKED_ENDING = re.compile(r"\.(gz|bz2|xz)$", re.IGNORECASE)


def sniff(name: str, head: str) -> str:
    """The format of a source, by its name and the beginning of its text."""
    if _PACKED_ENDING.sub("", name).lower().endswith((".jsonl", ".ndjson")):
        return "jsonl"
    lines = head[: 1 << 16].splitlines()[:2000]
    words = [word for line in lines[:200] for word in line.split()]
    if len(words) >= 4 and sum(map(bool, map(_TAGGED.fullmatch, words))) >= 0.9 * len(words):
        return "tagged"
    return "wrapped" if _looks_wrapped(lines) else "text"


def _looks_wrapped(lines: list[str]) -> bool:
    """Lines of about one width, which go on in the next line in the middle of a sentence."""
    full = [line for line in lines if line.strip()]
    if len(full) < 12 or max(map(len, full)) > 120 or len(full) == len(lines):
        return False
    pairs = [(a.rstrip(), b.lstrip()) for a, b in pairwise(lines) if a.strip() and b.strip()]
    goes_on = sum(b[0].islower() for _, b in pairs)
    if median(map(len, full)) >= 40:
        return goes_on >= 0.25 * len(full)
    return False
