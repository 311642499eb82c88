"""The formats of text sources: what a line is. 文本格式

| format      | a line is |
|-------------|-----------|
| `text`      | a paragraph |
| `wrapped`   | part of a paragraph: lines are broken at some width, blank lines separate paragraphs |
| `jsonl`     | a JSON record with the text in one field |
| `segmented` | words separated by spaces |
| `tagged`    | `word/TAG` separated by spaces, as in the People's Daily corpus |

``auto`` distinguishes text, wrapped, jsonl and tagged by the file's name and its first lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import groupby, pairwise
from statistics import median

FORMATS = ("auto", "text", "wrapped", "jsonl", "segmented", "tagged")
_TAGGED = re.compile(r"\S*/[A-Za-z][A-Za-z0-9_-]{0,7}\]?(?:/?[A-Za-z]{1,4})?")
_RECORD = re.compile(r'\s*\{\s*"[^"\n]*"\s*:')
PACKED_ENDING = re.compile(r"\.(gz|bz2|xz)$", re.IGNORECASE)


def sniff(name: str, head: str) -> str:
    """Detect the format of a source by its name and the beginning of its text."""
    if PACKED_ENDING.sub("", name).lower().endswith((".jsonl", ".ndjson")) or _are_records(head):
        return "jsonl"
    lines = head[: 1 << 16].splitlines()[:2000]
    words = [word for line in lines[:200] for word in line.split()]
    if len(words) >= 4 and sum(map(bool, map(_TAGGED.fullmatch, words))) >= 0.9 * len(words):
        return "tagged"
    return "wrapped" if _looks_wrapped(lines) else "text"


def _are_records(head: str) -> bool:
    """Whether all of the first lines are JSON objects; a line longer than the sample is judged by its beginning."""
    if not _RECORD.match(head):
        return False
    *lines, last = head.split("\n", 10)
    try:
        records = [json.loads(line) for line in (*lines, "" if lines else last) if line.strip()]
    except RecursionError:
        return False
    except ValueError:
        return not lines and len(head) >= 1 << 16
    return all(isinstance(record, dict) for record in records)


def _looks_wrapped(lines: list[str]) -> bool:
    """Whether the text is paragraphs whose lines are broken at some width, in the middle of sentences."""
    lines = [line.rstrip() for line in lines]
    full = [line for line in lines if line]
    if len(full) < 12 or max(map(len, full)) > 120 or len(full) == len(lines):
        return False
    if median(map(len, full)) >= 40 and sum(b.lstrip()[:1].islower() for a, b in pairwise(lines) if a) >= len(full) / 4:
        return True
    paragraphs = [list(group) for is_full, group in groupby(lines, key=bool) if is_full]
    return _fill_a_width(paragraphs, len) or _fill_a_width(paragraphs, _columns)


def _fill_a_width(paragraphs: list[list[str]], size: Callable[[str], int]) -> bool:
    """Whether lines are equally wide and end mid-sentence, except the last line of each paragraph.

    In contrast, verses and one-sentence lines end in punctuation, and the last row of a table is as wide as the others.
    """
    broken = [line for lines in paragraphs for line in lines[:-1]]
    last = [lines[-1] for lines in paragraphs if len(lines) > 1]
    if len(broken) < 8:
        return False
    width = median(map(size, broken))
    return (
        width >= 20
        and sum(abs(size(line) - width) <= 2 for line in broken) >= 0.9 * len(broken)
        and sum(not line[-1].isalnum() for line in broken) <= 0.4 * len(broken)
        and sum(size(line) < width - 2 and not line[-1].isalnum() for line in last) >= 0.6 * len(last)
    )


def _columns(line: str) -> int:
    """The display width of a line: Chinese characters, quotes and dashes take two columns."""
    return len(line) + sum(c >= "\u2e80" or c in "“”‘’—…" for c in line)
