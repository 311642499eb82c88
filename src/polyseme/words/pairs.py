"""Co-occurrence counts as a sparse matrix that is saved with the model. 共现矩阵

Methods based on counts (``counts``, ``svd``) keep them, so that the counts of more text can be added later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import FormatError, TrainingError, as_given
from polyseme.store.folder import Parts
from polyseme.text.corpus import Corpus
from polyseme.training.run import Run
from polyseme.words.cooccurrence import Cooccurrence, count_pairs
from polyseme.words.sparse import compressed_rows
from polyseme.words.vectors import WordVectors
from polyseme.words.vocabulary_plan import WordPlan

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Pairs(NamedTuple):
    """Co-occurrence counts: word i occurs with the words ``columns[starts[i]:starts[i + 1]]``, all >= i.

    Each pair is stored once for both orders and takes eight bytes. Counts are exact up to 2²⁴ and rounded beyond.
    """

    starts: NDArray[np.int64]  # (V + 1,)
    columns: NDArray[np.int32]  # (P,)
    sums: NDArray[np.float32]  # (P,)


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
    pairs = Pairs(*(parts.tensors.get(name, np.empty(0)) for name in NAMES))
    kinds = [array.dtype.name for array in pairs]
    shapes = [array.shape for array in pairs]
    if kinds != ["int64", "int32", "float32"] or shapes != [(n_words + 1,), (pairs.sums.size,), (pairs.sums.size,)]:
        raise FormatError("the model folder was altered: its counts of pairs do not fit its words or each other")
    return pairs


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
