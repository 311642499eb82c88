"""``polyseme.load``: a model from a folder of ours or from a published file, told apart by content."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from polyseme.errors import FormatError
from polyseme.store.recognise import recognise

# format → the function that opens it. Strings, since the rooms of methods stand above this one.
OPENERS = {
    "polyseme": "polyseme.store.model:open_folder",
}


def load(path: str | Path) -> Any:
    """The model at ``path``, whatever its format."""
    name = recognise(path)
    if name not in OPENERS:
        hint = {"corpus": "it is a corpus: Corpus.open reads it", "text": "it looks like plain text"}
        raise FormatError(f"{path} is not a model that polyseme reads: {hint.get(name, 'it is ' + name)}")
    module, function = OPENERS[name].split(":")
    return getattr(import_module(module), function)(path)
