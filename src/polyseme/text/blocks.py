"""Sentences, paragraphs and documents of a block. 段落与篇章

A block of text, and what it becomes on its way into a corpus.

The formats of text sources: what a line is. 文本格式

| format      | a line is |
|-------------|-----------|
| `text`      | a paragraph |
| `wrapped`   | part of a paragraph: lines are broken at some width, blank lines separate paragraphs |
| `jsonl`     | a JSON record with the text in one field |
| `segmented` | words separated by spaces |
| `tagged`    | `word/TAG` separated by spaces, as in the People's Daily corpus |

``auto`` distinguishes text, wrapped, jsonl and tagged by the file's name and its first lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Ints, gathered
from polyseme.errors import TextError
from polyseme.text.normalise import may_vanish, nfkc
from polyseme.text.segment import Segmentation
from polyseme.text.sentences import Codes, codes_of, sentence_spans
from polyseme.text.spacing import needs_space
from polyseme.text.strings import well_formed
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
class CountedBlock:
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


class Structure:
    """The position of each sentence in a block, with its line and its document."""

    def __init__(self, spans: Ints, lines: Ints, documents: Ints) -> None:
        self.spans = spans  # start and end of each sentence in the text, in bytes
        self.lines = lines
        self.documents = documents  # a number for each sentence, which changes where a document begins

    def write_to(self, counted: CountedBlock) -> None:
        """Fill in everything but the words."""
        counted.spans = self.spans.astype(np.int32).ravel()
        counted.paragraphs = _changes(self.lines)
        counted.documents = _changes(self.documents)


def _changes(values: Ints) -> IntArray:
    """The indices where a value differs from the one before; index 0 counts unless its value is 0."""
    return np.flatnonzero(np.diff(values, prepend=0)).astype(np.int32)


def _places_in_bytes(codes: Codes, places: Ints) -> Ints:
    """Convert character offsets to byte offsets in UTF-8; ``codes`` has one extra newline before the text."""
    more_than_one = (codes > 0x7F).astype(np.int32) + (codes > 0x7FF) + (codes > 0xFFFF)
    more: IntArray = np.cumsum(more_than_one, dtype=np.int32)[places]
    return places + more


def listed(texts: list[str], lines: Ints, documents: Ints) -> tuple[Structure, bytes]:
    """The structure of separate sentences, and the text that they make when concatenated."""
    pieces = [well_formed(text).encode() for text in texts]
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    starts = np.append(0, ends[:-1])[: len(ends)]
    return Structure(np.stack([starts, ends], axis=1), lines, documents), b"".join(pieces)


def structure_of(
    block: Block, text: str, records: list[int] | None, settings: BlockSettings
) -> tuple[Structure, str, bool]:
    """The structure of a text, its sentences (one per line), and whether a document ends after them.

    Lines and documents are numbered from 1, or from 0 if the block continues those of the previous block.
    """
    codes = codes_of(text)
    starts, ends, lines, n_lines = sentence_spans(text, codes)
    if settings.segmentation.normalise == "nfkc":
        doubtful = np.flatnonzero(may_vanish(codes[starts + 1])).tolist()
        if blank := [i for i in doubtful if not nfkc(text[starts[i] : ends[i]]).strip()]:
            starts, ends, lines = (np.delete(array, blank) for array in (starts, ends, lines))
    mode = settings.documents_of(block.format)
    before = 0 if block.continues else -1  # the last line that belongs to the previous block
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
    spans = _places_in_bytes(codes, np.stack([starts, ends], axis=1))
    structure = Structure(spans, lines - before, documents + block.new_source)
    return structure, _one_a_line(codes, starts + 1, ends + 1), ends_after


def _one_a_line(codes: Codes, starts: Ints, ends: Ints) -> str:
    """The sentences at these places, separated by newlines. Slicing the text would take twice as long."""
    sizes = ends - starts + 1
    lines = gathered(codes, starts, sizes)
    lines[np.cumsum(sizes) - 1] = ord("\n")
    return lines[:-1].tobytes().decode("utf-32-le")


def lines_of(block: Block, settings: BlockSettings) -> tuple[str, list[int] | None]:
    """The block's text with one paragraph per line; for JSON also the numbers of the lines that begin a record."""
    if block.format == "jsonl":
        return _records(block, settings)
    if block.format == "wrapped":
        groups = groupby(block.text.splitlines(), key=lambda line: bool(line.strip()))
        return "\n".join(unwrapped(group) for full, group in groups if full), None
    return block.text.replace("\r\n", "\n") if "\r" in block.text else block.text, None


