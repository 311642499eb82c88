"""Reduced counts 共现矩阵分解: the matrix of ``counts``, reduced to a few hundred dimensions by truncated SVD or PCA.

Levy, Goldberg and Dagan, Improving Distributional Similarity with Lessons Learned from Word Embeddings, 2015.

    M ≈ U Σ Vᵀ,    vectors = U Σ^exponent

M is one of the matrices of ``counts``: PPMI as in the paper, raw counts or their logarithms. With ``centre`` the mean
of each column is subtracted first, which makes the vectors principal components.

What differs from the paper: the singular vectors come from subspace iteration from a random start (Halko, Martinsson
and Tropp 2011), which is reproducible from its seed and can be interrupted between two steps. The counts are saved with
the model, so that those of more text can be added and the sum factored again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from polyseme.arrays import FloatArray
from polyseme.options import option
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.checkpoint import Snapshot
from polyseme.training.run import Run, Trainable
from polyseme.words.counts import (
    CountedOptions,
    Pairs,
    cell_values,
    counted,
    pairs_of_matrix,
    pairs_of_parts,
    pairs_to_tensors,
    symmetric_matrix,
)
from polyseme.words.vectors import WordVectors, matrix_of, vocabulary_of
from polyseme.words.vocabulary_plan import older_vectors, plan_words

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from typing_extensions import Self

SPARE = 10  # extra directions beyond dim, which make the last of the dim directions more accurate


@dataclass(frozen=True)
class SvdOptions(CountedOptions):
    """Options of reduced counts."""

    dim: int = option(100, "dimension of a vector", minimum=1)
    centre: bool = option(False, "subtract each column's mean first (principal component analysis)")
    exponent: float = option(0.5, "exponent of the singular values", minimum=0, maximum=2)
    iterations: int = option(5, "subspace iterations", minimum=1)
    threads: int = option(
        1, "threads of the linear algebra; more only help on an idle machine", minimum=1, maximum=1024, changes="speed"
    )
    seed: int = option(1, "random seed", minimum=0)


class Svd(Trainable, WordVectors):
    """Vectors (V, D); columns beyond the rank of a small matrix are zero. ``pairs`` are the raw counts."""

    method: ClassVar[str] = "svd"
    Options: ClassVar[type] = SvdOptions

    def __init__(
        self,
        vocabulary: Vocabulary,
        vectors: FloatArray,
        *,
        options: SvdOptions,
        about: About,
        pairs: Pairs | None,
    ) -> None:
        super().__init__(vocabulary, vectors, options=options, about=about)
        self.pairs = pairs  # None: the folder was written without them

    @classmethod
    def train(cls, corpus: Corpus, options: SvdOptions, run: Run) -> Self:
        start = older_vectors(run.start, options.dim)
        plan = plan_words(corpus, options.min_count, options.max_size, start)
        half = counted(corpus, plan, options, start, run)
        matrix = cell_values(symmetric_matrix(half), options)
        vectors = _factors(matrix, options, run)
        about = About(corpus.segmentation, corpus.facts, run.curve)
        return cls(plan.vocabulary, vectors, options=options, about=about, pairs=pairs_of_matrix(half))

    def parts(self) -> Parts:
        parts = super().parts()
        return Parts({**parts.tensors, **pairs_to_tensors(self.pairs)}, parts.tables)

    @classmethod
    def from_parts(cls, options: SvdOptions, parts: Parts, about: About) -> Self:
        vocabulary = vocabulary_of(parts)
        vectors = matrix_of(parts, "vectors", len(vocabulary))
        return cls(vocabulary, vectors, options=options, about=about, pairs=pairs_of_parts(parts, len(vocabulary)))


def _factors(matrix: csr_array, options: SvdOptions, run: Run) -> FloatArray:
    """U Σ^exponent, (V, D), by subspace iteration; the loss is the fraction of ‖M‖² that the factors do not explain."""
    from threadpoolctl import threadpool_limits

    size = min(options.dim + SPARE, *matrix.shape)
    snapshot = run.resumed()
    done = int(snapshot.state["iteration"]) if snapshot else 0
    basis: Any = np.random.default_rng(options.seed).standard_normal((matrix.shape[1], size), dtype=np.float32)
    if snapshot:
        snapshot.fill(basis=basis)
    means = np.asarray(matrix.mean(axis=0), dtype=np.float32) if options.centre else None  # (V,)
    whole = float(np.dot(matrix.data, matrix.data.astype(np.float64)))
    if means is not None:
        whole -= matrix.shape[0] * float(np.square(means, dtype=np.float64).sum())
    with threadpool_limits(options.threads):
        for iteration in range(done, options.iterations):
            left, _ = np.linalg.qr(_times(matrix, means, basis))
            projected = _transposed_times(matrix, means, left)
            basis, _ = np.linalg.qr(projected)
            loss = max(0.0, 1 - float(np.square(projected, dtype=np.float64).sum()) / whole)
            run.curve.append({"iteration": iteration + 1, "loss": loss})
            run.progress("training", iteration + 1, options.iterations, loss=loss)
            run.save(Snapshot({"basis": basis}, {"iteration": iteration + 1}))
        left, values, _ = np.linalg.svd(_times(matrix, means, basis), full_matrices=False)
    dim = min(options.dim, size)
    signs = np.sign(left[np.abs(left[:, :dim]).argmax(axis=0), np.arange(dim)])  # a factor's sign is arbitrary: fix it
    vectors = np.zeros((matrix.shape[0], options.dim), dtype=np.float32)
    vectors[:, :dim] = left[:, :dim] * (values[:dim] ** options.exponent) * signs
    return vectors


def _times(matrix: csr_array, means: FloatArray | None, right: FloatArray) -> FloatArray:
    """(M - 1 meansᵀ) right, without making M dense: (V, V) × (V, k) -> (V, k)."""
    product: FloatArray = matrix @ right
    return product if means is None else product - means @ right


def _transposed_times(matrix: csr_array, means: FloatArray | None, left: FloatArray) -> FloatArray:
    """(M - 1 meansᵀ)ᵀ left."""
    product: FloatArray = matrix.T @ left
    return product if means is None else product - means[:, None] * left.sum(axis=0)
