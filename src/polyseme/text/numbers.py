"""Numbers for words, whole blocks of text at a time, in NumPy.

A word is looked up eight bytes at a time: a node stands for eight bytes, and perhaps the node of the bytes before
them, so the table is exact, whatever the length of a word. Chinese words of two characters and English ones of up to
eight letters, nine tenths of a text, are one lookup. Nodes are found by open addressing, for all words of a block at
once:
    slot(prefix, piece) = ((piece + prefix * a) * b mod 2^64) >> shift,    a, b odd and random
so no text can be made that fills one slot only. Numbers go by first appearance and depend on nothing else.
"""

from __future__ import annotations

import hashlib
import os

import numpy as np
from numpy.typing import NDArray

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
        self._first = _Table(prefixed=False)
        self._later = _Table(prefixed=True)

    def number(self, text: bytes) -> tuple[Nodes, list[str]]:
        """The numbers of the words of ``text``, which stand between spaces, and the words that are new."""
        text = b"".join((b" ", text, b" " * PIECE))
        data = np.frombuffer(text, dtype=np.uint8)
        gaps = np.flatnonzero(data[: len(text) - PIECE + 1] == SPACE)
        lengths = np.diff(gaps) - 1
        starts = gaps[:-1] + 1
        if not lengths.all():
            full = lengths > 0
            starts, lengths = starts[full], lengths[full]
        if lengths.max(initial=0) > LONGEST:
            data, places, sizes = _with_digests(text, starts, lengths)
        else:
            places, sizes = starts, lengths
        # pieces[i] is the eight bytes from place i on.
        pieces: Pieces = np.ndarray((len(data) - PIECE + 1,), np.uint64, data, 0, (1,))
        nodes = self._first.nodes(None, pieces[places] & _KEPT.take(sizes, mode="clip"))
        numbers = self._first.number[nodes]
        long = np.flatnonzero(sizes > PIECE)
        long_nodes = self._long_nodes(pieces, places[long], sizes[long], nodes[long])
        numbers[long] = self._later.number[long_nodes]
        new = np.flatnonzero(numbers < 0)
        if not len(new):
            return numbers, []
        nodes[long] = -1 - long_nodes  # of the other table
        new = self._give_numbers(nodes, new)
        numbers = self._first.number.take(nodes, mode="clip")
        numbers[long] = self._later.number[long_nodes]
        return numbers, _words(data, starts[new], lengths[new])

    def _long_nodes(self, pieces: Pieces, starts: Places, lengths: Places, nodes: Nodes) -> Nodes:
        """The nodes at the ends of words of more than one piece, whose first pieces have ``nodes``."""
        going_on = np.arange(len(nodes))
        done = PIECE
        while len(going_on):
            left = lengths[going_on] - done
            piece = pieces[starts[going_on] + done] & _KEPT.take(left, mode="clip")
            # Nodes of the first table go below 0: a prefix is one number for both tables.
            prefix = nodes[going_on] if done > PIECE else -1 - nodes[going_on]
            nodes[going_on] = self._later.nodes(prefix, piece)
            going_on = going_on[left > PIECE]
            done += PIECE
        return nodes

    def _give_numbers(self, nodes: Nodes, new: Places) -> Places:
        """Numbers for nodes that a word ends at for the first time; the places of those words."""
        _, places = np.unique(nodes[new], return_index=True)
        new = new[np.sort(places)]
        numbers = np.arange(self.count, self.count + len(new), dtype=np.int32)
        later = nodes[new] < 0
        self._later.number[-1 - nodes[new][later]] = numbers[later]
        self._first.number[nodes[new][~later]] = numbers[~later]
        self.count += len(new)
        return new


