"""The files that the campaign of hostile files alters, and how they are used afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polyseme
from polyseme.interfaces import ContextEncoder, SentenceEncoder


@dataclass(frozen=True)
class Subject:
    """A file or folder to alter, and how to use it afterwards."""

    name: str
    path: Path
    use: Callable[[Path], None]
    files: tuple[str, ...] = field(default=())  # the ones to alter; all if empty


def use_model(path: Path) -> None:
    """Load a model and query it."""
    model: Any = polyseme.load(path)
    if isinstance(model, ContextEncoder):
        list(model.encode_tokens([["词1", "dog"], []]))
    elif isinstance(model, SentenceEncoder):
        model.encode(["词1 dog"])
    else:
        word = model.index_to_key[0]
        model.most_similar(word, topn=3)
        _ = model[word]


def use_task(path: Path) -> None:
    """Load a task and apply it to texts."""
    task = polyseme.api.load_task(path)
    list(task.records(["他打了个电话。", ""]))
