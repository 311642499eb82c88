"""Numbers for words, whole blocks of text at a time, in NumPy.

A word is looked up eight bytes at a time: a node stands for eight bytes, and perhaps the node of the bytes before
them, so the table is exact, whatever the length of a word. Chinese words of two characters and English ones of up to
eight letters, nine tenths of a text, are one lookup. Nodes are found by open addressing, for all words of a block at
once:
    slot(prefix, piece) = ((piece + prefix * a) * b mod 2^64) >> shift,    a, b odd and random
so no text can be made that fills one slot only. Numbers go by first appearance and depend on nothing else.
Where whole blocks are looked up, ``take`` that clips stands for an index: it checks no bounds and takes half the time.
"""

from __future__ import annotations

import hashlib
import os

import numpy as np
from numpy.typing import NDArray

from polyseme.text.vocabulary import escaped

Nodes = NDArray[np.int32]
Pieces = NDArray[np.uint64]
Places = NDArray[np.int64]

PIECE = 8
LONGEST = 64  # bytes; of a longer word, which no language has, a digest is looked up
SPACE = 32
_KEPT = np.array([(1 << 8 * n) - 1 for n in range(PIECE + 1)], dtype=np.uint64)  # masks of n bytes


class WordNumbers:
    """Gives every new word the next number, from 0 on."""

    def __init__(self) -> None:
        self.count = 0
        self._first = _FirstPieces()
        self._later = _LaterPieces()

    def number(self, text: bytes) -> tuple[Nodes, bytes]:
        """The numbers of the words of ``text``, which has spaces between them and no NUL; the new ones, a line each.

        A newline may be a word too, if it was numbered first of all.
        """
        text = b"".join((b" ", text, b" " * PIECE))
        data = np.frombuffer(text, dtype=np.uint8)
        gaps = np.flatnonzero(data[: len(text) - PIECE + 1] == SPACE)
        lengths = np.diff(gaps) - 1
        starts = gaps[:-1] + 1
        if not lengths.all():
            full = lengths > 0
            starts, lengths = starts[full], lengths[full]
        data, places, sizes = _with_digests(text, data, starts, lengths)
        # pieces[i] is the eight bytes from place i on.
        pieces: Pieces = np.ndarray((len(data) - PIECE + 1,), np.uint64, data, 0, (1,))
        where = self._first.slots_of(pieces.take(places, mode="clip") & _KEPT.take(sizes, mode="clip"))
        numbers = self._first.number.take(where, mode="clip")
        long = np.flatnonzero(sizes > PIECE)
        ends = self._later.ends(pieces, places[long], sizes[long], self._first.node[where[long]])
        numbers[long] = self._later.number[ends]
        new = np.flatnonzero(numbers < 0)
        if not len(new):
            return numbers, b""
        where[long] = -1 - ends  # below 0: a node of the later pieces
        numbers[new], firsts = self._numbers_of_new(where[new])
        new = new[firsts]
        words = gathered(data, starts[new], lengths[new] + 1)  # with the space behind each
        return numbers, escaped(words.tobytes().replace(b" ", b"\n"))

    def _numbers_of_new(self, where: Places) -> tuple[Nodes, Places]:
        """Numbers for words that have none, by the places they end at; and which of these appear for the first time."""
        _, firsts, which = np.unique(where, return_index=True, return_inverse=True)
        ranks = np.empty(len(firsts), dtype=np.int32)
        ranks[np.argsort(firsts)] = np.arange(self.count, self.count + len(firsts), dtype=np.int32)
        numbers: Nodes = ranks[which]
        self.count += len(firsts)
        in_first = where >= 0
        self._first.number[where[in_first]] = numbers[in_first]
        self._later.number[-1 - where[~in_first]] = numbers[~in_first]
        return numbers, np.sort(firsts)


