"""A tokenizer in a file of its own: a WordPiece vocabulary (vocab.txt), or tokenizer.json with its settings beside."""

from __future__ import annotations

from pathlib import Path

from polyseme.contexts.transformer.files.huggingface import read_tokenizer
from polyseme.contexts.transformer.files.tensorflow import read_wordpiece
from polyseme.contexts.transformer.tokenizer import Pieces
from polyseme.errors import FormatError


def read_vocabulary(path: str | Path) -> Pieces:
    """The tokenizer in this file."""
    file = Path(path)
    if file.name == "tokenizer.json":
        return read_tokenizer(file.parent)
    if file.suffix == ".txt":
        return read_wordpiece(file, 0)
    raise FormatError(f"{file} is neither a vocabulary (vocab.txt) nor tokenizer.json: give one, or a model's folder")
