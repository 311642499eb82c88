"""Answers on their way: sent in pieces, so that little of one is in buffers, and bounded in what all hold together.

A client that requests large answers and does not read them holds each until ``protocol`` closes the connection; a
further large answer is refused (503) while too many bytes wait, from this client or in all.
"""

from __future__ import annotations

from collections import Counter

PIECE = 64 << 10  # bytes sent at a time
LARGE = 1 << 20  # bytes; smaller answers are always sent
IN_ALL = 256 << 20
OF_ONE_CLIENT = 64 << 20


class Outgoing:
    """The bytes of large answers that are being sent, by the address of the client."""

    def __init__(self) -> None:
        self._bytes: Counter[str] = Counter()

    def take(self, address: str, size: int) -> bool:
        """Count an answer; False if there is no room for it. The first of a client always has room."""
        if size < LARGE:
            return True
        own = self._bytes[address]
        if own and (own + size > OF_ONE_CLIENT or self._bytes.total() + size > IN_ALL):
            return False
        self._bytes[address] += size
        return True

    def release(self, address: str, size: int) -> None:
        """The answer was sent, or its client has gone."""
        if size >= LARGE:
            self._bytes[address] -= size
            if not self._bytes[address]:
                del self._bytes[address]
