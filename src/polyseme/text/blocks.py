"""Sentences, paragraphs and documents of a block. 段落与篇章"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import numpy as np

from polyseme.errors import TextError
from polyseme.text.block import Block, BlockSettings, Counted, IntArray
from polyseme.text.normalise import may_vanish, nfkc
from polyseme.text.numbering import gathered
from polyseme.text.sentences import Codes, Places, codes_of, sentence_spans
from polyseme.text.spacing import needs_space
from polyseme.text.strings import well_formed


class Structure:
    """The position of each sentence in a block, with its line and its document."""

    def __init__(self, spans: Places, lines: Places, documents: Places) -> None:
        self.spans = spans  # start and end of each sentence in the text, in bytes
        self.lines = lines
        self.documents = documents  # a number for each sentence, which changes where a document begins

    def write_to(self, counted: Counted) -> None:
        """Fill in everything but the words."""
        counted.spans = self.spans.astype(np.int32).ravel()
        counted.paragraphs = _changes(self.lines)
        counted.documents = _changes(self.documents)


def _changes(values: Places) -> IntArray:
    """The indices where a value differs from the one before; index 0 counts unless its value is 0."""
    return np.flatnonzero(np.diff(values, prepend=0)).astype(np.int32)


def _places_in_bytes(codes: Codes, places: Places) -> Places:
    """Convert character offsets to byte offsets in UTF-8; ``codes`` has one extra newline before the text."""
    more_than_one = (codes > 0x7F).astype(np.int32) + (codes > 0x7FF) + (codes > 0xFFFF)
    more: IntArray = np.cumsum(more_than_one, dtype=np.int32)[places]
    return places + more


def listed(texts: list[str], lines: Places, documents: Places) -> tuple[Structure, bytes]:
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


def _one_a_line(codes: Codes, starts: Places, ends: Places) -> str:
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
