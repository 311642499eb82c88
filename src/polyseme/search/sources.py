"""The model and the corpus that an index was made of: where they lie, and whether they are still the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from polyseme.api import load
from polyseme.errors import FormatError
from polyseme.nouns import ContextEncoder
from polyseme.store.fingerprint import model_fingerprint
from polyseme.text.corpus import Corpus


def place(path: str | Path, index: str | Path) -> dict[str, str]:
    """Both ways to a source: from the root, and from the index, which holds when both are moved together."""
    absolute = os.path.abspath(path)
    return {"path": absolute, "relative": os.path.relpath(absolute, os.path.abspath(index))}


def find(record: dict[str, Any], index: Path, what: str) -> Path:
    """Where a source lies now; a FormatError with the option that mends it where it is not found."""
    relative, absolute = record.get("relative"), record.get("path")
    if not isinstance(relative, str) or not isinstance(absolute, str):
        raise FormatError(f"{index} does not know where its {what} is: name it with --{what}")
    for path in (index / relative, Path(absolute)):
        if path.exists():
            return path.resolve()  # of a link to an index, .. is beside where the link leads
    raise FormatError(f"the {what} of {index} is not at {absolute} any more: name it with --{what}")


def open_corpus(record: dict[str, Any], index: Path, given: Corpus | str | Path | None) -> Corpus:
    """The index's corpus, the same as when it was indexed."""
    corpus = given if isinstance(given, Corpus) else Corpus.open(given or find(record, index, "corpus"))
    if corpus.fingerprint != record.get("fingerprint"):
        raise FormatError(
            f"{corpus.path} is not the corpus that {index} was made of, or was built again: index it anew"
        )
    return corpus


def encoder_path(record: dict[str, Any], index: Path, given: str | Path | None) -> Path:
    """Where the index's model lies, the same as when it encoded the corpus."""
    path = Path(given) if given else find(record, index, "model")
    if not path.exists():
        raise FormatError(f"{path} does not exist")
    if model_fingerprint(path) != record.get("fingerprint"):
        raise FormatError(f"{path} is not the model that {index} was made with, or was trained again: index anew")
    return path


def load_encoder(path: str | Path) -> ContextEncoder:
    """A model that gives a vector to every occurrence."""
    model = load(path)
    if not isinstance(model, ContextEncoder):
        raise FormatError(
            f"{path} gives a word the same vector everywhere: an index needs a contextual model such as elmo"
        )
    return model