class _FirstPieces:
    """The first pieces of words, each in the slot it is found at; 0, which begins no word, is an empty slot."""

    def __init__(self) -> None:
        self.size = 0
        self.a, self.b = _random_factors()
        self._clear(1 << 16)

    def _clear(self, slots: int) -> None:
        self.piece: Pieces = np.zeros(slots, dtype=np.uint64)
        self.node: Nodes = np.full(slots, -1, dtype=np.int32)  # its name as a prefix of later pieces
        self.number: Nodes = np.full(slots, -1, dtype=np.int32)  # of the word that ends here; -1: none

    def slots_of(self, piece: Pieces) -> Places:
        """The slots of these pieces; those that are new get one."""
        slots, absent = self._look_up(piece)
        if not len(absent):
            return slots
        new = np.unique(piece[absent])
        if 3 * (self.size + len(new)) > len(self.piece):
            self._grow(self.size + len(new))
            slots, absent = self._look_up(piece)
        self._insert(new, np.arange(self.size, self.size + len(new), dtype=np.int32))
        self.size += len(new)
        slots[absent], _ = self._look_up(piece[absent])
        return slots

    def _look_up(self, piece: Pieces) -> tuple[Places, Places]:
        """The slot of each piece, and which of the pieces have none."""
        slots = _mixed(piece * self.a, self.b, len(self.piece))
        wrong = np.flatnonzero(self.piece.take(slots, mode="clip") != piece)
        absent = []
        while len(wrong):
            empty = self.piece[slots[wrong]] == 0
            absent.append(wrong[empty])
            wrong = wrong[~empty]
            slots[wrong] = (slots[wrong] + 1) & (len(self.piece) - 1)
            wrong = wrong[self.piece[slots[wrong]] != piece[wrong]]
        return slots, np.sort(np.concatenate(absent)) if absent else wrong

    def _insert(self, piece: Pieces, node: Nodes) -> Places:
        """Slots for distinct pieces that have none: of several that want one, the last gets it and the others go on."""
        slots = _mixed(piece * self.a, self.b, len(self.piece))
        homeless = np.arange(len(piece))
        while len(homeless):
            free = homeless[self.piece[slots[homeless]] == 0]
            self.piece[slots[free]] = piece[free]
            homeless = homeless[self.piece[slots[homeless]] != piece[homeless]]
            slots[homeless] = (slots[homeless] + 1) & (len(self.piece) - 1)
        self.node[slots] = node
        return slots

    def _grow(self, size: int) -> None:
        full = np.flatnonzero(self.piece)
        piece, node, number = self.piece[full], self.node[full], self.number[full]
        self._clear(1 << (6 * size).bit_length())
        self.number[self._insert(piece, node)] = number


