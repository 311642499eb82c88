"""The token that clients of other machines must send, and how guessing it is slowed (令牌)."""

from __future__ import annotations

import hashlib
import hmac
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

FREE = 5  # wrong tokens that cost nothing: typing errors
LONGEST = 60.0  # seconds
FORGOTTEN = 900.0  # seconds after which wrong tokens no longer count
CLIENTS = 4096  # remembered at most; the one whose last guess is oldest is forgotten


@dataclass
class _Guesses:
    wrong: int = 0
    last: bytes = b""  # digest of the last one: a program that repeats an old token guesses nothing new
    at: float = 0.0
    free_at: float = 0.0


class TokenCheck:
    """Whether a client sent the token. After ``FREE`` wrong ones each further one doubles the time it must wait."""

    def __init__(self, token: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._digest = _digest(token.encode())
        self._clock = clock
        self._clients: OrderedDict[str, _Guesses] = OrderedDict()

    def seconds_to_wait(self, address: str) -> int:
        """Until this client may try again, in whole seconds; 0 if it may now."""
        known = self._clients.get(address)
        return max(0, math.ceil(known.free_at - self._clock())) if known else 0

    def accepts(self, address: str, given: bytes) -> bool:
        """Compare what was given, in the same time wherever it differs; a wrong one is remembered."""
        digest = _digest(given)
        if hmac.compare_digest(digest, self._digest):
            return True
        now = self._clock()
        known = self._clients.pop(address, None) or _Guesses()
        if now - known.at > FORGOTTEN:
            known = _Guesses()
        if digest != known.last:
            known.wrong += 1
            known.last = digest
            if known.wrong > FREE:
                known.free_at = now + min(LONGEST, 2.0 ** (known.wrong - FREE - 1))
        known.at = now
        self._clients[address] = known
        if len(self._clients) > CLIENTS:
            self._clients.popitem(last=False)
        return False


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
