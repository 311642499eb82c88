"""Texts by their words 关键词检索: BM25 over an inverted file.

    score(q, t) = Σ_w idf(w) · tf (k + 1) / (tf + k (1 - b + b |t| / mean |t|)),   idf = ln(1 + (N - df + ½) / (df + ½))

Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009; k = 1.2 and b = 0.75, as Lucene
has them. Words are those of the model's segmentation, in lower case; signs are omitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

K, B = 1.2, 0.75


def words_of(tokens: Iterable[str]) -> list[str]:
    """The tokens that a text is found by."""
    return [token.lower() for token in tokens if any(map(str.isalnum, token))]


@dataclass(frozen=True)
class InvertedFile:
    """For each word the texts it stands in and how often: places ``starts[w] … starts[w + 1]`` of the postings."""

    words: dict[str, int]
    starts: NDArray[np.int64]  # (V + 1,)
    texts: NDArray[np.int32]  # (postings,)
    counts: NDArray[np.int32]  # (postings,)
    lengths: NDArray[np.int32]  # (n,) words of each text

    def scores(self, query: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The texts that have a word of the query, in rising order, and their scores."""
        n, mean = len(self.lengths), max(float(self.lengths.mean()), 1e-9) if len(self.lengths) else 1.0
        texts, parts = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
        for word in query:
            number = self.words.get(word)
            if number is None:
                continue
            postings = slice(int(self.starts[number]), int(self.starts[number + 1]))
            places, tf = self.texts[postings].astype(np.int64), self.counts[postings].astype(np.float64)
            idf = np.log1p((n - len(places) + 0.5) / (len(places) + 0.5))
            texts.append(places)
            parts.append(idf * tf * (K + 1) / (tf + K * (1 - B + B * self.lengths[places] / mean)))
        numbers, owner = np.unique(np.concatenate(texts), return_inverse=True)
        total = np.bincount(owner, weights=np.concatenate(parts), minlength=len(numbers))
        return numbers, total.astype(np.float64)

    def rows(self) -> csr_array:
        """The same the other way round, ``(n, V)``: how often each word occurs in each text."""
        from scipy.sparse import csc_array

        shape = (len(self.lengths), len(self.words))
        return csc_array((self.counts, self.texts, self.starts), shape=shape).tocsr()


class Counting:
    """Texts as they come, to an inverted file."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}
        self._blocks: list[csr_array] = []
        self._lengths: list[NDArray[np.int32]] = []

    def adopt(self, known: InvertedFile) -> None:
        """Go on from an inverted file."""
        self.words = dict(known.words)
        self._blocks.append(known.rows())
        self._lengths.append(np.asarray(known.lengths))

    def add(self, texts: list[list[str]]) -> None:
        """Count some texts."""
        from scipy.sparse import csr_array

        words = self.words
        columns = [words.setdefault(word, len(words)) for text in texts for word in text]
        sizes = np.array([len(text) for text in texts], dtype=np.int32)
        starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        ones = np.ones(len(columns), dtype=np.int32)
        block = csr_array((ones, np.array(columns, dtype=np.int32), starts), shape=(len(texts), len(words)))
        block.sum_duplicates()
        self._blocks.append(block)
        self._lengths.append(sizes)

    def finished(self) -> InvertedFile:
        """What was counted."""
        from scipy.sparse import csr_array, vstack

        width = len(self.words)
        whole = vstack([csr_array((b.data, b.indices, b.indptr), shape=(b.shape[0], width)) for b in self._blocks])
        turned = whole.tocsc()
        return InvertedFile(
            self.words,
            turned.indptr.astype(np.int64),
            turned.indices.astype(np.int32),
            turned.data.astype(np.int32),
            np.concatenate(self._lengths),
        )
