"""One block of text to words: the work that is done in parallel.

A block is some lines of one source. The result holds the numbers a ``Counter`` gives to words as it meets them; the
builder, which sees the blocks in order, maps them to the ids of the corpus.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, islice, pairwise
from itertools import count as count_up

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import TextError
from polyseme.text.numbers import WordNumbers
from polyseme.text.segment import FUNCTION, Segmentation
from polyseme.text.sentences import Places, sentence_spans
from polyseme.text.tagged import Pairs, read_tagged, tagged_sentences

IntArray = NDArray[np.int32]
END = b"\n"
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


def _no_numbers() -> IntArray:
    return np.zeros(0, dtype=np.int32)


@dataclass
class Counted:
    """What a block became. Starts are places of sentences, counted in the block."""

    counter: int = 0  # who counted it
    words: list[str] = field(default_factory=list)  # that this counter had not met before, in order
    ids: IntArray = field(default_factory=_no_numbers)  # the words, by the counter's numbers
    ends: IntArray = field(default_factory=_no_numbers)  # of each sentence, in ids
    text: bytes | None = None  # None: that of the block, which its sender still has
    spans: IntArray = field(default_factory=_no_numbers)  # start and end of each sentence in the text, in bytes
    paragraphs: IntArray = field(default_factory=_no_numbers)  # starts
    documents: IntArray = field(default_factory=_no_numbers)  # starts
    breaks_after: bool = False  # a document ended after the last sentence
    tag_names: list[str] = field(default_factory=list)
    tags: IntArray = field(default_factory=_no_numbers)

    def first_sentences(self, number: int) -> list[list[str]]:
        """The words of the first sentences of a counter's first block, as a sample."""
        starts = [0, *self.ends[:number].tolist()]
        return [[self.words[i] for i in self.ids[a:b]] for a, b in pairwise(starts)]


class Structure:
    """The sentences of a block, the lines they are in, and the documents."""

    def __init__(self, sentences: list[str], spans: Places, lines: Places, documents: Places) -> None:
        self.sentences = sentences
        self.spans = spans  # start and end of each in the text, in bytes
        self.lines = lines
        self.documents = documents  # a number for each sentence, which changes where a document begins

    def keep_only(self, kept: list[int]) -> None:
        """Leave out the other sentences; paragraphs and documents that have none left vanish."""
        self.sentences = [self.sentences[place] for place in kept]
        self.spans, self.lines, self.documents = self.spans[kept], self.lines[kept], self.documents[kept]

    def write_to(self, counted: Counted) -> None:
        """All but the words."""
        counted.spans = self.spans.astype(np.int32).ravel()
        counted.paragraphs = _changes(self.lines)
        counted.documents = _changes(self.documents)


def _changes(values: Places) -> IntArray:
    """The places where a value differs from the one before; the first counts, unless it is 0."""
    return np.flatnonzero(np.diff(values, prepend=0)).astype(np.int32)


def _places_in_bytes(text: str, places: Places) -> Places:
    """Places in a text as places in its UTF-8."""
    if text.isascii():
        return places
    codes = np.frombuffer(text.encode("utf-32-le", "replace"), dtype=np.uint32)
    more_than_one = (codes > 0x7F).astype(np.int32) + (codes > 0x7FF) + (codes > 0xFFFF)
    more: NDArray[np.int32] = np.append(np.int32(0), np.cumsum(more_than_one, dtype=np.int32))[places]
    return places + more


def _listed(texts: list[str], lines: Places, documents: Places) -> tuple[Structure, bytes]:
    """The structure of sentences that are no running text, and the text they make one after the other."""
    pieces = [text.encode("utf-8", "replace") for text in texts]
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    starts = np.append(0, ends[:-1])[: len(ends)]
    return Structure(texts, np.stack([starts, ends], axis=1), lines, documents), b"".join(pieces)


