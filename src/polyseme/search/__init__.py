"""Occurrences and senses, and a concordance by plain words. 按词义检索，语料检索"""

from polyseme.search.build import IndexOptions, build_index
from polyseme.search.concordances import Concordance, concordance
from polyseme.search.hits import Hit, Sense, WordSenses
from polyseme.search.index import Index

__all__ = ["Concordance", "Hit", "Index", "IndexOptions", "Sense", "WordSenses", "build_index", "concordance"]
