"""The default Progress: one line on a terminal or in a notebook, nothing elsewhere.

How Jupyter shows a model, corpus, index or result: a heading and a small table. Every word is escaped.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

_EVERY = 0.25  # seconds between two lines
_WIDTH = 78


class _Line:
    """A line that is rewritten until the work is done."""

    def __init__(self) -> None:
        self.what, self.begun, self.last, self.ended = "", 0.0, 0.0, True

    def __call__(self, what: str, done: float, total: float | None, /, **facts: Any) -> None:
        if not _watched():
            return
        now = time.monotonic()
        finished = total is not None and done >= total
        if what != self.what or (self.ended and not finished):
            self.what, self.begun, self.last, self.ended = what, now, 0.0, False
        if self.ended or (now - self.last < _EVERY and not finished):
            return
        self.last, self.ended = now, finished
        end = "\n" if finished else ""
        sys.stderr.write(f"\r{self._told(done, total, facts, now)[:_WIDTH]:<{_WIDTH}}{end}")
        sys.stderr.flush()

    def _told(self, done: float, total: float | None, facts: dict[str, Any], now: float) -> str:
        took = now - self.begun
        share = f" {done / total:.0%}" if total else ""
        left = f", {took * (total - done) / done:.0f} s left" if total and 0 < done < total else ""
        figures = "".join(f"  {name.replace('_', ' ')} {_short(value)}" for name, value in facts.items())
        return f"{self.what}{share} ({took:.0f} s{left}){figures}"


def _watched() -> bool:
    return sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


shown = _Line()


_AROUND = 12  # characters of the sentence that an excerpt shows to each side
_COLOURS = ("#0b66ac", "#c1431d", "#237f3a", "#8a4bb0", "#b8860b", "#00838f", "#ad1457", "#5d4037")  # as on the page


def facts_table(title: str, facts: Mapping[str, Any]) -> str:
    """Names and values; empty ones are omitted."""
    shown = [(name.replace("_", " "), value) for name, value in facts.items() if value not in (None, "", [], {}, ())]
    return rows_table(title, (), shown)


def rows_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows below their column names, if given."""
    head = "<thead><tr>" + "".join(f"<th>{escape(name)}</th>" for name in columns) + "</tr></thead>" if columns else ""
    body = "".join("<tr>" + "".join(f"<td>{escape(plain(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<b>{escape(title)}</b><table>{head}<tbody>{body}</tbody></table>"


def excerpt(text: str, start: int, end: int) -> str:
    """``text[start:end]`` in brackets, and what is next to it."""
    first, last = max(0, start - _AROUND), end + _AROUND
    before, after = ("…" if first else "") + text[first:start], text[end:last] + ("…" if last < len(text) else "")
    return f"{before}[{text[start:end]}]{after}"


def points_picture(points: Sequence[Sequence[float]], groups: Sequence[int], *, width: int = 360) -> str:
    """Points in the plane, ``(n, 2)``, coloured by group: an SVG."""
    height = 2 * width // 3
    reach = max((abs(x) for point in points for x in point), default=0.0) / 0.95 or 1.0
    dots = "".join(
        f'<circle cx="{width / 2 * (1 + x / reach):.1f}" cy="{height / 2 * (1 - y / reach):.1f}" r="2" '
        f'fill="{_COLOURS[group % len(_COLOURS)]}"/>'
        for (x, y), group in zip(points, groups, strict=True)
    )
    return f'<svg width="{width}" height="{height}" fill-opacity="0.7">{dots}</svg>'


def plain(value: Any) -> str:
    """A value as people write it."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name.replace('_', ' ')} {plain(part)}" for name, part in value.items())
    return ", ".join(map(plain, value)) if isinstance(value, (list, tuple)) else str(value)
