"""Looking into text: how words are used, where something stands, texts by meaning. 按词义检索，语料检索，语义检索

| room | in | out |
|---|---|---|
| occurrences | a corpus and a context encoder | an ``Index`` on disk: uses of a word, occurrences used the same way |
| kwic | a corpus and a string, a pattern or words | a ``Concordance``: every match in context, frequency, collocates |
| texts | lines or documents and a sentence encoder | a ``TextIndex`` on disk: texts by meaning, by words, or by both |

Each result has ``to_json()``, which the command line and the server print. The rooms know little of each other:
``occurrences`` lists the occurrences of a use as lines of a concordance, the cells of a large text index are those of
``occurrences/cells``, and ``word_selection`` says which words are worth a look. Corpora and folders come from ``text``
and ``disk``, encoders from whoever opens a model: nothing here imports torch or knows a method.

Read ``kwic/concordance.py`` first, then ``occurrences/index.py``. The names below are imported at first use: a question
does not wait for what makes an index.
"""

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
