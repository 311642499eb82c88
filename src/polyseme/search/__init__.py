"""Occurrences and senses, a concordance by plain words, and texts by meaning. 按词义检索，语料检索，语义检索"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyseme.search.kwic.concordance import Concordance, concordance
    from polyseme.search.occurrences.build import IndexOptions, build_index
    from polyseme.search.occurrences.hits import Hit, Sense, WordSenses
    from polyseme.search.occurrences.index import Index
    from polyseme.search.texts.text_index import TextHit, TextIndex

# Imported at first use: a question does not wait for what makes an index.
_LAZY = {
    "Concordance": "kwic.concordance",
    "Hit": "occurrences.hits",
    "Index": "occurrences.index",
    "IndexOptions": "occurrences.build",
    "Sense": "occurrences.hits",
    "TextHit": "texts.text_index",
    "TextIndex": "texts.text_index",
    "WordSenses": "occurrences.hits",
    "build_index": "occurrences.build",
    "concordance": "kwic.concordance",
}

__all__ = [
    "Concordance", "Hit", "Index", "IndexOptions", "Sense", "TextHit", "TextIndex", "WordSenses", "build_index",
    "concordance",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"polyseme.search.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'polyseme.search' has no attribute {name!r}")
