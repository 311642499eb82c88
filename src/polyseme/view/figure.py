"""One way to draw: matplotlib without a screen, written atomically."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from polyseme.disk.atomic import check_file, new_files
from polyseme.errors import MissingExtra, OptionError

SUFFIXES = (".png", ".svg", ".pdf")


def check_picture(path: str | Path, *, force: bool = False) -> None:
    """Refuse a place where no picture can go, or where a file is that may not be replaced; call it before long work."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise OptionError(f"a plot must be a file of type {', '.join(SUFFIXES)}, not {path.name}")
    check_file(path, force=force)


@contextmanager
def figure(path: str | Path, width: float = 7.0, height: float = 4.2, *, force: bool = False) -> Iterator[Any]:
    """The axes of a plot that is written to ``path`` when the work on it is done; the suffix tells the format."""
    path = Path(path)
    check_picture(path, force=force)
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("drawing", "plot") from None
    with rc_context({"text.parse_math": False}):  # a dollar sign in a word does not begin a formula
        drawn = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(drawn)
        axes = drawn.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        yield axes
        with new_files(path, force=force) as (part,):
            drawn.savefig(part, format=path.suffix.lower()[1:], dpi=160)
