"""What is at this path? Decided by content, in this one place."""

from __future__ import annotations

from pathlib import Path

from polyseme.errors import FormatError


def recognise(path: str | Path) -> str:
    """The name of the format: a row of ``store.load.OPENERS``, or ``corpus``, ``index`` or ``text``."""
    path = Path(path)
    if not path.exists():
        raise FormatError(f"{path} does not exist")
    return _folder(path) if path.is_dir() else _file(path)


def _folder(path: Path) -> str:
    for marker, name in (("model.json", "polyseme"), ("corpus.json", "corpus"), ("index.json", "index")):
        if (path / marker).exists():
            return name
    return "text"


def _file(path: Path) -> str:
    return "text"
