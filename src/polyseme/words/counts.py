"""Co-occurrence counts 共现向量: a word's vector counts how often each other word occurs near it. Sparse, V columns.

Church and Hanks, Word Association Norms, Mutual Information, and Lexicography, 1990 (PMI); Lund and Burgess, Producing
high-dimensional semantic spaces from lexical co-occurrence, 1996 (raw rows).

    raw    M_ij = X_ij
    log    M_ij = log(1 + X_ij)
    ppmi   M_ij = max(0, log(X_ij · Σ_k X_·k^s / (X_i· · X_·j^s)) - log shift)

X_ij counts how often j occurs within the window of i, in either order, and s smooths the distribution of contexts. The
numbers are interpretable: every column is a word. ``svd`` is the same matrix in a few hundred dimensions.

Co-occurrence counts as a sparse matrix that is saved with the model. 共现矩阵

Methods based on counts (``counts``, ``svd``) keep them, so that the counts of more text can be added later.

One-hot vectors 独热向量: word i is the vector whose i-th number is 1 and all others 0.

    e_i · e_j = 1 if i = j else 0

No two words are similar: every cosine is 0 and every distance √2. One-hot vectors are the baseline for the other
methods, and their starting point: a matrix of word vectors is a linear map of these. Salton, Wong and Yang, A Vector
Space Model for Automatic Indexing, 1975, gave each term its own dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints, best_places
from polyseme.errors import FormatError, TrainingError, as_given
from polyseme.options import option
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.run import Run, Trainable
from polyseme.words.cooccurrence import Cooccurrence, count_pairs
from polyseme.words.sparse import SparseRows, SparseVectors, compressed_rows
from polyseme.words.vectors import WordVectors
from polyseme.words.vocabulary_plan import WordPlan, older_words, plan_words

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from typing_extensions import Self


class Pairs(NamedTuple):
    """Co-occurrence counts: word i occurs with the words ``columns[starts[i]:starts[i + 1]]``, all >= i.

    Each pair is stored once for both orders and takes eight bytes. Counts are exact up to 2²⁴ and rounded beyond.
    """

    starts: Ints  # (V + 1,)
    columns: NDArray[np.int32]  # (P,)
    sums: FloatArray  # (P,)


NAMES = ("pair_starts", "pair_columns", "pair_sums")  # of the arrays in a model folder


class CountingOptions(Protocol):
    """The options that determine how pairs are counted."""

    @property
    def window(self) -> int: ...
    @property
    def weights(self) -> str: ...
    @property
    def memory(self) -> int: ...


def counted(corpus: Corpus, plan: WordPlan, options: CountingOptions, start: WordVectors | None, run: Run) -> csr_array:
    """The counts of a corpus, plus those of the model to train further, (V, V), each pair in one order."""
    older = None if start is None else _older_pairs(start, options)
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
    return half


def half_matrix(cells: Cooccurrence) -> csr_array:
    """The counts as a sparse matrix, each pair in one order: the word with the lower index is the row."""
    from scipy.sparse import csr_array

    half = csr_array((np.asarray(cells.sums), cells.indices()), shape=(cells.n_words, cells.n_words))
    half.sort_indices()
    return half


def symmetric_matrix(half: csr_array) -> csr_array:
    """The full matrix, with each pair in both orders, float64."""
    from scipy.sparse import csr_array

    exact = half.astype(np.float64)
    both = exact + exact.T
    both.setdiag(exact.diagonal())  # a word with itself was counted for both orders
    both.eliminate_zeros()
    return csr_array(both)


def pairs_of_matrix(half: csr_array) -> Pairs:
    """The counts as a model keeps them."""
    return Pairs(half.indptr.astype(np.int64), half.indices.astype(np.int32), half.data)


def pairs_of_parts(parts: Parts, n_words: int) -> Pairs | None:
    """The counts of a model folder, or None if it has none. Only their shapes are checked; they are not read yet."""
    if not any(name in parts.tensors for name in NAMES):
        return None
    starts, columns = parts.tensor(NAMES[0], (n_words + 1,), np.int64), parts.tensor(NAMES[1], (None,), np.int32)
    return Pairs(starts, columns, parts.tensor(NAMES[2], columns.shape, np.float32))


def pairs_to_tensors(pairs: Pairs | None) -> dict[str, NDArray[Any]]:
    """The arrays to save in a model folder."""
    return {} if pairs is None else dict(zip(NAMES, pairs, strict=True))


def _older_pairs(start: WordVectors, options: CountingOptions) -> csr_array:
    """The counts of the model to train further, (V, V), checked to be valid and counted with the same options."""
    pairs: Pairs | None = getattr(start, "pairs", None)
    if pairs is None:
        raise TrainingError(
            "the model to train further keeps no counts of pairs to add to: give both texts (or a corpus of both) and "
            "train again"
        )
    for name in ("window", "weights"):
        was = getattr(start.options, name)
        if getattr(options, name) != was:
            raise TrainingError(
                f"the model to train further was counted with {name}={was}: give {as_given(name, was)}, "
                f"not {getattr(options, name)}"
            )
    half = compressed_rows(Parts(pairs_to_tensors(pairs)), NAMES, len(start), len(start))
    if not (np.isfinite(pairs.sums).all() and (pairs.sums > 0).all()):
        raise FormatError("the model to train further was altered: a count of its pairs is not a positive number")
    return half


def _moved(half: csr_array, plan: WordPlan) -> csr_array:
    """The counts of an older model with the new indices of its words, the lower index of a pair first again."""
    from scipy.sparse import csr_array

    kept = np.flatnonzero(plan.old_rows >= 0)
    places = np.empty(half.shape[0], dtype=np.int32)
    places[plan.old_rows[kept]] = kept
    cells, n = half.tocoo(), len(plan.vocabulary)
    one, other = places[cells.row], places[cells.col]
    return csr_array((cells.data, (np.minimum(one, other), np.maximum(one, other))), shape=(n, n))


@dataclass(frozen=True)
class CountedOptions:
    """Options that ``counts`` and ``svd`` share."""

    cells: str = option("ppmi", "value of a cell", choices=("ppmi", "log", "raw"))
    window: int = option(2, "window size: context words on each side", minimum=1, maximum=1000)
    weights: str = option("flat", "weight of a pair: 1, or 1/distance", choices=("flat", "harmonic"))
    smoothing: float = option(0.75, "ppmi: exponent that smooths the distribution of contexts", minimum=0, maximum=1)
    shift: float = option(1.0, "ppmi: log of this is subtracted from each cell before clipping at zero", minimum=1e-9)
    min_count: int = option(5, "minimum word count; rarer words are dropped", minimum=1)
    max_size: int | None = option(None, "maximum vocabulary size; default: no limit", minimum=2)
    memory: int = option(
        1024, "megabytes for counting; what does not fit is merged on disk", minimum=1, changes="speed"
    )


@dataclass(frozen=True)
class CountsOptions(CountedOptions):
    """Options of co-occurrence counts."""


class Counts(Trainable, SparseVectors):
    """The sparse matrix (V, V), and the raw counts in ``pairs``, to which those of more text can be added."""

    method: ClassVar[str] = "counts"
    Options: ClassVar[type] = CountsOptions

    def __init__(
        self,
        vocabulary: Vocabulary,
        vectors: SparseRows,
        *,
        options: CountsOptions,
        about: About,
        pairs: Pairs | None = None,
    ) -> None:
        super().__init__(vocabulary, vectors, options=options, about=about)
        self.pairs = pairs

    @classmethod
    def train(cls, corpus: Corpus, options: CountsOptions, run: Run) -> Self:
        start = older_words(run.start)
        plan = plan_words(corpus, options.min_count, options.max_size, start)
        half = counted(corpus, plan, options, start, run)
        rows = SparseRows(cell_values(symmetric_matrix(half), options))
        about = About(corpus.segmentation, corpus.facts, run.curve)
        return cls(plan.vocabulary, rows, options=options, about=about, pairs=pairs_of_matrix(half))

    def associates(self, word: str, topn: int = 10) -> list[tuple[str, float]]:
        """The words that ``word`` occurs near, with the values of their columns, highest first."""
        row = self[word]
        return [(self.index_to_key[place], float(row[place])) for place in best_places(row, topn) if row[place] > 0]

    def parts(self) -> Parts:
        parts = super().parts()
        return Parts({**parts.tensors, **pairs_to_tensors(self.pairs)}, parts.tables)

    @classmethod
    def from_parts(cls, options: CountsOptions, parts: Parts, about: About) -> Self:
        model = super().from_parts(options, parts, about)
        model.pairs = pairs_of_parts(parts, len(model))
        return model


def cell_values(counts: csr_array, options: CountedOptions) -> csr_array:
    """The matrix (V, V), float32, that ``options.cells`` asks for, computed from symmetric counts."""
    if options.cells == "raw":
        return counts.astype(np.float32)
    if options.cells == "log":
        return counts.log1p().astype(np.float32)
    matrix = ppmi(counts, options.smoothing, options.shift)
    if not matrix.nnz:
        raise TrainingError("no pair of words co-occurs more often than by chance: give more text, or lower shift")
    return matrix


def ppmi(counts: csr_array, smoothing: float, shift: float) -> csr_array:
    """Positive pointwise mutual information, (V, V) float32."""
    from scipy.sparse import csr_array

    cells = counts.tocoo()
    values = mutual_information(counts, smoothing) - np.log(shift)
    kept = values > 0
    return csr_array((values[kept].astype(np.float32), (cells.row[kept], cells.col[kept])), shape=counts.shape)


def mutual_information(counts: csr_array, smoothing: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """log(X_ij · Σ_k X_·k^s / (X_i· · X_·j^s)) of each stored cell, in the order of ``counts.tocoo()``."""
    rows = np.asarray(counts.sum(axis=1), dtype=np.float64).ravel()
    columns = np.asarray(counts.sum(axis=0), dtype=np.float64).ravel() ** smoothing
    cells = counts.tocoo()
    with np.errstate(divide="ignore"):
        return np.asarray(
            np.log(cells.data) + np.log(columns.sum()) - np.log(rows[cells.row]) - np.log(columns[cells.col])
        )


@dataclass(frozen=True)
class OneHotOptions:
    """Options of one-hot vectors."""

    min_count: int = option(5, "minimum word count; rarer words are dropped", minimum=1)
    max_size: int | None = option(None, "maximum vocabulary size; default: no limit", minimum=2)


class OneHot(Trainable, SparseVectors):
    """The identity matrix (V, V), sparse."""

    method: ClassVar[str] = "onehot"
    Options: ClassVar[type] = OneHotOptions

    @classmethod
    def train(cls, corpus: Corpus, options: OneHotOptions, run: Run) -> Self:
        from scipy.sparse import eye_array

        plan = plan_words(corpus, options.min_count, options.max_size, older_words(run.start))
        identity = eye_array(len(plan.vocabulary), dtype=np.float32, format="csr")
        about = About(corpus.segmentation, corpus.facts, run.curve)
        return cls(plan.vocabulary, SparseRows(identity), options=options, about=about)
