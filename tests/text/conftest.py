"""Files of examples, written and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polyseme.data.examples import Examples


def written(folder: Path, data: str | bytes, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def read(folder: Path, data: str | bytes, **options: Any) -> Examples:
    return Examples.read(written(folder, data), **options)
