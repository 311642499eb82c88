"""Sparse word vectors: a matrix that is stored, searched and saved without ever being made dense.

``SparseRows`` takes the place of a dense (V, D) matrix. One row of it is a plain vector; several rows are sparse again;
products with queries are dense, since there are few queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints
from polyseme.errors import altered_model
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors, vocabulary_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from typing_extensions import Self

NAMES = ("row_starts", "row_columns", "row_values")  # of the arrays in a model folder


class SparseRows:
    """A float32 matrix (V, D) in compressed sparse row format (CSR)."""

    ndim = 2

    def __init__(self, matrix: csr_array) -> None:
        self.matrix = matrix
        self.shape: tuple[int, int] = matrix.shape

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[FloatArray]:
        return (self[row] for row in range(len(self)))

    @overload
    def __getitem__(self, rows: int) -> FloatArray: ...
    @overload
    def __getitem__(self, rows: slice | Ints) -> SparseRows: ...
    def __getitem__(self, rows: int | slice | Ints) -> FloatArray | SparseRows:
        """One row as a plain vector, (D,), or several rows as ``SparseRows``."""
        if isinstance(rows, (int, np.integer)):
            if not -len(self) <= rows < len(self):
                raise IndexError(f"row {rows} of {len(self)}")
            row = int(rows) % len(self)
            values: FloatArray = np.zeros(self.shape[1], dtype=np.float32)
            part = slice(self.matrix.indptr[row], self.matrix.indptr[row + 1])
            values[self.matrix.indices[part]] = self.matrix.data[part]
            return values
        return SparseRows(self.matrix[rows])

    def dense(self) -> FloatArray:
        """The rows as a NumPy array, with all zeros; use it for a few rows only."""
        return np.asarray(self.matrix.toarray(), dtype=np.float32)

    def products(self, others: FloatArray | SparseRows) -> FloatArray:
        """(n, D) × (m, D) -> (n, m), dense."""
        if isinstance(others, SparseRows):
            return np.asarray((self.matrix @ others.matrix.T).toarray(), dtype=np.float32)
        return np.asarray(self.matrix @ others.T, dtype=np.float32)

    def reduced(self, dim: int) -> FloatArray:
        """The rows in about their ``dim`` strongest directions (randomised SVD), (V, dim), dense: for maps."""
        basis: FloatArray = np.random.default_rng(0).standard_normal((self.shape[1], dim), dtype=np.float32)
        for _ in range(4):
            left, _ = np.linalg.qr(self.matrix @ basis)
            basis, _ = np.linalg.qr(self.matrix.T @ left)
        return np.asarray(self.matrix @ basis, dtype=np.float32)

    def squares(self) -> FloatArray:
        """The squared length of each row, (V,)."""
        return np.asarray(self.matrix.multiply(self.matrix).sum(axis=1), dtype=np.float32).ravel()


class SparseVectors(WordVectors):
    """Word vectors whose matrix is ``SparseRows``."""

    def __init__(self, vocabulary: Vocabulary, vectors: SparseRows, *, options: Any, about: About) -> None:
        super().__init__(vocabulary, vectors, options=options, about=about)

    def parts(self) -> Parts:
        """The arrays of the CSR matrix, ``counts`` and the vocabulary."""
        assert isinstance(self.vectors, SparseRows)
        matrix = self.vectors.matrix
        arrays = (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), matrix.data)
        tensors: dict[str, NDArray[Any]] = {**dict(zip(NAMES, arrays, strict=True)), "counts": self.vocabulary.counts}
        return Parts(tensors, {"vocab": self.index_to_key})

    @classmethod
    def from_parts(cls, options: Any, parts: Parts, about: About) -> Self:
        vocabulary = vocabulary_of(parts)
        n = len(vocabulary)
        return cls(vocabulary, SparseRows(compressed_rows(parts, NAMES, n, n)), options=options, about=about)


def compressed_rows(parts: Parts, names: tuple[str, str, str], rows: int, columns: int) -> csr_array:
    """The CSR matrix (rows, columns) whose starts, columns and values are stored in a model folder under ``names``."""
    from scipy.sparse import csr_array

    starts, places = parts.tensor(names[0], (rows + 1,), np.int64), parts.tensor(names[1], (None,), np.int32)
    values = parts.tensor(names[2], places.shape, np.float32)
    try:
        matrix = csr_array((values, places, starts), shape=(rows, columns))
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise altered_model(f"its sparse matrix is wrong ({error})") from None
    return matrix
