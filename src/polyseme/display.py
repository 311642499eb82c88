"""The default Progress: one line on a terminal or in a notebook, nothing elsewhere."""

from __future__ import annotations

import sys
import time
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
        told = "".join(f"  {name.replace('_', ' ')} {_short(value)}" for name, value in facts.items())
        return f"{self.what}{share} ({took:.0f} s{left}){told}"


def _watched() -> bool:
    return sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


shown = _Line()
