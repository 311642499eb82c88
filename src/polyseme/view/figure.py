"""One way to draw: matplotlib without a screen, written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from polyseme.disk.atomic import new_file
from polyseme.errors import MissingExtra, OptionError

SUFFIXES = (".png", ".svg", ".pdf")


@contextmanager
def figure(path: str | Path, width: float = 7.0, height: float = 4.2) -> Iterator[Any]:
    """The axes of a picture that is written to ``path`` when the work on it is done; the suffix tells the format."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise OptionError(f"a picture is written as {', '.join(SUFFIXES)}; not as {path.name}")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("drawing", "plot") from None
    drawn = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawn)
    axes = drawn.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    yield axes
    with new_file(path) as part:
        drawn.savefig(part, format=path.suffix.lower()[1:], dpi=160)
