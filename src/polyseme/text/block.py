"""One block of text to words: the work that is done in parallel, without numpy, so that a helper process starts fast.

A block is some lines of one source. The result holds ids that count from 0 in the block, in order of first appearance;
the builder, which sees the blocks in order, maps them to the ids of the corpus.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count

from polyseme.text.segment import Segmentation
from polyseme.text.sentences import split_sentences


@dataclass
class Block:
    """Lines of one source."""

    source: str
    text: str
    new_source: bool  # the first block of a file
    continues: bool = False  # begins within a line that was too long for one block


@dataclass
class Counted:
    """What a block became. Starts are places of sentences, counted in the block."""

    words: list[str] = field(default_factory=list)  # by block id
    ids: array[int] = field(default_factory=lambda: array("i"))
    tokens: array[int] = field(default_factory=lambda: array("i"))  # of each sentence
    text: bytes = b""
    sizes: array[int] = field(default_factory=lambda: array("i"))  # bytes of each sentence
    paragraphs: array[int] = field(default_factory=lambda: array("i"))  # starts
    documents: array[int] = field(default_factory=lambda: array("i"))  # starts
    breaks_after: bool = False  # a document ended after the last sentence


def count_block(block: Block, segmentation: Segmentation, documents: str) -> Counted:
    """Split, normalise, cut and number a block of text."""
    counted = Counted()
    sentences: list[str] = []
    breaks = block.new_source
    for number, line in enumerate(block.text.splitlines()):
        pieces = split_sentences(line)
        if not pieces:
            breaks = breaks or documents == "blank-line"
            continue
        if breaks or documents == "line":
            counted.documents.append(len(sentences))
            breaks = False
        if number or not block.continues:
            counted.paragraphs.append(len(sentences))
        sentences += pieces
    counted.breaks_after = breaks
    _number(counted, sentences, segmentation)
    return counted


def _number(counted: Counted, sentences: list[str], segmentation: Segmentation) -> None:
    cut = segmentation.cut()
    normalised = segmentation.normalised("\n".join(sentences)).split("\n")
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    for sentence in normalised:
        tokens = cut(sentence)
        counted.tokens.append(len(tokens))
        counted.ids.extend(map(numbers.__getitem__, tokens))
    counted.words = list(numbers)
    pieces = [sentence.encode("utf-8", "replace") for sentence in sentences]
    counted.sizes.extend(map(len, pieces))
    counted.text = b"".join(pieces)
