"""Occurrences and senses, a concordance by plain words, and texts by meaning. 按词义检索，语料检索，语义检索"""

from polyseme.search.build import IndexOptions, build_index
from polyseme.search.concordances import Concordance, concordance
from polyseme.search.hits import Hit, Sense, WordSenses
from polyseme.search.index import Index
from polyseme.search.texts import TextHit, TextIndex

__all__ = [
    "Concordance", "Hit", "Index", "IndexOptions", "Sense", "TextHit", "TextIndex", "WordSenses", "build_index",
    "concordance",
]  # fmt: skip
