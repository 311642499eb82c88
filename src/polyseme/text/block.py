"""One block of text to words: the work that is done in parallel, without numpy, so that a helper process starts fast.

A block is some lines of one source. The result holds ids that count from 0 in the block, in order of first appearance;
the builder, which sees the blocks in order, maps them to the ids of the corpus.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, groupby, islice

from polyseme.errors import TextError
from polyseme.text import cut
from polyseme.text.segment import Segmentation
from polyseme.text.sentences import split_sentences
from polyseme.text.tagged import Pairs, read_tagged, tagged_sentences

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
class Settings:
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


def _numbers() -> array[int]:
    return array("i")


@dataclass
class Counted:
    """What a block became. Starts are places of sentences, counted in the block."""

    words: list[str] = field(default_factory=list)  # by block id
    ids: array[int] = field(default_factory=_numbers)  # cut.END after each sentence, words from cut.FIRST on
    text: bytes = b""
    sizes: array[int] = field(default_factory=_numbers)  # bytes of each sentence's text
    paragraphs: array[int] = field(default_factory=_numbers)  # starts
    documents: array[int] = field(default_factory=_numbers)  # starts
    breaks_after: bool = False  # a document ended after the last sentence
    tag_names: list[str] = field(default_factory=list)
    tags: array[int] = field(default_factory=_numbers)

    def first_sentences(self, number: int) -> list[list[str]]:
        """The words of the first sentences, as a sample."""
        found: list[list[str]] = [[]]
        for word in self.ids:
            if word == cut.END and len(found) == number:
                break
            if word == cut.END:
                found.append([])
            elif word >= cut.FIRST:
                found[-1].append(self.words[word - cut.FIRST])
        return [words for words in found if words]


class Structure:
    """Sentences as they come, and where paragraphs and documents begin among them."""

    def __init__(self, counted: Counted, *, breaks: bool) -> None:
        self.counted = counted
        self.sentences: list[str] = []
        self.breaks = breaks

    def add(self, sentences: list[str], *, begins: bool = True) -> None:
        """A paragraph, or with ``begins`` False the rest of one."""
        if not sentences:
            return
        if self.breaks:
            self.counted.documents.append(len(self.sentences))
            self.breaks = False
        if begins:
            self.counted.paragraphs.append(len(self.sentences))
        self.sentences += sentences


def count_block(block: Block, settings: Settings) -> Counted:
    """Split, normalise, cut and number a block of text."""
    counted = Counted()
    if block.format == "tagged":
        _count_tagged(block, settings, counted)
        return counted
    structure = Structure(counted, breaks=block.new_source)
    for paragraph, begins, breaks in _paragraphs(block, settings):
        structure.breaks = structure.breaks or breaks
        structure.add(split_sentences(paragraph), begins=begins)
    counted.breaks_after = structure.breaks
    segmentation = settings.segmentation
    if block.format == "segmented":
        segmentation = replace(segmentation, method="space", words=())
    normalised = _without_blanks(structure, segmentation)
    _number(counted, segmentation.pages(normalised))
    _keep_text(counted, structure.sentences)
    return counted


def _paragraphs(block: Block, settings: Settings) -> Iterator[tuple[str, bool, bool]]:
    """Each paragraph (perhaps empty); whether it begins in this block; whether it begins a document."""
    if block.format == "jsonl":
        yield from _records(block, settings)
        return
    lines = block.text.splitlines()
    documents = settings.documents_of(block.format)
    if block.format == "wrapped":
        lines = [unwrapped(group) for full, group in groupby(lines, key=lambda line: bool(line.strip())) if full]
        yield from ((line, True, documents != "file") for line in lines)
        return
    for number, line in enumerate(lines):
        breaks = documents == "line" or (documents == "blank-line" and not line.strip())
        yield line, bool(number) or not block.continues, breaks


def unwrapped(lines: Iterable[str]) -> str:
    """A paragraph whose lines were broken at some width, in one line."""
    text = ""
    for line in lines:
        line = line.strip()
        if text.endswith("-") and text[-2:-1].isalpha() and line[:1].islower():
            text += line  # self-/made
        else:
            text += f" {line}" if text and (text[-1] < "\u2e80" or line[0] < "\u2e80") else line
    return text


def _records(block: Block, settings: Settings) -> Iterator[tuple[str, bool, bool]]:
    for number, line in enumerate(block.text.split("\n"), block.line):
        if not line.strip():
            continue
        where = f"{block.source}, line {number:,}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise TextError(f"{where} is not JSON: {error}") from None
        text = record.get(settings.field) if isinstance(record, dict) else record
        if not isinstance(text, str):
            names = ", ".join(map(repr, list(record)[:8])) if isinstance(record, dict) else type(record).__name__
            raise TextError(f"{where} has no text in the field {settings.field!r}: it has {names or 'nothing'}")
        new = settings.documents_of(block.format) != "file"
        for paragraph in text.replace("\0", "\ufffd").encode("utf-8", "replace").decode().splitlines():
            yield paragraph, True, new
            new = new and not paragraph.strip()


def _without_blanks(structure: Structure, segmentation: Segmentation) -> list[str]:
    """The normalised sentences; a sentence of which normalisation left nothing is taken out of the structure."""
    normalised = segmentation.normalised("\n".join(structure.sentences)).split("\n") if structure.sentences else []
    if all(map(str.strip, normalised)):
        return normalised
    kept = [place for place, sentence in enumerate(normalised) if sentence.strip()]
    moved = {}
    for starts in (structure.counted.paragraphs, structure.counted.documents):
        moved = dict.fromkeys(bisect_left(kept, start) for start in starts)
        starts[:] = array("i", [start for start in moved if start < len(kept)])
    structure.sentences = [structure.sentences[place] for place in kept]
    return [normalised[place] for place in kept]


def _number(counted: Counted, pages: Iterator[list[str]]) -> None:
    numbers: defaultdict[str, int] = defaultdict(count(cut.FIRST).__next__, cut.MARKS)
    for page in pages:
        counted.ids.extend(map(numbers.__getitem__, page))
    counted.words = list(numbers)[len(cut.MARKS) :]


def _keep_text(counted: Counted, sentences: list[str]) -> None:
    pieces = [sentence.encode("utf-8", "replace") for sentence in sentences]
    counted.sizes.extend(map(len, pieces))
    counted.text = b"".join(pieces)


def _count_tagged(block: Block, settings: Settings, counted: Counted) -> None:
    """Words and tags as the text gives them; articles are told apart by their numbers."""
    structure = Structure(counted, breaks=block.new_source)
    rows: list[Pairs] = []
    article = block.article
    documents = settings.documents_of(block.format)
    for line in block.text.splitlines():
        number, pairs = read_tagged(line)
        if documents == "line" or (documents == "blank-line" and (not pairs or number != article)):
            structure.breaks = True
        article = number if pairs else article
        found = tagged_sentences(pairs)
        structure.add([joined([word for word, _ in sentence]) for sentence in found])
        rows += found
    counted.breaks_after = structure.breaks
    flat = [word for row in rows for word, _ in row]
    normalised = iter(settings.segmentation.normalised("\n".join(flat)).split("\n"))
    pages = [[*("".join(word.split()) or "\ufffd" for word in islice(normalised, len(row))), "\n"] for row in rows]
    _number(counted, iter(pages))
    names: defaultdict[str, int] = defaultdict(count().__next__)
    counted.tags.extend(names[tag] for row in rows for _, tag in row)
    counted.tag_names = list(names)
    _keep_text(counted, structure.sentences)


def count_sentences(
    sentences: Iterable[str | Sequence[str]], segmentation: Segmentation, *, each_a_document: bool
) -> Counted:
    """Sentences at hand, as a block: each is kept as it is, even when it is empty."""
    counted = Counted()
    numbers: defaultdict[str, int] = defaultdict(count(cut.FIRST).__next__)
    texts = []
    for place, sentence in enumerate(sentences):
        tokens = segmentation.tokens(sentence) if isinstance(sentence, str) else list(sentence)
        texts.append(sentence if isinstance(sentence, str) else joined(tokens))
        counted.ids.extend(map(numbers.__getitem__, tokens))
        counted.ids.append(cut.END)
        counted.paragraphs.append(place)
        if each_a_document or not place:
            counted.documents.append(place)
    counted.words = list(numbers)
    _keep_text(counted, texts)
    return counted


def joined(tokens: Iterable[str]) -> str:
    """Words as running text: a space between two of them unless one side is Chinese."""
    text = ""
    for token in tokens:
        space = text and token and text[-1] < "\u2e80" and token[0] < "\u2e80"
        text += f" {token}" if space else token
    return text
