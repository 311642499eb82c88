"""Which vector length suits a corpus: the loss of pairwise inner products (PIP) by dimension. 词向量维度的选择

Yin and Shen, On the Dimensionality of Word Embedding, 2018.

    PIP(E) = E Eᵀ,    loss_k = ‖E Eᵀ - Ê_k Ê_kᵀ‖,    E = U Λ^α,    Ê_k: the first k columns of the same of M + noise

Few dimensions leave out signal, many let noise in. The signal's singular values are those of the method's matrix M less
what noise adds to them, 2σ√n; σ is half the standard deviation of the difference of M made from two random halves of
the text; the loss is measured on a matrix with that spectrum and fresh noise. M is that of the frequent words:

    svd       PPMI as factored by svd
    word2vec  PMI - log k, which skip-gram with k negatives factors implicitly (Levy and Goldberg 2014); 0 where unseen
    glove     log(1 + count)

What differs from the authors' program: since Gaussian noise looks the same from every side, the signal is taken as a
diagonal matrix, which saves two of three decompositions; halves are random stretches of the text, not its two ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyseme.api import options_of, train
from polyseme.errors import OptionError, TrainingError
from polyseme.evaluate.kinds import evaluate_file
from polyseme.nouns import Progress, silent
from polyseme.options import make_options
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.chunks import chunk_bounds
from polyseme.words.cooccurrence import count_pairs
from polyseme.words.counts import mutual_information, ppmi
from polyseme.words.further import plan_words
from polyseme.words.pairs import half_matrix, symmetric_matrix
from polyseme.words.vectors import WordVectors

if TYPE_CHECKING:
    from scipy.sparse import csr_array

METHODS = ("svd", "word2vec", "glove")
SHARES = (5, 10, 20)  # per cent above the least loss
STRETCH = 1000  # words that go to the same half
TRIED = (10, 20, 50, 100, 200, 300, 500, 1000)  # dimensions, where files are to be evaluated
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class DimensionReport:
    """The PIP loss of each dimension, and what follows from it."""

    method: str
    words: int  # rows of the matrix
    noise: float  # σ
    rank: int  # of the signal
    exponent: float  # α
    losses: list[float]  # of dimensions 1, 2, …

    @property
    def best(self) -> int:
        """The dimension of the least loss."""
        return int(np.argmin(self.losses)) + 1

    @property
    def ranges(self) -> dict[int, tuple[int, int]]:
        """per cent → the least and greatest dimension around the best one whose loss is at most so much greater."""
        found = {}
        for share in SHARES:
            good = np.array(self.losses) <= (1 + share / 100) * min(self.losses)
            below, above = good[: self.best][::-1], good[self.best - 1 :]
            low = self.best - (len(below) if below.all() else int(np.argmin(below))) + 1
            high = self.best + (len(above) if above.all() else int(np.argmin(above))) - 1
            found[share] = (low, high)
        return found

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        within = {f"{share} %": list(ends) for share, ends in self.ranges.items()}
        return {**vars(self), "best": self.best, "within": within}


def choose_dimension(
    corpus: Corpus,
    method: str = "svd",
    *,
    max_size: int = 3000,
    exponent: float = 0.5,
    seed: int = 1,
    memory: int = 1024,
    progress: Progress = silent,
    **options: Any,
) -> DimensionReport:
    """The PIP loss by dimension for the ``max_size`` most frequent words; ``options`` are those of the method."""
    if method not in METHODS:
        raise OptionError(f"dimension is found for {', '.join(METHODS)}; not {method!r}")
    settings: Any = make_options(options_of(method), options)
    plan = plan_words(corpus, settings.min_count, None, None)
    n = min(max_size, len(plan.vocabulary))
    bounds = chunk_bounds(corpus.sentence_offsets, STRETCH)
    first = np.random.default_rng(seed).permutation(len(bounds) - 1) % 2 == 0

    def counts(kept: NDArray[np.bool_]) -> csr_array:
        stretches = np.stack([bounds[:-1], bounds[1:]], axis=1)[kept]
        cells = count_pairs(
            corpus, plan, window=settings.window, symmetric=True, harmonic=False, memory=memory, progress=progress,
            stretches=stretches,
        )  # fmt: skip
        return symmetric_matrix(half_matrix(cells))

    if first.all() or not first.any():
        raise TrainingError("the corpus is too short to be cut into two halves: give more text")
    halves = counts(first), counts(~first)
    progress("decomposing", 0, None)
    observed = _matrix(halves[0] + halves[1], method, n, settings)
    difference = _matrix(halves[0], method, n, settings) - _matrix(halves[1], method, n, settings)
    noise = float(difference.std() / 2)
    values = np.linalg.svd(observed, compute_uv=False)
    signal = np.maximum(0, values - 2 * noise * np.sqrt(n))
    signal = signal[signal > 0]
    if not len(signal):
        raise TrainingError("noise outweighs every direction of the counts: give more text, or a smaller max_size")
    losses = pip_losses(signal, noise, n, exponent, seed)
    progress("decomposing", 1, 1)
    return DimensionReport(method, n, noise, len(signal), exponent, losses.tolist())


def _matrix(counts: csr_array, method: str, n: int, settings: Any) -> Matrix:
    """The method's matrix of the n most frequent words, (n, n)."""
    from scipy.sparse import csr_array

    if method == "svd":
        matrix = ppmi(counts, settings.smoothing, settings.shift)
    elif method == "word2vec":
        cells = counts.tocoo()
        shifted = mutual_information(counts, 1.0) - np.log(settings.negative)
        matrix = csr_array((shifted, (cells.row, cells.col)), shape=counts.shape)
    else:
        matrix = counts.log1p()
    return np.asarray(matrix[:n, :n].toarray(), dtype=np.float64)


