"""Read JSON files of settings, checking that they are JSON objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polyseme.disk.files import parse_json, read_small
from polyseme.errors import FormatError

LONGEST_SETTINGS = 8 << 20  # Gemma lists its 6,000 added tokens in tokenizer_config.json


def parsed_settings(content: bytes, *, where: object) -> dict[str, Any]:
    """Parse the JSON object in these bytes; ``where`` names the file in error messages."""
    try:
        record = parse_json(content)
    except ValueError:
        raise FormatError(f"{where} is not JSON") from None
    if not isinstance(record, dict):
        raise FormatError(f"{where} is not a table of settings")
    return record


def read_settings(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file."""
    try:
        return parsed_settings(read_small(path, LONGEST_SETTINGS), where=path)
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror}") from None
