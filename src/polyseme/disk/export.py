"""Folders in the formats of other libraries, with a list of their files by which we recognise them as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polyseme.disk.folders import Manifest

EXPORT = Manifest("an exported model", "polyseme.json", 1, "polyseme convert", {"form": str, "folders": dict})


@contextmanager
def new_export(path: str | Path, form: str, *, force: bool) -> Iterator[Path]:
    """A folder to write to that becomes ``path``; ``force`` replaces another polyseme result, never other files."""
    with EXPORT.new_folder(path, force=force) as folder:
        yield folder
        folders = {inner.name: EXPORT.seals(inner) for inner in folder.iterdir() if inner.is_dir()}
        EXPORT.write(folder, {"form": form, "folders": folders}, EXPORT.seals(folder))