def unwrapped(lines: Iterable[str]) -> str:
    """Join the lines of a wrapped paragraph into one line."""
    text = ""
    for line in lines:
        line = line.strip()
        if text.endswith("-") and text[-2:-1].isalpha() and line[:1].islower():
            text += line  # self-/made
        else:
            text += f" {line}" if needs_space(text, line) else line
    return text


def _records(block: Block, settings: BlockSettings) -> tuple[str, list[int]]:
    texts: list[str] = []
    starts = []
    for number, line in enumerate(block.text.split("\n"), block.line):
        if not line.strip():
            continue
        where = f"{block.source}, line {number:,}"
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise TextError(f"{where} is not JSON: {error.msg} in column {error.colno:,}") from None
        except (ValueError, RecursionError) as error:  # numbers that are too long, nesting that is too deep
            raise TextError(f"{where} is not JSON that can be read: {error}") from None
        text = record.get(settings.field) if isinstance(record, dict) else record
        if not isinstance(text, str):
            raise TextError(f"{where} has no text in the field {settings.field!r}: {_shown(record, settings.field)}")
        starts.append(len(texts))
        texts += well_formed(text.replace("\0", "\ufffd")).splitlines() or [""]
    return "\n".join(texts), starts


def _shown(record: Any, field: str) -> str:
    """Describe what a record contains instead of text."""
    if not isinstance(record, dict):
        return f"it is {json.dumps(record, ensure_ascii=False)[:40]}"
    if field in record:
        return f"there is {json.dumps(record[field], ensure_ascii=False)[:40]} in it"
    return f"it has {', '.join(map(repr, list(record)[:8])) or 'nothing'}"


FORMATS = ("auto", "text", "wrapped", "jsonl", "segmented", "tagged")
_TAGGED = re.compile(r"\S*/[A-Za-z][A-Za-z0-9_-]{0,7}\]?(?:/?[A-Za-z]{1,4})?")
_RECORD = re.compile(r'\s*\{\s*"[^"\n]*"\s*:')
PACKED_ENDING = re.compile(r"\.(gz|bz2|xz)$", re.IGNORECASE)


def sniff(name: str, head: str) -> str:
    """Detect the format of a source by its name and the beginning of its text."""
    if PACKED_ENDING.sub("", name).lower().endswith((".jsonl", ".ndjson")) or _are_records(head):
        return "jsonl"
    lines = head[: 1 << 16].splitlines()[:2000]
    words = [word for line in lines[:200] for word in line.split()]
    if len(words) >= 4 and sum(map(bool, map(_TAGGED.fullmatch, words))) >= 0.9 * len(words):
        return "tagged"
    return "wrapped" if _looks_wrapped(lines) else "text"


def _are_records(head: str) -> bool:
    """Whether all of the first lines are JSON objects; a line longer than the sample is judged by its beginning."""
    if not _RECORD.match(head):
        return False
    *lines, last = head.split("\n", 10)
    try:
        records = [json.loads(line) for line in (*lines, "" if lines else last) if line.strip()]
    except RecursionError:
        return False
    except ValueError:
        return not lines and len(head) >= 1 << 16
    return all(isinstance(record, dict) for record in records)


def _looks_wrapped(lines: list[str]) -> bool:
    """Whether the text is paragraphs whose lines are broken at some width, in the middle of sentences."""
    lines = [line.rstrip() for line in lines]
    full = [line for line in lines if line]
    if len(full) < 12 or max(map(len, full)) > 120 or len(full) == len(lines):
        return False
    if median(map(len, full)) >= 40 and sum(b.lstrip()[:1].islower() for a, b in pairwise(lines) if a) >= len(full) / 4:
        return True
    paragraphs = [list(group) for is_full, group in groupby(lines, key=bool) if is_full]
    return _fill_a_width(paragraphs, len) or _fill_a_width(paragraphs, _columns)


def _fill_a_width(paragraphs: list[list[str]], size: Callable[[str], int]) -> bool:
    """Whether lines are equally wide and end mid-sentence, except the last line of each paragraph.

    In contrast, verses and one-sentence lines end in punctuation, and the last row of a table is as wide as the others.
    """
    broken = [line for lines in paragraphs for line in lines[:-1]]
    last = [lines[-1] for lines in paragraphs if len(lines) > 1]
    if len(broken) < 8:
        return False
    width = median(map(size, broken))
    return (
        width >= 20
        and sum(abs(size(line) - width) <= 2 for line in broken) >= 0.9 * len(broken)
        and sum(not line[-1].isalnum() for line in broken) <= 0.4 * len(broken)
        and sum(size(line) < width - 2 and not line[-1].isalnum() for line in last) >= 0.6 * len(last)
    )


def _columns(line: str) -> int:
    """The display width of a line: Chinese characters, quotes and dashes take two columns."""
    return len(line) + sum(c >= "\u2e80" or c in "“”‘’—…" for c in line)
