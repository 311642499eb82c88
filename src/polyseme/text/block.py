"""A block of text, and what it becomes on its way into a corpus."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from polyseme.text.segment import Segmentation
from polyseme.text.vocabulary import words_from_bytes

IntArray = NDArray[np.int32]
DOCUMENTS = ("auto", "file", "blank-line", "line")


@dataclass
class Block:
    """Lines of one source."""

    source: str
    text: str
    format: str
    new_source: bool  # the first block of a file
    continues: bool  # begins within a line that was too long for one block
    line: int  # number of its first line
    encoding: str = "utf-8"
    article: str = ""  # of tagged text: the number of the article the block before it ended with


@dataclass(frozen=True)
class BlockSettings:
    """How blocks are worked on."""

    segmentation: Segmentation
    documents: str = "auto"  # auto | file | blank-line | line
    field: str = "text"  # of a JSON record
    single: bool = True  # there is one source only

    def documents_of(self, format: str) -> str:
        """What ends a document: in one plain file a blank line, among several files the end of the file."""
        if self.documents != "auto":
            return self.documents
        if format in ("jsonl", "tagged"):
            return {"jsonl": "line", "tagged": "blank-line"}[format]
        return "blank-line" if self.single and format != "wrapped" else "file"


def _no_numbers() -> IntArray:
    return np.zeros(0, dtype=np.int32)


@dataclass
class Counted:
    """What a block became. Starts are places of sentences, counted in the block."""

    text: bytes = b""
    words: bytes = b""  # that were not met before, in order, as lines of words.txt
    ids: IntArray = field(default_factory=_no_numbers)  # the words, numbered by first appearance in the whole text
    ends: IntArray = field(default_factory=_no_numbers)  # of each sentence, in ids
    spans: IntArray = field(default_factory=_no_numbers)  # start and end of each sentence in the text, in bytes
    paragraphs: IntArray = field(default_factory=_no_numbers)  # starts
    documents: IntArray = field(default_factory=_no_numbers)  # starts
    breaks_after: bool = False  # a document ended after the last sentence
    tag_names: list[str] = field(default_factory=list)
    tags: IntArray = field(default_factory=_no_numbers)

    def first_sentences(self, number: int) -> list[list[str]]:
        """The words of the first sentences, of a block that met all its words first."""
        words = words_from_bytes(self.words, where="the text")
        starts = [0, *self.ends[:number].tolist()]
        return [[words[i] for i in self.ids[a:b]] for a, b in pairwise(starts)]
