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
    options: str  # the same of its options, found without importing what the method computes with
    year: int
    paper: str

    def load_class(self) -> Any:
        """The method's class, imported now."""
        return _load(self.where)

    def load_options(self) -> Any:
        """The class of its options, imported now: enough to list them."""
        return _load(self.options)


METHODS: tuple[Row, ...] = (
    Row(
        "word2vec",
        "词向量",
        "words",
        "polyseme.words.word2vec:Word2Vec",
        "polyseme.words.word2vec:Word2VecOptions",
        2013,
        "Mikolov et al., Distributed Representations of Words and Phrases and their Compositionality",
    ),
    Row(
        "fasttext",
        "子词向量",
        "words",
        "polyseme.words.fasttext:FastText",
        "polyseme.words.fasttext:FastTextOptions",
        2017,
        "Bojanowski et al., Enriching Word Vectors with Subword Information",
    ),
    Row(
        "glove",
        "全局词向量",
        "words",
        "polyseme.words.glove:Glove",
        "polyseme.words.glove:GloveOptions",
        2014,
        "Pennington et al., GloVe: Global Vectors for Word Representation",
    ),
    Row(
        "svd",
        "共现矩阵分解",
        "words",
        "polyseme.words.svd:Svd",
        "polyseme.words.svd:SvdOptions",
        2015,
        "Levy et al., Improving Distributional Similarity with Lessons Learned from Word Embeddings",
    ),
    Row(
        "elmo",
        "语境词向量",
        "contexts",
        "polyseme.contexts.elmo:Elmo",
        "polyseme.contexts.elmo_options:ElmoOptions",
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
        "polyseme.words.vectors:VectorsOptions",
        2013,
        "word vectors read from a published file",
    ),
    Row(
        "fasttext-file",
        "fastText 文件",
        "words",
        "polyseme.words.published:PublishedFastText",
        "polyseme.words.published:FastTextFileOptions",
        2017,
        "Bojanowski et al., Enriching Word Vectors with Subword Information; read from a fastText file",
    ),
)


def _load(where: str) -> Any:
    module, name = where.split(":")
    return getattr(import_module(module), name)


def find(name: str) -> Row:
    """The row of a method, or an error with close names."""
    for row in (*METHODS, *PUBLISHED):
        if row.name == name:
            return row
    hint = close_matches(name, [row.name for row in METHODS])
    raise OptionError(f"no method is called {name!r}{hint} (polyseme methods lists them)")