def _structure(block: Block, text: str, records: list[int] | None, settings: Settings) -> tuple[Structure, bool]:
    """The sentences of text in lines; and whether a document ends after them.

    Lines and documents are numbered from 1, or from 0 where the block goes on with those of the block before.
    """
    starts, ends, lines, n_lines = sentence_spans(text)
    sentences = [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    mode = settings.documents_of(block.format)
    before = 0 if block.continues else -1  # the last line that is not this block's
    ends_after = False
    if records is not None and mode != "file":
        documents = np.searchsorted(records, lines, side="right")
    elif mode == "line" or (mode == "blank-line" and block.format == "wrapped"):
        documents = lines - before
    elif mode == "blank-line":
        documents = np.cumsum(np.diff(lines, prepend=before) > 1)
        ends_after = n_lines - (int(lines[-1]) if len(lines) else before) > 1
    else:
        documents = np.zeros(len(lines), dtype=np.int64)
    spans = _places_in_bytes(text, np.stack([starts, ends], axis=1))
    return Structure(sentences, spans, lines - before, documents + block.new_source), ends_after


class Counter:
    """Works on blocks, one after the other, and remembers the words it has met."""

    def __init__(self, settings: Settings, name: int = 0) -> None:
        self.settings = settings
        self.name = name
        self.numbers = WordNumbers()
        self.numbers.number(END)  # number 0 ends a sentence
        self.lists: defaultdict[str, int] = defaultdict(count_up().__next__)

    def count(self, block: Block) -> Counted:
        """Split, normalise, cut and number a block of text."""
        counted = Counted(self.name)
        if block.format == "tagged":
            self._count_tagged(block, counted)
            return counted
        text, records = _lines_of(block, self.settings)
        if text is not block.text:
            counted.text = text.encode("utf-8", "replace")
        structure, counted.breaks_after = _structure(block, text, records, self.settings)
        segmentation = self.settings.segmentation
        if block.format == "segmented":
            segmentation = replace(segmentation, method="space", words=())
        normalised = _without_blanks(structure, segmentation)
        if segmentation.method == FUNCTION:
            self._number_lists(counted, map(segmentation.call, normalised))
        elif normalised:
            self._number(counted, " ".join(segmentation.pages(normalised)))
        structure.write_to(counted)
        return counted

    def count_sentences(self, sentences: Iterable[str | Sequence[str]], *, each_a_document: bool) -> Counted:
        """Sentences at hand, as a block: each is kept as it is, even when it is empty."""
        counted = Counted(self.name)
        rows, texts = [], []
        for sentence in sentences:
            raw = isinstance(sentence, str)
            rows.append(self.settings.segmentation.tokens(sentence) if raw else list(sentence))  # type: ignore[arg-type]
            texts.append(sentence if isinstance(sentence, str) else joined(sentence))
        self._number_lists(counted, rows)
        numbers = np.arange(1, len(rows) + 1)
        structure, counted.text = _listed(texts, numbers, numbers if each_a_document else np.ones_like(numbers))
        structure.write_to(counted)
        return counted

    def _number(self, counted: Counted, page: str) -> None:
        numbers, counted.words = self.numbers.number(page.encode("utf-8", "replace"))
        is_end = numbers == 0
        places = np.flatnonzero(is_end)
        counted.ends = (places - np.arange(len(places))).astype(np.int32)
        counted.ids = numbers[~is_end] - 1

    def _number_lists(self, counted: Counted, rows: Iterable[Sequence[str]]) -> None:
        """Words that may hold spaces or be empty: those of the caller's lists and functions."""
        counted.counter = -1 - self.name  # these numbers are a series of their own
        known = len(self.lists)
        numbered = [[self.lists[token] for token in row] for row in rows]
        counted.words = list(islice(self.lists, known, None))
        counted.ends = np.cumsum([len(row) for row in numbered], dtype=np.int64).astype(np.int32)
        counted.ids = np.fromiter(chain.from_iterable(numbered), dtype=np.int32)

    def _count_tagged(self, block: Block, counted: Counted) -> None:
        """Words and tags as the text gives them; articles are told apart by their numbers."""
        rows: list[Pairs] = []
        lines, documents = [], []
        article, document, mode = block.article, int(block.new_source), self.settings.documents_of(block.format)
        for line, written in enumerate(block.text.splitlines(), 1):
            number, pairs = read_tagged(written)
            if mode == "line" or (mode == "blank-line" and (not pairs or number != article)):
                document += 1
            article = number if pairs else article
            found = tagged_sentences(pairs)
            rows += found
            lines += [line] * len(found)
            documents += [document] * len(found)
        counted.breaks_after = document != (documents[-1] if documents else 0)
        texts = [joined([word for word, _ in row]) for row in rows]
        structure, counted.text = _listed(texts, np.array(lines, dtype=np.int64), np.array(documents, dtype=np.int64))
        structure.write_to(counted)
        flat = "\n".join(word for row in rows for word, _ in row)
        words = iter(self.settings.segmentation.normalised(flat).split("\n"))
        self._number_lists(counted, [["".join(word.split()) for word in islice(words, len(row))] for row in rows])
        names: defaultdict[str, int] = defaultdict(count_up().__next__)
        counted.tags = np.array([names[tag] for row in rows for _, tag in row], dtype=np.int32)
        counted.tag_names = list(names)


def _lines_of(block: Block, settings: Settings) -> tuple[str, list[int] | None]:
    """The block as lines that are paragraphs each; of JSON also the numbers of the lines that begin a record."""
    if block.format == "jsonl":
        return _records(block, settings)
    if block.format == "wrapped":
        groups = groupby(block.text.splitlines(), key=lambda line: bool(line.strip()))
        return "\n".join(unwrapped(group) for full, group in groups if full), None
    return block.text.replace("\r\n", "\n") if "\r" in block.text else block.text, None


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


def _records(block: Block, settings: Settings) -> tuple[str, list[int]]:
    texts: list[str] = []
    starts = []
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
        starts.append(len(texts))
        texts += text.replace("\0", "\ufffd").encode("utf-8", "replace").decode().splitlines() or [""]
    return "\n".join(texts), starts


def _without_blanks(structure: Structure, segmentation: Segmentation) -> list[str]:
    """The normalised sentences; one of which normalisation left nothing is taken out of the structure."""
    normalised = segmentation.lines(structure.sentences)
    if not all(map(str.strip, normalised)):
        structure.keep_only([place for place, sentence in enumerate(normalised) if sentence.strip()])
        normalised = [sentence for sentence in normalised if sentence.strip()]
    return normalised


def joined(tokens: Iterable[str]) -> str:
    """Words as running text: a space between two of them unless one side is Chinese."""
    text = ""
    for token in tokens:
        space = text and token and text[-1] < "\u2e80" and token[0] < "\u2e80"
        text += f" {token}" if space else token
    return text
