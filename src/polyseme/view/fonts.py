"""A font that has Chinese characters, looked for among those installed: without one, plots show boxes."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

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
    found = _installed()
    if found is None:
        log.warning("no font with Chinese characters is installed: the plot shows boxes (apt install fonts-noto-cjk)")
    return found


@lru_cache(maxsize=1)
def _installed() -> Any:
    from matplotlib.font_manager import FontProperties, fontManager

    names = {font.name for font in fontManager.ttflist}
    best = next((name for name in _NAMES if name in names), None)
    return FontProperties(family=best) if best else None
