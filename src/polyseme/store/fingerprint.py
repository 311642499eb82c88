"""Whether a model is still the one it was: a fingerprint of its files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from polyseme.disk.manifest import sha256
from polyseme.store.folder import MARKER

_ASIDE = {"README.md"}  # may change without the vectors changing


def model_fingerprint(path: str | Path) -> str:
    """Of every byte of a model's files; of folders of ours, of each model.json, which has their SHA-256."""
    path = Path(path)
    files = [path]
    if path.is_dir():
        ours = (path / MARKER).is_file()
        files = sorted(f for f in path.rglob(MARKER if ours else "*") if f.is_file())
    digest = hashlib.sha256()
    for file in files:
        if file.name not in _ASIDE and not file.name.startswith("."):
            name = str(file.relative_to(path)) if path.is_dir() else "file"
            digest.update(f"{name}\0{sha256(file)}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
