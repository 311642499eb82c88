"""Occurrences and senses: a concordance by meaning. 按词义检索"""

from polyseme.search.build import IndexOptions, build_index
from polyseme.search.hits import Hit, Sense, WordSenses
from polyseme.search.index import Index

__all__ = ["Hit", "Index", "IndexOptions", "Sense", "WordSenses", "build_index"]
