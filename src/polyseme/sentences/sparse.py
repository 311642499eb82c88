"""Sentence encoders with sparse vectors, as long as the vocabulary."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyseme.interfaces import (
    TEXTS_AT_ONCE,
    FloatArray,
    Sentence,
    SentenceEncoder,
    batched,
    several,
    text_batches,
    unit_rows,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

DENSE_BYTES = 64 << 20  # of a batch that is made dense


class SparseEncoder(SentenceEncoder):
    """An encoder with sparse vectors; ``encode`` returns them dense, ``encode_sparse`` sparse."""

    @abstractmethod
    def sparse_batch(self, texts: list[Sentence]) -> csr_array:
        """Vectors of some texts, ``(n, dim)`` float32, as a CSR matrix."""

    def encode_batch(self, texts: list[Sentence]) -> FloatArray:
        """Vectors of some texts, ``(n, dim)``."""
        return np.asarray(self.sparse_batch(texts).toarray(), dtype=np.float32)

    def encode_sparse(self, texts: Iterable[Sentence]) -> csr_array:
        """Vectors of the texts, ``(n, dim)``, as a CSR matrix."""
        from scipy.sparse import csr_array, vstack

        rows = [self.sparse_batch(batch) for batch in text_batches(several(texts))]
        whole: csr_array = vstack([csr_array((0, self.dim), dtype=np.float32), *rows], format="csr")
        return whole

    def stream(self, texts: Iterable[Sentence]) -> Iterator[FloatArray]:
        """The vectors one by one, also for an endless stream of texts."""
        size = max(1, min(TEXTS_AT_ONCE, DENSE_BYTES // (4 * self.dim)))
        return (vector for batch in batched(several(texts), size) for vector in self.encode_batch(batch))

    def transform(self, texts: Iterable[Sentence]) -> csr_array:
        """``encode_sparse``, under scikit-learn's name."""
        return self.encode_sparse(texts)

    def similarity(self, a: Iterable[Sentence] | FloatArray, b: Iterable[Sentence] | FloatArray) -> FloatArray:
        """Cosines of every text of ``a`` with every text of ``b``, ``(len(a), len(b))``; either may be vectors."""
        if any(hasattr(given, "shape") for given in (a, b)):
            return super().similarity(a, b)
        return cosines(unit_vectors(self, a), unit_vectors(self, b))


def unit_sparse(rows: csr_array) -> csr_array:
    """The rows scaled to length one; a zero row stays zero."""
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1))).ravel()
    scaled = rows.copy()
    scaled.data = (scaled.data / np.repeat(np.where(norms > 0, norms, 1), np.diff(scaled.indptr))).astype(np.float32)
    return scaled


def unit_vectors(encoder: SentenceEncoder, texts: Iterable[Sentence]) -> FloatArray | csr_array:
    """Vectors of length one, ``(n, dim)``, as a CSR matrix if the encoder is sparse."""
    if isinstance(encoder, SparseEncoder):
        return unit_sparse(encoder.encode_sparse(texts))
    return unit_rows(encoder.encode(texts))


def cosines(left: FloatArray | csr_array, right: FloatArray | csr_array) -> FloatArray:
    """The cosine of every row of ``left`` with every row of ``right``, both of length one: ``(n, m)``."""
    found = left @ right.T
    return np.asarray(found if isinstance(found, np.ndarray) else found.toarray(), dtype=np.float32)


def paired_cosines(left: Any, right: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
    """The cosine of each row of ``left`` with the same row of ``right``, ``(n,)``, and whether neither row is zero.

    Both are of length one, and dense or CSR matrices alike.
    """
    products = (left * right if isinstance(left, np.ndarray) else left.multiply(right)).sum(axis=1)
    filled = np.logical_and(*(np.asarray(abs(rows).sum(axis=1)).ravel() > 0 for rows in (left, right)))
    return np.asarray(products, dtype=np.float32).ravel(), filled
