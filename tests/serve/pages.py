"""Helpers for the tests of the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Open = Callable[..., Any]


def texts(page: Any, selector: str) -> list[str]:
    return [text.strip() for text in page.locator(selector).all_text_contents()]


def distinct_colours(page: Any, selector: str) -> int:
    """The number of clearly different colours drawn on a canvas."""
    script = """canvas => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const seen = new Map();
      for (let i = 0; i < data.length; i += 4) {
        if (data[i + 3] < 180) continue;
        const key = [data[i] >> 5, data[i + 1] >> 5, data[i + 2] >> 5].join();
        seen.set(key, (seen.get(key) ?? 0) + 1);
      }
      return [...seen.values()].filter((times) => times > 20).length;
    }"""
    page.wait_for_timeout(100)  # a frame is drawn
    return int(page.locator(selector).evaluate(script))


def saved(page: Any, selector: str) -> str:
    """The text of the file that a click downloads."""
    with page.expect_download() as waiting:
        page.click(selector)
    return Path(waiting.value.path()).read_text(encoding="utf-8-sig")
