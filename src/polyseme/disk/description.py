"""Read and check the description of one of our folders: corpus.json, model.json, index.json."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polyseme.disk.files import PlainFile, parse_json
from polyseme.errors import FormatError

MARKERS = {
    "corpus.json": "corpus",
    "model.json": "model",
    "index.json": "index",
    "texts.json": "text index",
    "polyseme.json": "export",
}
ENDS = 1 << 20
LONGEST_NAME = 255  # bytes, the limit of common file systems


def parse(data: bytes, file: Path) -> dict[str, Any]:
    """Parse a description; ``check_seal`` then checks its checksum and file names."""
    try:
        description = parse_json(data)
    except ValueError as error:
        raise FormatError(f"{file} cannot be read: {error}") from None
    if not isinstance(description, dict) or not isinstance(description.get("format"), int):
        raise FormatError(f"{file} is not the manifest of a polyseme folder")
    return description


def check_seal(found: dict[str, Any], file: Path) -> None:
    """Check a description against its own checksum, and the names and sizes of the files that it lists."""
    files = found.get("files")
    if not isinstance(files, dict):
        raise FormatError(f"{file} was altered: its 'files' is missing or of the wrong kind")
    # Descriptions written before they had a checksum end with "files".
    if list(found)[-1] != "files" and found.get("checksum") != checksum(found):
        raise FormatError(f"{file} was altered: it does not match its own checksum")
    for name, seal in files.items():
        if not is_plain_name(name):
            raise FormatError(f"{file} was altered: {name[:40]!r} is not the name of a file in it")
        if not isinstance(seal, dict) or not isinstance(seal.get("size"), int):
            raise FormatError(f"{file} was altered: there is no size for {name}")


def is_plain_name(name: Any) -> bool:
    """Whether this is a plain file name that cannot lead outside its folder."""
    if not isinstance(name, str) or name in ("", ".", "..") or name != Path(name).name or "\0" in name:
        return False
    try:
        return len(os.fsencode(name)) <= LONGEST_NAME and "\\" not in name
    except ValueError:  # a lone surrogate
        return False


def inner_models(found: dict[str, Any], file: Path) -> dict[str, str]:
    """The subfolders that contain models, and the checksum of the description of each ("" if none was stored)."""
    models = found.get("models", {})
    if isinstance(models, list):  # written before their checksums were stored
        models = dict.fromkeys(map(str, models), "")
    if not isinstance(models, dict) or not all(is_plain_name(n) and isinstance(s, str) for n, s in models.items()):
        raise FormatError(f"{file} was altered: its 'models' are not plain names")
    return models


def checksum(description: Mapping[str, Any]) -> str:
    """The SHA-256 of a description without its ``checksum`` entry; order and white space do not matter."""
    content = json.loads(json.dumps({key: value for key, value in description.items() if key != "checksum"}))
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def sha256(file: PlainFile) -> str:
    """The SHA-256 of every byte of a file."""
    digest = hashlib.sha256()
    for block in file.chunks():
        digest.update(block)
    return digest.hexdigest()


def sha256_of_ends(file: PlainFile) -> str:
    """The SHA-256 of the first and last megabyte of a large file."""
    digest = hashlib.sha256(file.piece(0, ENDS))
    digest.update(file.piece(max(ENDS, file.size - ENDS), ENDS))
    return digest.hexdigest()
