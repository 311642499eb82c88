"""Makes ready what the browser tests need: Chromium and a Chinese font, from Debian's packages where that is possible.

Where it is not, it says so in one line, and the browser tests will skip. It never fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

# The first has no window: it opens a page with a quarter of the work.
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGES = {"chromium-headless-shell": "a browser", "fonts-noto-cjk": "a Chinese font"}
OLDER = {"chromium-headless-shell": "chromium"}  # where there is no such package


def missing() -> list[str]:
    """The packages whose content is not on this machine."""
    wanted = []
    if not any(shutil.which(name) for name in CHROMIUM):
        wanted.append(CHROMIUM[0])
    if not _chinese_font():
        wanted.append("fonts-noto-cjk")
    return wanted


def _chinese_font() -> bool:
    roots = [Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), Path.home() / ".fonts"]
    return any(next(root.rglob(pattern), None) for root in roots for pattern in ("*CJK*", "*SourceHan*", "*wqy*"))


def install(packages: list[str]) -> bool:
    """Whether apt-get installed them."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    silence = subprocess.DEVNULL
    commands = (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages])
    try:
        for command in commands:
            subprocess.run(command, check=True, timeout=600, env=environment, stdout=silence, stderr=silence)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def main() -> None:
    """Install what is missing, or say what will be skipped."""
    wanted = missing()
    if not wanted:
        return
    allowed = shutil.which("apt-get") and os.geteuid() == 0
    if allowed and (install(wanted) or install([OLDER.get(name, name) for name in wanted])):
        sys.stdout.write(f"installed {' and '.join(wanted)}\n")
    else:
        what = " and ".join(f"{PACKAGES[name]} ({name})" for name in wanted)
        sys.stdout.write(
            f"the browser tests will be skipped or draw boxes: {what} is missing and cannot be installed\n"
        )


if __name__ == "__main__":
    main()
