"""Character n-grams of a word, hashed into buckets as fastText does it: vectors for words never seen. 子词

Bojanowski, Grave, Joulin and Mikolov, Enriching Word Vectors with Subword Information, 2017.

    v(w) = mean of the word's own row (where it has one) and of the rows of its n-grams of "<w>", minn <= n <= maxn
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyseme.nouns import FloatArray

END_OF_SENTENCE = "</s>"
_FNV_START, _FNV_PRIME = 2166136261, 16777619


def ngrams(word: str, minn: int, maxn: int) -> Iterator[bytes]:
    """The n-grams of ``<word>`` in fastText's order, as bytes; the lone boundary marks are not among them."""
    characters = _characters(b"<" + word_bytes(word) + b">")
    for start in range(len(characters)):
        for n in range(max(1, minn), min(maxn, len(characters) - start) + 1):
            if n > 1 or 0 < start < len(characters) - 1:
                yield b"".join(characters[start : start + n])


def _characters(data: bytes) -> list[bytes]:
    # fastText cuts before every byte that is not a UTF-8 continuation, whether or not the text is valid.
    starts = [i for i, byte in enumerate(data) if byte & 0xC0 != 0x80]
    return [data[i:j] for i, j in zip(starts, [*starts[1:], len(data)], strict=True)]


def word_bytes(word: str) -> bytes:
    """The word in UTF-8. Bytes that were not UTF-8 when read come back; half a surrogate pair stays one."""
    try:
        return word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return word.encode("utf-8", "surrogatepass")


def ngram_hash(ngram: bytes) -> int:
    """FNV-1a on 32 bits, each byte taken as a signed number: fastText's hash, its quirk included."""
    h = _FNV_START
    for byte in ngram:
        h ^= byte if byte < 128 else byte | 0xFFFFFF00
        h = (h * _FNV_PRIME) & 0xFFFFFFFF
    return h


@dataclass
class Subwords:
    """The n-gram rows of a model, and the words' own rows before their n-grams are mixed in.

    ``kept`` maps a bucket to its row where a file was pruned to some buckets; None means row = bucket. ``whole`` is
    the one word that has no n-grams.
    """

    minn: int
    maxn: int
    rows: FloatArray  # (buckets, D)
    own: FloatArray  # (V, D)
    n_buckets: int
    kept: dict[int, int] | None = None
    whole: str = END_OF_SENTENCE

    def ids(self, word: str) -> NDArray[np.int64]:
        """Row numbers of the word's n-grams, with repetitions."""
        if self.maxn <= 0 or not self.n_buckets or word == self.whole:
            return np.empty(0, dtype=np.int64)
        buckets = (ngram_hash(gram) % self.n_buckets for gram in ngrams(word, self.minn, self.maxn))
        if self.kept is None:
            return np.fromiter(buckets, dtype=np.int64)
        return np.array([self.kept[b] for b in buckets if b in self.kept], dtype=np.int64)

    def vector(self, word: str) -> FloatArray | None:
        """The mean of the n-grams' rows; None for a word that has none, or none that were ever trained."""
        ids = self.ids(word)
        if not len(ids):
            return None
        vector = np.asarray(self.rows[ids].mean(axis=0, dtype=np.float32))
        return vector if vector.any() else None

    def compose(self, words: list[str]) -> FloatArray:
        """The vectors of the model's words, (V, D): each the mean of its own row and its n-grams' rows."""
        from polyseme.words.kernels.subwords import compose

        encoded = [word_bytes(word) for word in words]
        data = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        bounds = np.zeros(len(words) + 1, dtype=np.int64)
        np.cumsum([len(word) for word in encoded], out=bounds[1:])
        kept = np.array(sorted((self.kept or {}).items()), dtype=np.int64).reshape(-1, 2)
        vectors = np.array(self.own, dtype=np.float32)
        plain = words.index(self.whole) if self.whole in words else -1
        if self.maxn > 0 and self.n_buckets and self.kept != {}:
            compose(data, bounds, self.minn, self.maxn, self.n_buckets, kept, np.asarray(self.rows), plain, vectors)
        return vectors
