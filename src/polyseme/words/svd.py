"""Counted vectors 共现矩阵分解: co-occurrence counts → positive pointwise mutual information → truncated SVD.

Levy, Goldberg and Dagan, Improving Distributional Similarity with Lessons Learned from Word Embeddings, 2015.

    M_ij = max(0, log(X_ij · Σ_k X_·k^s / (X_i· · X_·j^s)) - log shift),    M ≈ U Σ Vᵀ,    vectors = U Σ^exponent

X_ij counts how often j stands within the window of i, and s smooths the distribution of contexts.

What differs from the paper: the singular vectors come from subspace iteration on a random start (Halko, Martinsson and
Tropp 2011), which is reproducible from its seed and can be interrupted between two steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from polyseme.errors import TrainingError
from polyseme.options import option
from polyseme.store.checkpoint import Snapshot
from polyseme.store.model import About, Run
from polyseme.text.corpus import Corpus
from polyseme.types import FloatArray
from polyseme.words.cooccurrence import Cooccurrence, count
from polyseme.words.growth import plan_words
from polyseme.words.vectors import WordVectors

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from typing_extensions import Self

SPARE = 10  # directions beyond dim that make the last ones wanted more exact


@dataclass(frozen=True)
class SvdOptions:
    """Options of counted vectors."""

    dim: int = option(100, "length of a vector", minimum=1)
    window: int = option(2, "words on each side that count as near", minimum=1, maximum=1000)
    weights: str = option("flat", "what a pair counts: 1, or 1/distance", choices=("flat", "harmonic"))
    smoothing: float = option(0.75, "exponent that smooths the distribution of contexts", minimum=0, maximum=1)
    shift: float = option(1.0, "log of this is taken from each cell before it is cut at zero", minimum=1e-9)
    exponent: float = option(0.5, "power of the singular values that a vector is weighted with", minimum=0)
    iterations: int = option(5, "steps of subspace iteration", minimum=1)
    min_count: int = option(5, "words seen fewer times are left out", minimum=1)
    max_size: int | None = option(None, "most words in the vocabulary; unless given, there is no limit", minimum=2)
    memory: int = option(1024, "megabytes for counting; what does not fit is merged on disk", minimum=1)
    threads: int = option(1, "threads of the linear algebra; more pay on an idle machine only", minimum=1, maximum=1024)
    seed: int = option(1, "the same seed gives the same bits", minimum=0)


class Svd(WordVectors):
    """Vectors (V, D); columns beyond the rank of a small matrix are zero."""

    method: ClassVar[str] = "svd"
    Options: ClassVar[type] = SvdOptions

    @classmethod
    def train(cls, corpus: Corpus, options: SvdOptions, run: Run) -> Self:
        if run.start is not None:
            raise TrainingError(
                "counted vectors are made of all text at once: give both texts (or a corpus of both) and train anew"
            )
        plot = plan_words(corpus, options.min_count, options.max_size, None)
        cells = count(
            corpus,
            plot,
            window=options.window,
            symmetric=True,
            harmonic=options.weights == "harmonic",
            memory=options.memory,
            progress=run.progress,
        )
        matrix = ppmi(symmetric_matrix(cells), options.smoothing, options.shift)
        if not matrix.nnz:
            raise TrainingError(
                "no pair of words stands together more often than by chance: give more text, or lower shift"
            )
        vectors = _factors(matrix, options, run)
        return cls(plot.vocabulary, vectors, options=options, about=About(corpus.segmentation, corpus.facts, run.curve))


def symmetric_matrix(cells: Cooccurrence) -> csr_array:
    """The counts as a sparse matrix, each pair in both orders."""
    from scipy.sparse import csr_array

    rows, columns = cells.indices()
    half = csr_array((np.asarray(cells.sums, dtype=np.float64), (rows, columns)), shape=(cells.n_words, cells.n_words))
    both = half + half.T
    both.setdiag(half.diagonal())  # a word with itself was counted for both orders
    return csr_array(both)


def ppmi(counts: csr_array, smoothing: float, shift: float) -> csr_array:
    """Positive pointwise mutual information, (V, V) float32."""
    from scipy.sparse import csr_array

    rows = np.asarray(counts.sum(axis=1), dtype=np.float64).ravel()
    columns = np.asarray(counts.sum(axis=0), dtype=np.float64).ravel() ** smoothing
    cells = counts.tocoo()
    with np.errstate(divide="ignore"):
        values = (
            np.log(cells.data) + np.log(columns.sum() / shift) - np.log(rows[cells.row]) - np.log(columns[cells.col])
        )
    kept = values > 0
    return csr_array((values[kept].astype(np.float32), (cells.row[kept], cells.col[kept])), shape=counts.shape)


def _factors(matrix: csr_array, options: SvdOptions, run: Run) -> FloatArray:
    """U Σ^exponent, (V, D), by subspace iteration; the loss is the share of ‖M‖² that the factors leave out."""
    from threadpoolctl import threadpool_limits

    size = min(options.dim + SPARE, *matrix.shape)
    snapshot = run.resumed()
    done = int(snapshot.state["iteration"]) if snapshot else 0
    basis: Any = np.random.default_rng(options.seed).standard_normal((matrix.shape[1], size), dtype=np.float32)
    if snapshot:
        basis = np.array(snapshot.tensors["basis"])
    whole = float(np.dot(matrix.data, matrix.data.astype(np.float64)))
    with threadpool_limits(options.threads):
        for iteration in range(done, options.iterations):
            left, _ = np.linalg.qr(matrix @ basis)
            projected = matrix.T @ left
            basis, _ = np.linalg.qr(projected)
            loss = max(0.0, 1 - float(np.square(projected, dtype=np.float64).sum()) / whole)
            run.curve.append({"iteration": iteration + 1, "loss": loss})
            run.progress("training", iteration + 1, options.iterations, loss=loss)
            run.save(Snapshot({"basis": basis}, {"iteration": iteration + 1}))
        left, values, _ = np.linalg.svd(matrix @ basis, full_matrices=False)
    dim = min(options.dim, size)
    signs = np.sign(left[np.abs(left[:, :dim]).argmax(axis=0), np.arange(dim)])  # a factor's sign is arbitrary: fix it
    vectors = np.zeros((matrix.shape[0], options.dim), dtype=np.float32)
    vectors[:, :dim] = left[:, :dim] * (values[:dim] ** options.exponent) * signs
    return vectors
