"""Turn blocks of text into numbered words, in two steps with the segmenter between them.

``prepare`` finds and normalises the sentences of a block and returns the segmentation jobs; ``finish`` numbers the
words. Both are fast, being NumPy over whole blocks; the slow part is segmentation, which other processes can do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from itertools import count as count_up

import numpy as np

from polyseme.errors import TextError
from polyseme.text.blocks import Block, BlockSettings, CountedBlock, lines_of, listed, structure_of
from polyseme.text.numbering import WordNumbers
from polyseme.text.segment import FUNCTION
from polyseme.text.segmenter import CODING, Job
from polyseme.text.spacing import joined
from polyseme.text.strings import well_formed
from polyseme.text.tagged import Pairs, read_tagged, tagged_sentences
from polyseme.text.vocabulary import words_to_bytes

END = "\n"


@dataclass
class PreparedBlock:
    """A block that is finished except for its word numbers."""

    counted: CountedBlock
    jobs: list[Job]  # for the segmenter
    rows: list[list[str]] | None = None  # the words of each sentence, if they are known already


class Counter:
    """Processes blocks one after the other and remembers the words seen so far."""

    def __init__(self, settings: BlockSettings) -> None:
        self.settings = settings
        self.numbers = WordNumbers()
        self.numbers.number(END.encode(CODING))  # number 0 ends a sentence
        self.odd: dict[str, int] = {}  # words with spaces and empty ones, from the caller's lists and functions

    def prepare(self, block: Block) -> PreparedBlock:
        """Find and normalise the sentences of a block."""
        segmentation = self.settings.segmentation
        if block.format in ("tagged", "segmented") and segmentation.method in ("char", FUNCTION):
            raise TextError(
                f"{block.source} is {block.format} text, which is already segmented: segment "
                f"{segmentation.method} would segment later text differently; choose another, or "
                "format text"
            )
        if block.format == "tagged":
            return self._prepare_tagged(block)
        text, records = lines_of(block, self.settings)
        structure, sentences, breaks_after = structure_of(block, text, records, self.settings)
        if block.format == "segmented":
            segmentation = replace(segmentation, method="space", words=(), function=None)
        lines = segmentation.lines(sentences)
        counted = CountedBlock(text.encode("utf-8", "replace"), breaks_after=breaks_after)
        structure.write_to(counted)
        if segmentation.method == FUNCTION:
            return PreparedBlock(counted, [], [segmentation.call(line) for line in lines.split("\n")] if lines else [])
        return PreparedBlock(counted, segmentation.jobs(lines))

    def finish(self, prepared: PreparedBlock, words: bytes) -> CountedBlock:
        """Number the words that ``cut.work`` returned for the jobs."""
        counted = prepared.counted
        if prepared.rows is not None:
            self._number_rows(counted, prepared.rows)
            return counted
        numbers, counted.words = self.numbers.number(words)
        is_end = numbers == 0
        places = np.flatnonzero(is_end)
        counted.ends = (places - np.arange(len(places))).astype(np.int32)
        counted.ids = numbers[~is_end] - 1
        return counted

    def count_sentences(self, sentences: Iterable[str | Sequence[str]], *, each_a_document: bool) -> CountedBlock:
        """Count sentences in memory as a block that continues the previous document; empty sentences are kept."""
        rows: list[list[str]] = []
        texts = []
        for sentence in sentences:
            raw = isinstance(sentence, str)
            rows.append(self.settings.segmentation.tokens(sentence) if raw else list(sentence))  # type: ignore[arg-type]
            texts.append(sentence if isinstance(sentence, str) else joined(sentence))
        numbers = np.arange(1, len(rows) + 1)
        structure, text = listed(texts, numbers, numbers if each_a_document else np.zeros_like(numbers))
        counted = CountedBlock(text)
        structure.write_to(counted)
        self._number_rows(counted, rows)
        return counted

    def _number_rows(self, counted: CountedBlock, rows: list[list[str]]) -> None:
        """Number words in memory. Those that are empty or contain spaces, newlines or NULs are numbered one by one."""
        flat = [well_formed(word) for word in chain.from_iterable(rows)]
        odd = np.array([not word or " " in word or "\n" in word or "\0" in word for word in flat], dtype=bool)
        numbers = np.zeros(len(flat), dtype=np.int32)
        plain = " ".join([word for word, is_odd in zip(flat, odd.tolist(), strict=True) if not is_odd])
        numbers[~odd], counted.words = self.numbers.number(plain.encode(CODING))
        new = []
        for place in np.flatnonzero(odd).tolist():
            if flat[place] not in self.odd:
                self.odd[flat[place]] = self.numbers.count
                self.numbers.count += 1
                new.append(flat[place])
            numbers[place] = self.odd[flat[place]]
        counted.words += words_to_bytes(new)
        counted.ids = numbers - 1
        counted.ends = np.cumsum([len(row) for row in rows], dtype=np.int64).astype(np.int32)

    def _prepare_tagged(self, block: Block) -> PreparedBlock:
        """Take words and tags as they are in the text; a new article number begins a new document."""
        read = [read_tagged(written) for written in block.text.splitlines()]
        flat = "\n".join([word for _, pairs in read for word, _ in pairs])
        normalised = iter(self.settings.segmentation.normalised(flat).split("\n"))
        words: list[str] = []
        rows: list[Pairs] = []
        lines, documents = [], []
        article, document, mode = block.article, int(block.new_source), self.settings.documents_of(block.format)
        for line, (number, given) in enumerate(read, 1):
            pairs = []
            for pair in given:
                if word := "".join(next(normalised).split()):  # normalisation leaves nothing of a zero-width space
                    words.append(word)
                    pairs.append(pair)
            if mode == "line" or (mode == "blank-line" and (not pairs or number != article)):
                document += 1
            article = number if pairs else article
            found = tagged_sentences(pairs)
            rows += found
            lines += [line] * len(found)
            documents += [document] * len(found)
        texts = [joined([word for word, _ in row]) for row in rows]
        structure, text = listed(texts, np.array(lines, dtype=np.int64), np.array(documents, dtype=np.int64))
        counted = CountedBlock(text, breaks_after=document != (documents[-1] if documents else 0))
        structure.write_to(counted)
        names: defaultdict[str, int] = defaultdict(count_up().__next__)
        counted.tags = np.array([names[tag] for row in rows for _, tag in row], dtype=np.int32)
        counted.tag_names = list(names)
        rest = iter(words)
        return PreparedBlock(counted, [], [list(islice(rest, len(row))) for row in rows])
