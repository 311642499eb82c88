"""polyseme: vectors of words, of words in context and of sentences, from your own text.

>>> corpus = polyseme.Corpus.build("红楼梦.txt")
>>> wv = polyseme.train("word2vec", corpus, dim=100)
>>> wv.most_similar("宝玉", topn=5)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from polyseme import (
    extras,
    machine,  # noqa: F401 - registers what a forked process needs
    old_names,
)
from polyseme.errors import PolysemeError
from polyseme.version import VERSION as __version__

if TYPE_CHECKING:
    from polyseme.api import distil, fit, load, train
    from polyseme.data.examples import Examples
    from polyseme.data.parallel import Parallel
    from polyseme.facts import describe
    from polyseme.sentences.lift import lift
    from polyseme.text.corpus import Corpus

# Imported at first use, so that `import polyseme` costs nothing.
_LAZY = {
    "Corpus": "polyseme.text.corpus",
    "Examples": "polyseme.data.examples",
    "Parallel": "polyseme.data.parallel",
    "describe": "polyseme.facts",
    "distil": "polyseme.api",
    "fit": "polyseme.api",
    "lift": "polyseme.sentences.lift",
    "load": "polyseme.api",
    "train": "polyseme.api",
}

old_names.install()
extras.install()

__all__ = [
    "Corpus", "Examples", "Parallel", "PolysemeError", "__version__", "describe", "distil", "fit", "lift", "load",
    "train",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'polyseme' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
