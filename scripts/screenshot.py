"""Pictures of the page for the documents: one view of a running server, as PNG with few colours.

polyseme serve INDEX WORDS --port 8617 &
python scripts/screenshot.py 'http://127.0.0.1:8617/?lang=zh#/senses?word=打' docs/images/uses.png
"""

from __future__ import annotations

import argparse
import io
import shutil
from pathlib import Path

from browser import CHROMIUM

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


def picture(url: str, *, width: int, height: int, dark: bool) -> bytes:
    """What a browser shows of the address once the view is ready."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        page.goto(url)
        page.wait_for_selector("[data-ready]", timeout=60_000)
        page.wait_for_timeout(500)
        shot = page.screenshot()
        browser.close()
    return shot


def smaller(png: bytes) -> bytes:
    """The picture with 256 colours where Pillow is there to choose them (small dots keep theirs), or as it is."""
    try:
        from PIL import Image
    except ImportError:
        return png
    out = io.BytesIO()
    whole = Image.open(io.BytesIO(png)).convert("RGB")
    reduced = whole.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=3, dither=0)
    reduced.save(out, "PNG", optimize=True)
    return min(png, out.getvalue(), key=len)


def main() -> None:
    """Take the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("out", type=Path)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=820)
    parser.add_argument("--dark", action="store_true")
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_bytes(smaller(picture(given.url, width=given.width, height=given.height, dark=given.dark)))


if __name__ == "__main__":
    main()
