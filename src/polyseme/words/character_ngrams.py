"""Character n-grams of a word, hashed into buckets as in fastText: they give unseen words a vector. 子词

Bojanowski, Grave, Joulin and Mikolov, Enriching Word Vectors with Subword Information, 2017.

    v(w) = mean of the word's own row (if it has one) and of the rows of the n-grams of "<w>", minn <= n <= maxn
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints

END_OF_SENTENCE = "</s>"
BLOCK = 1 << 15  # words whose n-grams are in memory at a time
_FNV_START, _FNV_PRIME = 2166136261, 16777619


def ngrams(word: str, minn: int, maxn: int) -> Iterator[bytes]:
    """The n-grams of ``<word>`` in fastText's order, as bytes; ``<`` and ``>`` alone are not n-grams."""
    characters = _characters(marked(word, ""))
    for start in range(len(characters)):
        for n in range(max(1, minn), min(maxn, len(characters) - start) + 1):
            if n > 1 or 0 < start < len(characters) - 1:
                yield b"".join(characters[start : start + n])


def marked(word: str, whole: str) -> bytes:
    """``<word>`` as bytes; empty for ``whole``, the one word that has no n-grams."""
    return b"" if word == whole and whole else b"<" + word_bytes(word) + b">"


def _characters(data: bytes) -> list[bytes]:
    # fastText splits before every byte that is not a UTF-8 continuation byte, whether or not the text is valid.
    starts = [i for i, byte in enumerate(data) if byte & 0xC0 != 0x80]
    return [data[i:j] for i, j in zip(starts, [*starts[1:], len(data)], strict=True)]


def word_bytes(word: str) -> bytes:
    """The word in UTF-8. Bytes that were invalid when read are restored; a lone surrogate is encoded as it is."""
    try:
        return word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return word.encode("utf-8", "surrogatepass")


def ngram_hash(ngram: bytes) -> int:
    """fastText's hash: 32-bit FNV-1a, with fastText's quirk that each byte is treated as signed."""
    h = _FNV_START
    for byte in ngram:
        h ^= byte if byte < 128 else byte | 0xFFFFFF00
        h = (h * _FNV_PRIME) & 0xFFFFFFFF
    return h


@dataclass
class Subwords:
    """The n-gram rows of a model, and the words' own rows before n-grams are averaged in.

    ``kept`` maps a bucket to its row if a file was pruned to some buckets; None means row = bucket. ``whole`` is the
    one word that has no n-grams.
    """

    minn: int
    maxn: int
    rows: FloatArray  # (buckets, D)
    own: FloatArray  # (V, D)
    n_buckets: int
    kept: dict[int, int] | None = None
    whole: str = END_OF_SENTENCE

    def ids(self, word: str) -> Ints:
        """Row numbers of the word's n-grams; a row may be repeated."""
        if self.maxn <= 0 or not self.n_buckets or word == self.whole:
            return np.empty(0, dtype=np.int64)
        buckets = (ngram_hash(gram) % self.n_buckets for gram in ngrams(word, self.minn, self.maxn))
        if self.kept is None:
            return np.fromiter(buckets, dtype=np.int64)
        return np.array([self.kept[b] for b in buckets if b in self.kept], dtype=np.int64)

    def vector(self, word: str) -> FloatArray | None:
        """The mean of the n-grams' rows; None if the word has no n-grams, or none that was ever trained."""
        ids = self.ids(word)
        if not len(ids):
            return None
        vector = np.asarray(self.rows[ids].mean(axis=0, dtype=np.float32))
        return vector if vector.any() else None

    def compose(self, words: list[str]) -> FloatArray:
        """The vectors of the model's words, (V, D): each the mean of its own row and its n-grams' rows."""
        from polyseme.words.kernels.ngrams import add_rows, ngram_hashes

        vectors = np.array(self.own, dtype=np.float32)
        if self.maxn <= 0 or not self.n_buckets:
            return vectors
        rows = np.asarray(self.rows)
        for start in range(0, len(words), BLOCK):
            spellings = [marked(word, self.whole) for word in words[start : start + BLOCK]]
            offsets, hashes = ngram_hashes(spellings, self.minn, self.maxn, marked=True)
            block = vectors[start : start + BLOCK]
            block /= (1 + add_rows(rows, offsets, self._rows_of(hashes), block))[:, None].astype(np.float32)
        return vectors

    def _rows_of(self, hashes: NDArray[np.uint32]) -> Ints:
        """The rows of hashed n-grams; -1 if the bucket was pruned."""
        buckets = (hashes % np.uint32(self.n_buckets)).astype(np.int64)
        if self.kept is None:
            return buckets
        pairs = np.array(sorted(self.kept.items()), dtype=np.int64).reshape(-1, 2)
        if not len(pairs):
            return np.full(len(buckets), -1, dtype=np.int64)
        places = np.minimum(np.searchsorted(pairs[:, 0], buckets), len(pairs) - 1)
        return np.where(pairs[places, 0] == buckets, pairs[places, 1], -1)