def pip_losses(signal: Matrix, noise: float, n: int, exponent: float, seed: int = 1) -> Matrix:
    """loss_1 … loss_n for a signal of these falling singular values, n × n, under Gaussian noise.

    loss_k² = loss_{k-1}² + λ̃_k^4α - 2 ‖ê_kᵀ E‖², ê_k being the k-th column of Ê, and loss_0² = Σ λ^4α.
    """
    noisy = np.random.default_rng(seed).standard_normal((n, n)) * noise
    noisy[np.arange(len(signal)), np.arange(len(signal))] += signal
    squares, directions = np.linalg.eigh(noisy @ noisy.T)  # rising
    values, directions = np.sqrt(np.maximum(squares[::-1], 0)), directions[: len(signal), ::-1]
    overlap = values ** (2 * exponent) * (signal[:, None] ** (2 * exponent) * directions**2).sum(axis=0)
    steps = np.cumsum(values ** (4 * exponent) - 2 * overlap)
    return np.asarray(np.sqrt(np.maximum((signal ** (4 * exponent)).sum() + steps, 0)))


def scores_by_dimension(
    corpus: Corpus,
    method: str,
    dimensions: Sequence[int],
    files: Sequence[str | Path],
    progress: Progress = silent,
    **options: Any,
) -> list[dict[str, Any]]:
    """What vectors of each length reach on similarity and analogy files: the dimension, and a score for each file."""
    rows = []
    wanted = sorted(set(dimensions))
    whole = train("svd", corpus, dim=wanted[-1], progress=progress, **options) if method == "svd" else None
    for dim in wanted:
        if whole is not None:  # the first columns of many are what fewer would be
            model = WordVectors(Vocabulary(whole.index_to_key, whole.vocabulary.counts), whole.vectors[:, :dim])
        else:
            model = train(method, corpus, dim=dim, progress=progress, **options)
        found = {}
        for file in files:
            report = evaluate_file(model, file)
            found[report.file] = report.whole["accuracy" if report.kind == "analogy" else "spearman"]
        rows.append({"dim": dim, **found})
    return rows