class _LaterPieces:
    """The other pieces of long words, each behind the node of what stands before it."""

    def __init__(self) -> None:
        self.size = 0
        self.number: Nodes = np.full(1 << 14, -1, dtype=np.int32)  # of the word that ends here; -1: none
        self.piece: Pieces = np.zeros(1 << 14, dtype=np.uint64)
        self.prefix: Nodes = np.zeros(1 << 14, dtype=np.int32)
        self.slots: Nodes = np.full(1 << 16, -1, dtype=np.int32)
        self.a, self.b = _random_factors()

    def ends(self, pieces: Pieces, starts: Places, lengths: Places, first: Nodes) -> Nodes:
        """The nodes at the ends of words whose first pieces have the nodes ``first``."""
        nodes = -1 - first  # below 0: a prefix is one number for both tables
        going_on = np.arange(len(nodes))
        done = PIECE
        while len(going_on):
            left = lengths[going_on] - done
            piece = pieces[starts[going_on] + done] & _KEPT.take(left, mode="clip")
            nodes[going_on] = self._nodes_of(nodes[going_on], piece)
            going_on = going_on[left > PIECE]
            done += PIECE
        return nodes

    def _nodes_of(self, prefix: Nodes, piece: Pieces) -> Nodes:
        """The nodes of these keys; new ones are made."""
        found = self._look_up(prefix, piece)
        absent = np.flatnonzero(found < 0)
        if len(absent):
            prefix, piece, which = _distinct(prefix[absent], piece[absent])
            found[absent] = which + np.int32(self.size)
            self._insert(prefix, piece)
        return found

    def _slots_of(self, prefix: Nodes, piece: Pieces) -> Places:
        return _mixed((piece + prefix.astype(np.uint64) * self.a) * self.b, self.b, len(self.slots))

    def _look_up(self, prefix: Nodes, piece: Pieces) -> Nodes:
        """The node of every key; -1 where there is none."""
        slots = self._slots_of(prefix, piece)
        found = self.slots[slots]
        wrong = np.flatnonzero((self.piece[found] != piece) | (self.prefix[found] != prefix))
        while len(wrong := wrong[found[wrong] >= 0]):
            slots[wrong] = (slots[wrong] + 1) & (len(self.slots) - 1)
            node = self.slots[slots[wrong]]
            found[wrong] = node
            wrong = wrong[(self.piece[node] != piece[wrong]) | (self.prefix[node] != prefix[wrong])]
        return found

    def _insert(self, prefix: Nodes, piece: Pieces) -> None:
        """Nodes for distinct keys that are not there."""
        first, self.size = self.size, self.size + len(piece)
        if self.size > len(self.piece):
            more = max(self.size, 2 * len(self.piece)) - len(self.piece)
            self.number = np.concatenate([self.number, np.full(more, -1, dtype=np.int32)])
            self.piece = np.concatenate([self.piece, np.zeros(more, dtype=np.uint64)])
            self.prefix = np.concatenate([self.prefix, np.zeros(more, dtype=np.int32)])
        self.piece[first : self.size] = piece
        self.prefix[first : self.size] = prefix
        if 3 * self.size > len(self.slots):
            self.slots = np.full(1 << (6 * self.size).bit_length(), -1, dtype=np.int32)
            first = 0
        nodes = np.arange(first, self.size, dtype=np.int32)
        slots = self._slots_of(self.prefix[nodes], self.piece[nodes])
        while len(nodes):
            free = self.slots[slots] < 0
            self.slots[slots[free]] = nodes[free]
            homeless = self.slots[slots] != nodes
            nodes, slots = nodes[homeless], (slots[homeless] + 1) & (len(self.slots) - 1)


def _random_factors() -> tuple[np.uint64, np.uint64]:
    a, b = (np.uint64(int.from_bytes(os.urandom(8), "little") | 1) for _ in range(2))
    return a, b


def _mixed(product: Pieces, factor: np.uint64, slots: int) -> Places:
    """Slots from products: the high bits, which depend on all bytes, are brought down for the next product."""
    product ^= product >> np.uint64(32)
    product *= factor
    product >>= np.uint64(65 - slots.bit_length())
    return product.view(np.int64)


def _with_digests(
    text: bytes, data: NDArray[np.uint8], starts: Places, lengths: Places
) -> tuple[NDArray[np.uint8], Places, Places]:
    """Data, places and lengths to look words up at: a very long one at its digest, longer than all other words."""
    giants = np.flatnonzero(lengths > LONGEST).tolist()
    if not giants:
        return data, starts, lengths
    starts, lengths = starts.copy(), lengths.copy()
    pieces = [text]
    end = len(text)
    for word in giants:
        bytes_of_word = text[starts[word] : starts[word] + lengths[word]]
        pieces.append(hashlib.blake2b(bytes_of_word).digest() + len(bytes_of_word).to_bytes(PIECE, "little"))
        starts[word], lengths[word] = end, LONGEST + PIECE
        end += LONGEST + PIECE
    pieces.append(b" " * PIECE)
    return np.frombuffer(b"".join(pieces), dtype=np.uint8), starts, lengths


def _distinct(prefix: Nodes, piece: Pieces) -> tuple[Nodes, Pieces, Nodes]:
    """Every key once, and for each of the given ones which of these it is."""
    order = np.lexsort((piece, prefix))
    prefix, piece = prefix[order], piece[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (piece[1:] != piece[:-1]) | (prefix[1:] != prefix[:-1])
    which = np.empty(len(order), dtype=np.int32)
    which[order] = np.cumsum(first) - 1
    return prefix[first], piece[first], which


def gathered(data: NDArray[np.uint8], starts: Places, sizes: Places) -> NDArray[np.uint8]:
    """The bytes of many places, one place after the other."""
    ends = np.cumsum(sizes)
    places = np.repeat(starts - (ends - sizes), sizes)
    places += np.arange(len(places))
    found: NDArray[np.uint8] = data[places]
    return found
