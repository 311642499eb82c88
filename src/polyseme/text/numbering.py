"""Numbers for words, whole blocks of text at a time, in NumPy.

A word is looked up four units of UTF-16 at a time: a node stands for four, and perhaps the node of those before them,
so the table is exact, whatever the length of a word. Nearly all Chinese words are one lookup, English ones one or two.
Nodes are found by open addressing, for all words of a block at once, at slots that hang on two random factors, so no
text can be made that fills one slot only. Nothing is sorted. Numbers go by first appearance and depend on nothing else.
Where whole blocks are looked up, ``take`` that clips stands for an index: it checks no bounds and takes half the time.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polyseme.text.cut import CODING, SPACE
from polyseme.text.vocabulary import escaped

Units = NDArray[np.uint16]
Nodes = NDArray[np.int32]
Numbers = NDArray[np.int32]
Pieces = NDArray[np.uint64]
Places = NDArray[np.int64]
T = TypeVar("T", bound=np.generic)

PIECE = 4  # units of 16 bits, looked up as one number
LONGEST = 32  # units; of a longer word, which no language has, a digest is looked up
_KEPT = np.array([(1 << 16 * n) - 1 for n in range(PIECE + 1)], dtype=np.uint64)  # masks of n units


class WordNumbers:
    """Gives every new word the next number, from 0 on."""

    def __init__(self) -> None:
        self.count = 0
        self._first = _NodeTable(1 << 16, prefixed=False)
        self._later = _NodeTable(1 << 14, prefixed=True)
        self._nodes = 0  # of both tables together
        self._number: Numbers = np.full(1 << 16, -1, dtype=np.int32)  # by node, of the word that ends there; -1: none

    def number(self, text: bytes) -> tuple[Numbers, bytes]:
        """The numbers of the words of a text in UTF-16, with spaces between them and no NUL; the new ones, one per
        line.

        A newline may be a word too, if it was numbered first of all.
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

    def _nodes_of(self, data: Units, starts: Places, lengths: Places) -> Nodes:
        """The nodes that these words end at."""
        # pieces[i] is the four units from place i on.
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
    """Pieces of words in the slots they are found at, with their nodes. No piece is 0, so that is an empty slot."""

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
        """The nodes of these pieces, each after its prefix. New ones are numbered from ``free`` on; the next free."""
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

    def _look_up(self, piece: Pieces, prefix: Nodes | None) -> tuple[Places, Places]:
        """The slots where these keys are looked for first, and which of them are not there."""
        product = piece * self.a
        if prefix is not None:
            product += prefix.astype(np.uint64)
            product *= self.b
        slots = _mixed(product, self.b, len(self.piece))
        return slots, np.flatnonzero(self._other(slots, piece, prefix))

    def _other(self, slots: Places, piece: Pieces, prefix: Nodes | None) -> NDArray[np.bool_]:
        """Where a slot holds another key, or none."""
        other: NDArray[np.bool_] = self.piece.take(slots, mode="clip") != piece
        if prefix is not None:
            other |= self.prefix.take(slots, mode="clip") != prefix
        return other

    def _settle(self, slots: Places, strange: Places, piece: Pieces, prefix: Nodes | None) -> None:
        """Move the strange ones on to their slots: of several that want an empty one, one gets it."""
        while len(strange):
            free = strange[self.piece[slots[strange]] == 0]
            if prefix is not None:
                # NumPy does not say which of several writes stays, so one claims the slot before it writes both.
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


def _met_first(scratch: Nodes, places: NDArray[Any]) -> Places:
    """Which of the places occur in the list for the first time, without sorting: ``scratch`` is written at them."""
    order = np.arange(len(places), dtype=np.int32)
    scratch[places] = len(places)
    np.minimum.at(scratch, places, order)
    return np.flatnonzero(scratch[places] == order)


def _random_factors() -> tuple[np.uint64, np.uint64]:
    a, b = (np.uint64(int.from_bytes(os.urandom(8), "little") | 1) for _ in range(2))
    return a, b


def _mixed(product: Pieces, factor: np.uint64, slots: int) -> Places:
    """Slots from products: the high bits, which depend on all bytes, are brought down for the next product."""
    product ^= product >> np.uint64(32)
    product *= factor
    product >>= np.uint64(65 - slots.bit_length())
    return product.view(np.int64)


def _with_digests(data: Units, starts: Places, lengths: Places) -> tuple[Units, Places, Places]:
    """Data, places and lengths to look words up at: a very long one at its digest, longer than all other words."""
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


def gathered(data: NDArray[T], starts: Places, sizes: Places) -> NDArray[T]:
    """The bytes or codes of many places, one place after the other."""
    ends = np.cumsum(sizes)
    places = np.repeat(starts - (ends - sizes), sizes)
    places += np.arange(len(places))
    found: NDArray[T] = data.take(places, mode="clip")
    return found