class _Table:
    """Keys to nodes: a piece, or a piece behind a prefix."""

    def __init__(self, *, prefixed: bool) -> None:
        self.size = 0
        self.number: Nodes = np.full(1 << 14, -1, dtype=np.int32)  # of the word that ends here; -1: none
        self.piece: Pieces = np.zeros(1 << 14, dtype=np.uint64)
        self.prefixed = prefixed
        self.prefix: Nodes = np.zeros(1 << 14 if prefixed else 0, dtype=np.int32)
        self.slots: Nodes = np.full(1 << 16, -1, dtype=np.int32)
        self.a, self.b = (np.uint64(int.from_bytes(os.urandom(8), "little") | 1) for _ in range(2))

    def nodes(self, prefix: Nodes | None, piece: Pieces) -> Nodes:
        """The nodes of these keys; new ones are made."""
        found = self._look_up(prefix, piece)
        absent = np.flatnonzero(found < 0)
        if len(absent):
            prefix, piece, which = _distinct(None if prefix is None else prefix[absent], piece[absent])
            found[absent] = which + np.int32(self.size)
            self._insert(prefix, piece)
        return found

    def _slots_of(self, prefix: Nodes | None, piece: Pieces) -> Places:
        shift = np.uint64(65 - len(self.slots).bit_length())
        mixed = piece * self.a if prefix is None else (piece + prefix.astype(np.uint64) * self.a) * self.b
        mixed ^= mixed >> np.uint64(32)  # brings the high bits, which depend on all bytes, down for the next product
        mixed *= self.b
        mixed >>= shift
        return mixed.astype(np.int64)

    def _differs(self, node: Nodes, prefix: Nodes | None, piece: Pieces) -> NDArray[np.bool_]:
        other: NDArray[np.bool_] = self.piece[node] != piece
        return other if prefix is None else other | (self.prefix[node] != prefix)

    def _look_up(self, prefix: Nodes | None, piece: Pieces) -> Nodes:
        """The node of every key; -1 where there is none."""
        slots = self._slots_of(prefix, piece)
        found = self.slots[slots]
        wrong = np.flatnonzero(self._differs(found, prefix, piece))
        while len(wrong := wrong[found[wrong] >= 0]):
            slots[wrong] = (slots[wrong] + 1) & (len(self.slots) - 1)
            node = self.slots[slots[wrong]]
            found[wrong] = node
            wrong = wrong[self._differs(node, None if prefix is None else prefix[wrong], piece[wrong])]
        return found

    def _insert(self, prefix: Nodes | None, piece: Pieces) -> None:
        """Nodes for distinct keys that are not there."""
        first, self.size = self.size, self.size + len(piece)
        if self.size > len(self.piece):
            more = max(self.size, 2 * len(self.piece)) - len(self.piece)
            self.number = np.concatenate([self.number, np.full(more, -1, dtype=np.int32)])
            self.piece = np.concatenate([self.piece, np.zeros(more, dtype=np.uint64)])
            self.prefix = np.concatenate([self.prefix, np.zeros(more if self.prefixed else 0, dtype=np.int32)])
        self.piece[first : self.size] = piece
        if prefix is not None:
            self.prefix[first : self.size] = prefix
        if 3 * self.size > len(self.slots):
            self.slots = np.full(4 * len(self.slots), -1, dtype=np.int32)
            first = 0
        self._take_slots(first)

    def _take_slots(self, first: int) -> None:
        """A slot for every node from ``first`` on: of several that want one, the last gets it and the others go on."""
        nodes = np.arange(first, self.size, dtype=np.int32)
        slots = self._slots_of(self.prefix[nodes] if self.prefixed else None, self.piece[nodes])
        while len(nodes):
            free = self.slots[slots] < 0
            self.slots[slots[free]] = nodes[free]
            homeless = self.slots[slots] != nodes
            nodes, slots = nodes[homeless], (slots[homeless] + 1) & (len(self.slots) - 1)


def _with_digests(text: bytes, starts: Places, lengths: Places) -> tuple[NDArray[np.uint8], Places, Places]:
    """Places and lengths to look words up at: a very long one at its digest, which is longer than other words."""
    starts, lengths = starts.copy(), lengths.copy()
    pieces = [text]
    end = len(text)
    for word in np.flatnonzero(lengths > LONGEST).tolist():
        bytes_of_word = text[starts[word] : starts[word] + lengths[word]]
        pieces.append(hashlib.blake2b(bytes_of_word).digest() + len(bytes_of_word).to_bytes(PIECE, "little"))
        starts[word], lengths[word] = end, LONGEST + PIECE
        end += LONGEST + PIECE
    pieces.append(b" " * PIECE)
    return np.frombuffer(b"".join(pieces), dtype=np.uint8), starts, lengths


def _distinct(prefix: Nodes | None, piece: Pieces) -> tuple[Nodes | None, Pieces, Nodes]:
    """Every key once, and for each of the given ones which of these it is."""
    order = np.argsort(piece) if prefix is None else np.lexsort((piece, prefix))
    piece = piece[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = piece[1:] != piece[:-1]
    if prefix is not None:
        prefix = prefix[order]
        first[1:] |= prefix[1:] != prefix[:-1]
    which = np.empty(len(order), dtype=np.int32)
    which[order] = np.cumsum(first) - 1
    return None if prefix is None else prefix[first], piece[first], which


def _words(data: NDArray[np.uint8], starts: Places, lengths: Places) -> list[str]:
    """The words at these places: all their bytes, and the space behind each, in one gathering."""
    sizes = lengths + 1
    ends = np.cumsum(sizes)
    places = np.arange(ends[-1]) + np.repeat(starts - (ends - sizes), sizes)
    text: str = data[places[:-1]].tobytes().decode()
    return text.split(" ")
