"""Describe a text before a corpus is built: encoding, lines, characters, vocabulary, a sample of its words.

The whole text is read, in bounded memory, but words are counted only in its first ``COUNTED`` characters; for a longer
text, the numbers that depend on them are estimates and marked as such.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from polyseme.disk.atomic import Scratch
from polyseme.text.blocks import Block, BlockSettings, lines_of
from polyseme.text.corpus import Sources
from polyseme.text.corpus_files import CorpusBuilder
from polyseme.text.options import Reading, make_reading
from polyseme.text.source import find_sources, read_blocks
from polyseme.text.workers import counted_blocks

COUNTED = 1 << 25
SAMPLE = 3  # sentences


def survey(sources: Sources, *, min_count: int = 5, **reading: Any) -> dict[str, Any]:
    """Facts about raw text, read as ``Corpus.build`` would read it; the keys are those of ``polyseme info --json``."""
    how, segmentation = make_reading(Reading, reading)
    files = find_sources([sources] if isinstance(sources, (str, Path)) else list(sources))
    settings = BlockSettings(segmentation, how.documents, how.field, single=len(files) == 1)
    blocks = read_blocks(files, encoding=how.encoding, errors=how.errors, format=how.format)
    seen = _Survey()
    with Scratch() as folder:
        builder = CorpusBuilder(folder, segmentation)
        try:
            sample = _count(seen, blocks, settings, builder)
            counts = builder.counted()
        finally:
            builder.close()
    share = seen.characters / max(seen.counted, 1)
    return {
        "files": len(files),
        "encoding": ", ".join(seen.encodings) or "utf-8",
        "format": ", ".join(seen.formats),
        "lines": seen.lines,
        "characters": seen.characters,
        "documents": round(builder.n_documents * share),
        "sentences": round(builder.n_sentences * share),
        "tokens": round(builder.n_tokens * share),
        "words": len(counts),
        "min_count": min_count,
        "vocabulary": int(np.count_nonzero(counts >= min_count)),
        "counted_characters": seen.counted,
        "estimated": seen.counted < seen.characters,
        "segmentation": segmentation.to_json(),
        "sample": sample,
    }


class _Survey:
    def __init__(self) -> None:
        self.lines = self.characters = self.counted = 0
        self.encodings: dict[str, None] = {}
        self.formats: dict[str, None] = {}

    def add(self, block: Block, settings: BlockSettings) -> None:
        self.lines += len(block.text.splitlines()) - block.continues
        self.characters += len(lines_of(block, settings)[0] if block.format == "jsonl" else block.text)
        self.encodings.setdefault(block.encoding)
        self.formats.setdefault(block.format)


def _count(
    seen: _Survey, blocks: Iterator[tuple[Block, int]], settings: BlockSettings, builder: CorpusBuilder
) -> list[list[str]]:
    """Count the words of the first blocks, only read the others; returns the words of the first sentences."""

    def first() -> Iterator[tuple[Block, int]]:
        for block, done in blocks:
            seen.add(block, settings)
            yield block, done
            if seen.characters >= COUNTED:
                return

    sample: list[list[str]] = []
    for counted, _ in counted_blocks(first(), settings, None):
        builder.add(counted)
        sample = sample or counted.first_sentences(SAMPLE)
    seen.counted = seen.characters
    for block, _ in blocks:
        seen.add(block, settings)
    return sample
