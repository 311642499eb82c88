"""Sources to blocks of text: files, folders, stdin, compressed files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from polyseme.errors import TextError
from polyseme.text.block import Block


def read_blocks(sources: Sequence[str | Path]) -> Iterator[Block]:
    """The text of the sources in order."""
    for source in sources:
        path = Path(source)
        if not path.exists():
            raise TextError(f"{path} does not exist")
        files = sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path]
        for file in files:
            yield Block(str(file), file.read_text(encoding="utf-8-sig"), new_source=True)
