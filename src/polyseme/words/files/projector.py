"""The tables of TensorBoard's Embedding Projector: vectors.tsv, and metadata.tsv with a word for each row."""

from __future__ import annotations

from pathlib import Path

from polyseme.disk.atomic import new_files
from polyseme.interfaces import FloatArray

VECTORS, METADATA = "vectors.tsv", "metadata.tsv"
_BREAKS = str.maketrans("\t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", " " * 11)


def write(folder: str | Path, words: list[str], vectors: FloatArray, *, force: bool = True) -> None:
    """Write both files, or neither, into a folder, which is created if necessary."""
    folder = Path(folder)
    with new_files(folder / VECTORS, folder / METADATA, force=force) as (rows, metadata):
        with open(rows, "w", encoding="ascii") as file:
            file.writelines("\t".join(map(str, row)) + "\n" for row in vectors)
        with open(metadata, "w", encoding="utf-8", errors="replace") as file:
            # One column, so no header; an empty word or one with a line break would shift all that follow.
            file.writelines((word.translate(_BREAKS).strip() or "(blank)") + "\n" for word in words)
