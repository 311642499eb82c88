"""Turn blocks of text into numbered words, in two steps with the segmenter between them.

``Counter.prepare`` finds and normalises the sentences of a block and returns the segmentation jobs; ``finish`` numbers
the words. Both are fast, being NumPy over whole blocks; the slow part is segmentation, which other processes can do.

The words form a trie over pieces of four UTF-16 units: a node is a piece, after the node of the pieces before it. So
lookups are exact for words of any length. Nearly all Chinese words need one lookup, English ones one or two.
Nodes are found in a hash table with open addressing, for all words of a block at once. The hash has two random factors,
so no text can be constructed whose words all collide. Nothing is sorted. Numbers depend on first appearance only.
For lookups of whole blocks, ``take`` with ``mode="clip"`` replaces indexing: without bounds checks it is twice as fast.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from itertools import count as count_up
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Ints, gathered
from polyseme.errors import TextError
from polyseme.text.blocks import Block, BlockSettings, CountedBlock, lines_of, listed, structure_of
from polyseme.text.segment import FUNCTION
from polyseme.text.segmenter import CODING, SPACE, Job
from polyseme.text.spacing import joined
from polyseme.text.strings import well_formed
from polyseme.text.tagged import Pairs, read_tagged, tagged_sentences
from polyseme.text.vocabulary import escaped, words_to_bytes

Units = NDArray[np.uint16]
Nodes = NDArray[np.int32]
Numbers = NDArray[np.int32]
Pieces = NDArray[np.uint64]

END = "\n"
PIECE = 4  # units of 16 bits, looked up as one number
LONGEST = 32  # units; longer strings, which are hardly words, are looked up by a digest
_KEPT = np.array([(1 << 16 * n) - 1 for n in range(PIECE + 1)], dtype=np.uint64)  # masks that keep n units


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
            sentences = tagged_sentences(pairs)
            rows += sentences
            lines += [line] * len(sentences)
            documents += [document] * len(sentences)
        texts = [joined([word for word, _ in row]) for row in rows]
        structure, text = listed(texts, np.array(lines, dtype=np.int64), np.array(documents, dtype=np.int64))
        counted = CountedBlock(text, breaks_after=document != (documents[-1] if documents else 0))
        structure.write_to(counted)
        names: defaultdict[str, int] = defaultdict(count_up().__next__)
        counted.tags = np.array([names[tag] for row in rows for _, tag in row], dtype=np.int32)
        counted.tag_names = list(names)
        rest = iter(words)
        return PreparedBlock(counted, [], [list(islice(rest, len(row))) for row in rows])


class WordNumbers:
    """Gives every new word the next number, starting from 0."""

    def __init__(self) -> None:
        self.count = 0
        self._first = _NodeTable(1 << 16, prefixed=False)
        self._later = _NodeTable(1 << 14, prefixed=True)
        self._nodes = 0  # of both tables together
        self._number: Numbers = np.full(1 << 16, -1, dtype=np.int32)  # of the word that ends at each node; -1: none

    def number(self, text: bytes) -> tuple[Numbers, bytes]:
        """The number of each word in a text, and the new words, one per line.

        The text is in UTF-16, its words separated by spaces, without NULs. A newline may be a word too, if it was the
        first one to be numbered.
        """
        data = np.frombuffer(b"".join((SPACE, text, SPACE * PIECE)), dtype=np.uint16)
        gaps = np.flatnonzero(data[: len(data) - PIECE + 1] == ord(" "))
        lengths = np.diff(gaps) - 1
        starts = gaps[:-1] + 1
        if not lengths.all():
            full = lengths > 0
            starts, lengths = starts[full], lengths[full]
        data, places, sizes = _with_digests(data, starts, lengths)
        nodes = self._nodes_of(data, places, sizes)
        numbers = self._number.take(nodes, mode="clip")
        new = np.flatnonzero(numbers < 0)
        if not len(new):
            return numbers, b""
        met = _met_first(self._number, nodes[new])
        self._number[nodes[new[met]]] = np.arange(self.count, self.count + len(met), dtype=np.int32)
        self.count += len(met)
        numbers[new] = self._number[nodes[new]]
        new = new[met]
        words = gathered(data, starts[new], lengths[new] + 1)  # with the space after each
        return numbers, escaped(words.tobytes().decode(CODING).replace(" ", "\n").encode())

    def _nodes_of(self, data: Units, starts: Ints, lengths: Ints) -> Nodes:
        """The node at which each word ends."""
        # pieces[i] is the four units that begin at i.
        pieces: Pieces = np.ndarray((len(data) - PIECE + 1,), np.uint64, data, 0, data.strides)
        piece = pieces.take(starts, mode="clip") & _KEPT.take(lengths, mode="clip")
        nodes, self._nodes = self._first.nodes_of(piece, None, self._nodes)
        going_on = np.flatnonzero(lengths > PIECE)
        done = PIECE
        while len(going_on):
            left = lengths[going_on] - done
            piece = pieces[starts[going_on] + done] & _KEPT.take(left, mode="clip")
            nodes[going_on], self._nodes = self._later.nodes_of(piece, nodes[going_on], self._nodes)
            going_on = going_on[left > PIECE]
            done += PIECE
        if self._nodes > len(self._number):
            more = max(len(self._number), self._nodes - len(self._number))
            self._number = np.append(self._number, np.full(more, -1, dtype=np.int32))
        return nodes


class _NodeTable:
    """A hash table from (prefix node, piece) to node. No piece is 0, so 0 marks an empty slot."""

    def __init__(self, slots: int, *, prefixed: bool) -> None:
        self.size = 0
        self.prefixed = prefixed
        self.a, self.b = _random_factors()
        self._clear(slots)

    def _clear(self, slots: int) -> None:
        self.piece: Pieces = np.zeros(slots, dtype=np.uint64)
        self.prefix: Nodes = np.zeros(slots if self.prefixed else 0, dtype=np.int32)
        self.node: Nodes = np.full(slots, -1, dtype=np.int32)

    def nodes_of(self, piece: Pieces, prefix: Nodes | None, free: int) -> tuple[Nodes, int]:
        """The node of each piece after its prefix, and the next free number; new nodes get numbers from ``free`` on."""
        slots, strange = self._look_up(piece, prefix)
        if 3 * (self.size + len(strange)) > len(self.piece):
            self._grow(self.size + len(strange))
            slots, strange = self._look_up(piece, prefix)
        self._settle(slots, strange, piece, prefix)
        nodes = self.node.take(slots, mode="clip")
        new = strange[nodes[strange] < 0]
        if len(new):
            made = slots[new[_met_first(self.node, slots[new])]]
            self.node[made] = np.arange(free, free + len(made), dtype=np.int32)
            nodes[new] = self.node[slots[new]]
            self.size += len(made)
            free += len(made)
        return nodes, free

    def _look_up(self, piece: Pieces, prefix: Nodes | None) -> tuple[Ints, Ints]:
        """The first slot to try for each key, and the indices of the keys that are not there."""
        product = piece * self.a
        if prefix is not None:
            product += prefix.astype(np.uint64)
            product *= self.b
        slots = _mixed(product, self.b, len(self.piece))
        return slots, np.flatnonzero(self._other(slots, piece, prefix))

    def _other(self, slots: Ints, piece: Pieces, prefix: Nodes | None) -> NDArray[np.bool_]:
        """Whether each slot contains a different key, or none."""
        other: NDArray[np.bool_] = self.piece.take(slots, mode="clip") != piece
        if prefix is not None:
            other |= self.prefix.take(slots, mode="clip") != prefix
        return other

    def _settle(self, slots: Ints, strange: Ints, piece: Pieces, prefix: Nodes | None) -> None:
        """Find a slot for the ``strange`` keys by linear probing; if several want the same empty slot, one gets it."""
        while len(strange):
            free = strange[self.piece[slots[strange]] == 0]
            if prefix is not None:
                # NumPy does not define which of several writes wins, so a key claims its slot, then writes both arrays.
                self.node[slots[free]] = free
                free = free[self.node[slots[free]] == free]
                self.node[slots[free]] = -1
                self.prefix[slots[free]] = prefix[free]
            self.piece[slots[free]] = piece[free]
            other = self._other(slots[strange], piece[strange], None if prefix is None else prefix[strange])
            strange = strange[other]
            slots[strange] = (slots[strange] + 1) & (len(self.piece) - 1)

    def _grow(self, size: int) -> None:
        full = np.flatnonzero(self.piece)
        full = full[np.argsort(-self.node[full])]  # the oldest, which are the most frequent, are written last
        piece, node = self.piece[full], self.node[full]
        prefix = self.prefix[full] if self.prefixed else None
        self._clear(1 << (3 * size).bit_length())
        slots, strange = self._look_up(piece, prefix)
        self._settle(slots, strange, piece, prefix)
        self.node[slots] = node


def _met_first(scratch: Nodes, places: NDArray[Any]) -> Ints:
    """The indices at which a place occurs for the first time, without sorting; ``scratch`` is overwritten there."""
    order = np.arange(len(places), dtype=np.int32)
    scratch[places] = len(places)
    np.minimum.at(scratch, places, order)
    return np.flatnonzero(scratch[places] == order)


def _random_factors() -> tuple[np.uint64, np.uint64]:
    a, b = (np.uint64(int.from_bytes(os.urandom(8), "little") | 1) for _ in range(2))
    return a, b


def _mixed(product: Pieces, factor: np.uint64, slots: int) -> Ints:
    """Turn products into slots: the high bits, which depend on all bytes, are mixed into the low ones first."""
    product ^= product >> np.uint64(32)
    product *= factor
    product >>= np.uint64(65 - slots.bit_length())
    return product.view(np.int64)


def _with_digests(data: Units, starts: Ints, lengths: Ints) -> tuple[Units, Ints, Ints]:
    """Replace very long words by digests, which are longer than any other word: the new data, starts and lengths."""
    giants = np.flatnonzero(lengths > LONGEST).tolist()
    if not giants:
        return data, starts, lengths
    starts, lengths = starts.copy(), lengths.copy()
    pieces = [data.tobytes()]
    end = len(data)
    for word in giants:
        whole = data[starts[word] : starts[word] + lengths[word]].tobytes()
        pieces.append(hashlib.blake2b(whole).digest() + len(whole).to_bytes(8, "little"))
        starts[word], lengths[word] = end, LONGEST + PIECE
        end += LONGEST + PIECE
    pieces.append(SPACE * PIECE)
    return np.frombuffer(b"".join(pieces), dtype=np.uint16), starts, lengths
