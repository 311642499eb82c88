"""One way to draw: matplotlib without a screen, written atomically.

A font that has Chinese characters, looked for among those installed: without one, plots show boxes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from polyseme.disk.atomic import check_file, new_files
from polyseme.errors import OptionError
from polyseme.extras import needed_for

SUFFIXES = (".png", ".svg", ".pdf")


def check_picture(path: str | Path, *, force: bool = False) -> None:
    """Refuse a place where no picture can go, or where a file is that may not be replaced; call it before long work.

    It also tells whether there is something to draw with.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise OptionError(f"a plot must be a file of type {', '.join(SUFFIXES)}, not {path.name}")
    check_file(path, force=force)
    with needed_for("drawing"):
        find_spec("matplotlib")


@contextmanager
def figure(path: str | Path, width: float = 7.0, height: float = 4.2, *, force: bool = False) -> Iterator[Any]:
    """The axes of a plot that is written to ``path`` when the work on it is done; the suffix tells the format."""
    path = Path(path)
    check_picture(path, force=force)
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"text.parse_math": False}):  # a dollar sign in a word does not begin a formula
        drawn = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(drawn)
        axes = drawn.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        yield axes
        with new_files(path, force=force) as (part,):
            drawn.savefig(part, format=path.suffix.lower()[1:], dpi=160)


log = logging.getLogger(__name__)

_CJK = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
# As matplotlib lists them, the best first.
_NAMES = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN", "PingFang SC", "Microsoft YaHei",
    "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "SimHei", "Heiti SC", "Noto Sans CJK JP", "Droid Sans Fallback",
    "Arial Unicode MS", "SimSun",
)  # fmt: skip


def font_for(texts: Iterable[str]) -> Any:
    """Properties of a font that can write all of the texts; None: the usual one does, or there is no better one."""
    if not any(_CJK.search(text) for text in texts):
        return None
    font = _installed()
    if font is None:
        log.warning("no font with Chinese characters is installed: the plot shows boxes (apt install fonts-noto-cjk)")
    return font


@lru_cache(maxsize=1)
def _installed() -> Any:
    from matplotlib.font_manager import FontProperties, fontManager

    names = {font.name for font in fontManager.ttflist}
    best = next((name for name in _NAMES if name in names), None)
    return FontProperties(family=best) if best else None
