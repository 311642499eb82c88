"""Standard output as rich sees it: colours on a terminal, plain lines in a pipe."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from polyseme.cli.terminal import printable


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
