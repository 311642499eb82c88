"""Compiled: the hashes of the character n-grams of many words."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polyseme.words.kernels.subwords import _mixed
from polyseme.words.subwords import word_bytes


@njit(cache=True, nogil=True)
def _hashes(
    data: NDArray[np.uint8], bounds: NDArray[np.int64], minn: int, maxn: int, plain: int, into: NDArray[np.uint32]
) -> NDArray[np.int64]:
    """Hash the n-grams of ``<word>`` for each word; offsets of the words' hashes. ``into`` of size 0 only counts.

    Word i is ``data[bounds[i]:bounds[i + 1]]``, marks included; word ``plain`` has no n-grams.
    """
    offsets = np.zeros(len(bounds), np.int64)
    found = 0
    for i in range(len(bounds) - 1):
        begin, end = bounds[i], bounds[i + 1]
        for start in range(begin, end if i != plain else begin):
            if data[start] & 0xC0 == 0x80:  # inside a character
                continue
            h, at = np.uint32(2166136261), start
            for n in range(1, maxn + 1):
                if at == end:
                    break
                h = _mixed(h, data[at])
                at += 1
                while at < end and data[at] & 0xC0 == 0x80:
                    h = _mixed(h, data[at])
                    at += 1
                if n >= minn and not (n == 1 and (start == begin or at == end)):
                    if len(into):
                        into[found] = h
                    found += 1
        offsets[i + 1] = found
    return offsets


def ngram_hashes(words: list[str], minn: int, maxn: int, plain: str) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Offsets and hashes: those of word i are ``hashes[offsets[i]:offsets[i + 1]]``, in fastText's order."""
    marked = [b"<" + word_bytes(word) + b">" for word in words]
    data = np.frombuffer(b"".join(marked), dtype=np.uint8)
    bounds = np.zeros(len(words) + 1, np.int64)
    np.cumsum([len(word) for word in marked], out=bounds[1:])
    whole = words.index(plain) if plain in words else -1
    size = _hashes(data, bounds, minn, maxn, whole, np.empty(0, np.uint32))[-1]
    hashes = np.empty(size, np.uint32)
    return _hashes(data, bounds, minn, maxn, whole, hashes), hashes
