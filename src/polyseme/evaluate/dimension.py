"""Which vector length suits a corpus: the loss of pairwise inner products (PIP) by dimension. 词向量维度的选择

Yin and Shen, On the Dimensionality of Word Embedding, 2018.

    PIP(E) = E Eᵀ,    loss_k = ‖E Eᵀ - Ê_k Ê_kᵀ‖,    E = U Λ^α,    Ê_k: the first k columns of the same of M + noise

Few dimensions omit signal, many let noise in. M is the method's matrix of the frequent words:

    svd       PPMI as factored by svd
    word2vec  PMI - log k, which skip-gram with k negatives factors implicitly (Levy and Goldberg 2014); 0 where unseen
    glove     log(1 + count)

The noise is half the difference of M made from two random halves of the text; z are its singular values, y those of M.
A direction of the signal is seen where y is above all z, and what it was before the noise follows from random matrix
theory (Benaych-Georges and Nadakuditi, The singular values and vectors of low rank perturbations of large rectangular
random matrices, 2012):

    φ(y) = mean_i y / (y² - z_i²),    λ = 1 / φ(y),    cos²(u, û) = -φ(y)² / φ'(y)

What differs from the authors' program: it subtracts 2σ√n from each y and measures the loss on a matrix of that spectrum
with fresh Gaussian noise. Such noise makes y = λ + σ²n/λ of λ, which is less than 2σ√n above it: the subtraction takes
too much, and the loss has its least value at too few dimensions. Nor is the noise of counts Gaussian: its spectrum
reaches farther, so it is measured. Halves are random stretches of the text, not its two ends.
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
from polyseme.evaluate.compare import figure_of
from polyseme.evaluate.kinds import evaluate_file
from polyseme.interfaces import Progress, silent
from polyseme.options import make_options
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.cooccurrence import count_pairs
from polyseme.words.counts import half_matrix, mutual_information, ppmi, symmetric_matrix
from polyseme.words.epochs import chunk_bounds
from polyseme.words.vectors import WordVectors
from polyseme.words.vocabulary_plan import plan_words

if TYPE_CHECKING:
    from scipy.sparse import csr_array

METHODS = ("svd", "word2vec", "glove")
SHARES = (5, 10, 20)  # per cent above the least loss
STRETCH = 1000  # words that go to the same half
APART = 1.25  # times the next singular value of the noise: one that is not of its bulk
TRIED = (10, 20, 50, 100, 200, 300, 500, 1000)  # dimensions, where files are to be evaluated
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class DimensionReport:
    """The PIP loss of each dimension, and what follows from it."""

    method: str
    words: int  # rows of the matrix
    noise: float  # standard deviation of a cell
    rank: int  # directions of the signal that are seen
    exponent: float  # α
    losses: list[float]  # of dimensions 1, 2, …

    @property
    def best(self) -> int:
        """The dimension of the least loss."""
        return int(np.argmin(self.losses)) + 1

    @property
    def ranges(self) -> dict[int, tuple[int, int]]:
        """per cent → the least and greatest dimension around the best one whose loss is at most so much greater."""
        ranges = {}
        for share in SHARES:
            good = np.array(self.losses) <= (1 + share / 100) * min(self.losses)
            below, above = good[: self.best][::-1], good[self.best - 1 :]
            low = self.best - (len(below) if below.all() else int(np.argmin(below))) + 1
            high = self.best + (len(above) if above.all() else int(np.argmin(above))) - 1
            ranges[share] = (low, high)
        return ranges

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
        raise OptionError(f"dimension must be computed for one of {', '.join(METHODS)}, not {method!r}")
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
        raise TrainingError("the corpus is too short to be split into two halves: give more text")
    halves = counts(first), counts(~first)
    progress("decomposing", 0, None)
    observed = _singular_values(_matrix(halves[0] + halves[1], method, n, settings))
    noise = (_matrix(halves[0], method, n, settings) - _matrix(halves[1], method, n, settings)) / 2
    signal, cosines = signal_behind(observed, _singular_values(noise))
    if not len(signal):
        raise TrainingError(
            "noise is stronger than every direction of the counts: give more text, or a smaller max_size"
        )
    losses = pip_losses(observed, signal, cosines, exponent)
    progress("decomposing", 1, 1)
    return DimensionReport(method, n, float(noise.std()), len(signal), exponent, losses.tolist())


def _singular_values(matrix: Matrix) -> Matrix:
    """Falling, (n,)."""
    squares = np.linalg.eigvalsh(matrix @ matrix.T)
    return np.asarray(np.sqrt(np.maximum(squares[::-1], 0)))


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


def signal_behind(observed: Matrix, noise: Matrix) -> tuple[Matrix, Matrix]:
    """The signal's singular values λ, and cos² between its directions and those observed, as far as they are seen.

    Both arguments are falling singular values (n,): of signal and noise together, and of the noise.
    """
    noise = noise[_apart(noise) :]
    seen = observed[observed > noise[0] * (1 + 1e-6)][:, None]  # (r, 1)
    gaps = seen**2 - noise**2  # (r, n)
    mean = (seen / gaps).mean(axis=1)  # φ
    slope = -((seen**2 + noise**2) / gaps**2).mean(axis=1)  # φ'
    return 1 / mean, -(mean**2) / slope


def _apart(noise: Matrix) -> int:
    """How many of the greatest values stand apart from the rest.

    Where a word happened to fall into one half more often than into the other, its whole row and column differ:
    a_i + a_j, two directions that are far stronger than all others and are not what hides the signal.
    """
    top = noise[: min(10, len(noise) // 10) + 1]
    return int(np.max(np.flatnonzero(top[:-1] > APART * top[1:]), initial=-1)) + 1


def pip_losses(observed: Matrix, signal: Matrix, cosines: Matrix, exponent: float) -> Matrix:
    """loss_1 … loss_n; directions beyond those of the signal are noise.

    loss_k² = loss_{k-1}² + y_k^4α - 2 (y_k λ_k)^2α cos²_k,    loss_0² = Σ λ^4α
    """
    steps = observed ** (4 * exponent)
    steps[: len(signal)] -= 2 * (observed[: len(signal)] * signal) ** (2 * exponent) * cosines
    squares = (signal ** (4 * exponent)).sum() + np.cumsum(steps)
    return np.asarray(np.sqrt(np.maximum(squares, 0)))


def scores_by_dimension(
    corpus: Corpus,
    method: str,
    dimensions: Sequence[int],
    files: Sequence[str | Path],
    progress: Progress = silent,
    **options: Any,
) -> list[dict[str, Any]]:
    """What vectors of each length reach on evaluation files: the dimension, and a score for each file."""
    rows = []
    wanted = sorted(set(dimensions))
    whole = train("svd", corpus, dim=wanted[-1], progress=progress, **options) if method == "svd" else None
    for dim in wanted:
        if whole is not None:  # the first columns of many are what fewer would be
            model = WordVectors(Vocabulary(whole.index_to_key, whole.vocabulary.counts), whole.vectors[:, :dim])
        else:
            model = train(method, corpus, dim=dim, progress=progress, **options)
        scores = {}
        for file in files:
            report = evaluate_file(model, file)
            scores[report.file] = report.whole.get(figure_of(report))
        rows.append({"dim": dim, **scores})
    return rows
