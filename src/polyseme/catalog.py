"""The table of methods: one row each, strings only. Everything that lists or finds a method reads it here."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from polyseme.errors import OptionError, close_matches


class Row(NamedTuple):
    """One method."""

    name: str
    chinese: str
    kind: str  # words | contexts | sentences
    where: str  # "module:Class"
    year: int
    paper: str

    def load_class(self) -> Any:
        """The method's class, imported now."""
        module, name = self.where.split(":")
        return getattr(import_module(module), name)


METHODS: tuple[Row, ...] = (
    Row(
        "word2vec",
        "词向量",
        "words",
        "polyseme.words.word2vec:Word2Vec",
        2013,
        "Mikolov et al., Distributed Representations of Words and Phrases and their Compositionality",
    ),
    Row(
        "fasttext",
        "子词向量",
        "words",
        "polyseme.words.fasttext:FastText",
        2017,
        "Bojanowski et al., Enriching Word Vectors with Subword Information",
    ),
    Row(
        "glove",
        "全局词向量",
        "words",
        "polyseme.words.glove:Glove",
        2014,
        "Pennington et al., GloVe: Global Vectors for Word Representation",
    ),
    Row(
        "svd",
        "共现矩阵分解",
        "words",
        "polyseme.words.svd:Svd",
        2015,
        "Levy et al., Improving Distributional Similarity with Lessons Learned from Word Embeddings",
    ),
    Row(
        "elmo",
        "语境词向量",
        "contexts",
        "polyseme.contexts.elmo:Elmo",
        2018,
        "Peters et al., Deep contextualized word representations",
    ),
)

# What is read from published files and saved in model folders, but cannot be trained here.
PUBLISHED: tuple[Row, ...] = (
    Row(
        "vectors",
        "词向量文件",
        "words",
        "polyseme.words.vectors:WordVectors",
        2013,
        "word vectors read from a published file",
    ),
    Row(
        "fasttext-file",
        "fastText 文件",
        "words",
        "polyseme.words.published:PublishedFastText",
        2017,
        "Bojanowski et al., Enriching Word Vectors with Subword Information; read from a fastText file",
    ),
)


def find(name: str) -> Row:
    """The row of a method, or an error with close names."""
    for row in (*METHODS, *PUBLISHED):
        if row.name == name:
            return row
    hint = close_matches(name, [row.name for row in METHODS])
    raise OptionError(f"no method is called {name!r}{hint} (polyseme methods lists them)")
