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
    """Some lines of one source."""

    source: str
    text: str
    format: str
    new_source: bool  # the first block of a file
    continues: bool  # it begins in the middle of a line that was too long for one block
    line: int  # number of its first line
    encoding: str = "utf-8"
    article: str = ""  # for tagged text: the number of the last article in the previous block


@dataclass(frozen=True)
class BlockSettings:
    """How blocks are processed."""

    segmentation: Segmentation
    documents: str = "auto"  # auto | file | blank-line | line
    field: str = "text"  # of a JSON record
    single: bool = True  # there is only one source

    def documents_of(self, format: str) -> str:
        """What separates documents; under ``auto`` blank lines in a single plain file, file ends in several files."""
        if self.documents != "auto":
            return self.documents
        if format in ("jsonl", "tagged"):
            return {"jsonl": "line", "tagged": "blank-line"}[format]
        return "blank-line" if self.single and format != "wrapped" else "file"


def _no_numbers() -> IntArray:
    return np.zeros(0, dtype=np.int32)


@dataclass
class Counted:
    """A processed block: its text, words and structure. Starts are sentence numbers within the block."""

    text: bytes = b""
    words: bytes = b""  # new words, in order of appearance, as lines of words.txt
    ids: IntArray = field(default_factory=_no_numbers)  # the tokens, numbered by first appearance in the whole text
    ends: IntArray = field(default_factory=_no_numbers)  # end of each sentence in ids
    spans: IntArray = field(default_factory=_no_numbers)  # start and end of each sentence in the text, in bytes
    paragraphs: IntArray = field(default_factory=_no_numbers)  # starts
    documents: IntArray = field(default_factory=_no_numbers)  # starts
    breaks_after: bool = False  # a document ended after the last sentence
    tag_names: list[str] = field(default_factory=list)
    tags: IntArray = field(default_factory=_no_numbers)

    def first_sentences(self, number: int) -> list[list[str]]:
        """The words of the first sentences; only for the first block of a text, in which all words are new."""
        words = words_from_bytes(self.words, where="the text")
        starts = [0, *self.ends[:number].tolist()]
        return [[words[i] for i in self.ids[a:b]] for a, b in pairwise(starts)]
