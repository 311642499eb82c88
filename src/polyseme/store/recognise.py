"""What is at this path? Decided by content, in this one place."""

from __future__ import annotations

import re
from pathlib import Path

from polyseme.errors import FormatError
from polyseme.store import elmo_files, fasttext_format, word2vec_format
from polyseme.store.opening import first_bytes

# How files begin that are models of other programs: told apart so that the refusal can say what they are.
_STRANGERS = (
    (re.compile(rb"\x80[\x01-\x05]"), "pickle"),
    (re.compile(rb"(\(i|c)[A-Za-z_][\w.]*\n\w+\n"), "pickle"),  # the text protocol
    (re.compile(rb"PK\x03\x04"), "zip"),
    (re.compile(rb".{257}ustar", re.DOTALL), "tar"),
    (re.compile(rb"\x93NUMPY"), "npy"),
    (re.compile(rb"\x89HDF\r\n\x1a\n"), "hdf5"),
    (re.compile(rb".{5}\x00\x00\x00\{", re.DOTALL), "safetensors"),
    (re.compile(rb"\s*\{\s*[\"}]"), "json"),
)


def recognise(path: str | Path) -> str:
    """The name of the format: a row of ``store.load.OPENERS`` or ``store.load.REFUSALS``."""
    path = Path(path)
    if not path.exists():
        raise FormatError(f"{path} does not exist")
    return _folder(path) if path.is_dir() else _file(path)


def _folder(path: Path) -> str:
    for marker, name in (("model.json", "polyseme"), ("corpus.json", "corpus"), ("index.json", "index")):
        if (path / marker).exists():
            return name
    return elmo_files.kind_of_folder(path) or "folder"


def _file(path: Path) -> str:
    head = first_bytes(path, word2vec_format.HEAD)
    if not head:
        return "empty"
    for pattern, name in _STRANGERS:
        if pattern.match(head):
            return elmo_files.kind_of_file(path) or name
    if fasttext_format.recognise(head):
        return "fasttext"
    if word2vec_format.recognise(head):
        return "word2vec"
    return "binary" if b"\x00" in head else "text"
