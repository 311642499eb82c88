"""Co-occurrence counts 共现向量: a word's vector counts how often each other word occurs near it. Sparse, V columns.

Church and Hanks, Word Association Norms, Mutual Information, and Lexicography, 1990 (PMI); Lund and Burgess, Producing
high-dimensional semantic spaces from lexical co-occurrence, 1996 (raw rows).

    raw    M_ij = X_ij
    log    M_ij = log(1 + X_ij)
    ppmi   M_ij = max(0, log(X_ij · Σ_k X_·k^s / (X_i· · X_·j^s)) - log shift)

X_ij counts how often j occurs within the window of i, in either order, and s smooths the distribution of contexts. The
numbers are interpretable: every column is a word. ``svd`` is the same matrix in a few hundred dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from polyseme.errors import TrainingError
from polyseme.interfaces import best_places
from polyseme.options import option
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.run import Run, Trainable
from polyseme.words.pairs import Pairs, counted, pairs_of_matrix, pairs_of_parts, pairs_to_tensors, symmetric_matrix
from polyseme.words.sparse import SparseRows, SparseVectors
from polyseme.words.vocabulary_plan import older_words, plan_words

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from typing_extensions import Self


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
