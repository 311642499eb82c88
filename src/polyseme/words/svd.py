"""Counted vectors 共现矩阵分解: co-occurrence counts → positive pointwise mutual information → truncated SVD.

Levy, Goldberg and Dagan, Improving Distributional Similarity with Lessons Learned from Word Embeddings, 2015.

    M_ij = max(0, log(X_ij · Σ_k X_·k^s / (X_i· · X_·j^s)) - log shift),    M ≈ U Σ Vᵀ,    vectors = U Σ^exponent

X_ij counts how often j stands within the window of i, and s smooths the distribution of contexts.

What differs from the paper: the singular vectors come from subspace iteration on a random start (Halko, Martinsson and
Tropp 2011), which is reproducible from its seed and can be interrupted between two steps. The counts stay with the
model, so that the counts of more text can be added and the sum factored anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import FormatError, TrainingError
from polyseme.nouns import FloatArray
from polyseme.options import option
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.checkpoint import Snapshot
from polyseme.training.run import Run, Trainable
from polyseme.words.cooccurrence import Cooccurrence, count_pairs
from polyseme.words.further import WordPlan, older_vectors, plan_words
from polyseme.words.vectors import WordVectors, matrix_of, vocabulary_of

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
    exponent: float = option(0.5, "power of the singular values that a vector is weighted with", minimum=0, maximum=2)
    iterations: int = option(5, "steps of subspace iteration", minimum=1)
    min_count: int = option(5, "words seen fewer times are left out", minimum=1)
    max_size: int | None = option(None, "most words in the vocabulary; unless given, there is no limit", minimum=2)
    memory: int = option(
        1024, "megabytes for counting; what does not fit is merged on disk", minimum=1, changes="speed"
    )
    threads: int = option(
        1, "threads of the linear algebra; more pay on an idle machine only", minimum=1, maximum=1024, changes="speed"
    )
    seed: int = option(1, "the same seed gives the same bits", minimum=0)


class Pairs(NamedTuple):
    """Which words stand near which: word i with ``columns[starts[i]:starts[i + 1]]``, none of them smaller than i.

    Each pair stands once, for both its orders, and takes eight bytes. Counts are exact up to 2²⁴, and rounded beyond.
    """

    starts: NDArray[np.int64]  # (V + 1,)
    columns: NDArray[np.int32]  # (P,)
    sums: NDArray[np.float32]  # (P,)


class Svd(Trainable, WordVectors):
    """Vectors (V, D); columns beyond the rank of a small matrix are zero. ``pairs`` are the counts behind them."""

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
        older = _older_pairs(start, options)
        plan = plan_words(corpus, options.min_count, options.max_size, start)
        cells = count_pairs(
            corpus,
            plan,
            window=options.window,
            symmetric=True,
            harmonic=options.weights == "harmonic",
            memory=options.memory,
            progress=run.progress,
        )
        half = half_matrix(cells)
        if older is not None:
            half = half + _moved(older, plan)
            half.sort_indices()
        matrix = ppmi(symmetric_matrix(half), options.smoothing, options.shift)
        if not matrix.nnz:
            raise TrainingError(
                "no pair of words stands together more often than by chance: give more text, or lower shift"
            )
        vectors = _factors(matrix, options, run)
        pairs = Pairs(half.indptr.astype(np.int64), half.indices.astype(np.int32), half.data)
        about = About(corpus.segmentation, corpus.facts, run.curve)
        return cls(plan.vocabulary, vectors, options=options, about=about, pairs=pairs)

    def parts(self) -> Parts:
        parts = super().parts()
        pairs = self.pairs._asdict() if self.pairs else {}
        return Parts({**parts.tensors, **{f"pair_{name}": array for name, array in pairs.items()}}, parts.tables)

    @classmethod
    def from_parts(cls, options: SvdOptions, parts: Parts, about: About) -> Self:
        vocabulary = vocabulary_of(parts)
        vectors = matrix_of(parts, "vectors", len(vocabulary))
        return cls(vocabulary, vectors, options=options, about=about, pairs=_pairs_of(parts, len(vocabulary)))


def _pairs_of(parts: Parts, n_words: int) -> Pairs | None:
    """The counts of a model folder, not read yet: only their shapes are checked."""
    if not any(f"pair_{name}" in parts.tensors for name in Pairs._fields):
        return None
    pairs = Pairs(*(parts.tensors.get(f"pair_{name}", np.empty(0)) for name in Pairs._fields))
    kinds = [array.dtype.name for array in pairs]
    shapes = [array.shape for array in pairs]
    if kinds != ["int64", "int32", "float32"] or shapes != [(n_words + 1,), (pairs.sums.size,), (pairs.sums.size,)]:
        raise FormatError("the model folder was altered: its counts of pairs do not fit its words or each other")
    return pairs


def _older_pairs(start: WordVectors | None, options: SvdOptions) -> csr_array | None:
    """The counts of the model to train further, (V, V), checked: of the same kind, and whole."""
    from scipy.sparse import csr_array

    if start is None:
        return None
    if not isinstance(start, Svd) or start.pairs is None:
        raise TrainingError(
            "the model to train further keeps no counts of pairs to add to: give both texts (or a corpus of both) and "
            "train svd anew"
        )
    for name in ("window", "weights"):
        was = getattr(start.options, name)
        if getattr(options, name) != was:
            raise TrainingError(
                f"the model to train further was counted with {name}={was}: give {name}={was}, "
                f"not {getattr(options, name)}"
            )
    starts, columns, sums = start.pairs
    try:
        half = csr_array((sums, columns, starts), shape=(len(start), len(start)))
        half.check_format(full_check=True)
    except ValueError as error:
        raise FormatError(f"the model to train further was altered: its counts of pairs are wrong ({error})") from None
    if not (np.isfinite(sums).all() and (sums > 0).all()):
        raise FormatError("the model to train further was altered: a count of its pairs is not a positive number")
    return half


def _moved(half: csr_array, plan: WordPlan) -> csr_array:
    """The counts of an older model where its words stand now, the smaller word of a pair first again."""
    from scipy.sparse import csr_array

    kept = np.flatnonzero(plan.old_rows >= 0)
    places = np.empty(half.shape[0], dtype=np.int32)
    places[plan.old_rows[kept]] = kept
    cells, n = half.tocoo(), len(plan.vocabulary)
    one, other = places[cells.row], places[cells.col]
    return csr_array((cells.data, (np.minimum(one, other), np.maximum(one, other))), shape=(n, n))


def half_matrix(cells: Cooccurrence) -> csr_array:
    """The counts as a sparse matrix, each pair in one order: the smaller word is the row."""
    from scipy.sparse import csr_array

    half = csr_array((np.asarray(cells.sums), cells.indices()), shape=(cells.n_words, cells.n_words))
    half.sort_indices()
    return half


def symmetric_matrix(half: csr_array) -> csr_array:
    """Each pair in both orders, float64."""
    from scipy.sparse import csr_array

    exact = half.astype(np.float64)
    both = exact + exact.T
    both.setdiag(exact.diagonal())  # a word with itself was counted for both orders
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
