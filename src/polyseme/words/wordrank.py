"""WordRank 排序词向量: each word should rank the contexts it occurred with above all others.

Ji, Yun, Yanardag, Matsushima and Vishwanathan, WordRank: Learning Word Embeddings via Robust Ranking, 2016.

    min Σ_(w,c) r_wc · ρ((rank(w, c) + β) / α),    rank(w, c) = Σ_c' max(0, 1 - u_w·v_c + u_w·v_c')
    r_wc = min(1, (X_wc / x_max)^ε)

The concave ρ gives little weight to contexts that cannot be ranked high, so the top of each list counts most. Two
stages alternate: gradient descent on the cells (w, c) of the co-occurrence matrix with random negative contexts c',
each step weighted by r · ρ'(1/ξ); and, after every ``period`` passes, the exact ξ_wc = α / (rank(w, c) + β). Both are
as in the authors' program, where the sum includes c itself, so a rank is at least 1.

What differs from it: ranks are computed by sorting thresholds, not by comparing all pairs of contexts; cells are
visited tile by tile as in GloVe here; the learning rate decays linearly to zero; a visit has several negative contexts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints, unit_rows
from polyseme.errors import altered_model
from polyseme.options import option
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.run import Run, Trainable
from polyseme.words.cooccurrence import (
    Cooccurrence,
    Train,
    count_pairs,
    learn_in_tiles,
    tile_bounds,
    tiles_across,
)
from polyseme.words.epochs import available_threads, in_threads, read_only
from polyseme.words.vectors import WordVectors, matrix_of, vocabulary_of
from polyseme.words.vocabulary_plan import WordPlan, carried_over, older_output, older_rows, older_vectors, plan_words
from polyseme.words.word2vec import served

if TYPE_CHECKING:
    from typing_extensions import Self

HEAVIEST = 2.0  # maximum weight of a cell, as a multiple of the mean; best on dev sets from 1.5 to 10; 20 diverges
BLOCK = 1 << 22  # scores in memory at a time while ranks are computed


@dataclass(frozen=True)
class WordRankOptions:
    """Options of WordRank."""

    dim: int = option(100, "dimension of a vector", minimum=1)
    window: int = option(15, "window size: context words on each side, weighted by 1/distance", minimum=1, maximum=1000)
    x_max: float = option(100.0, "count above which a cell has full weight", minimum=1e-9)
    alpha: float = option(0.75, "exponent of the weight of rarer cells", minimum=0)
    rho: str = option("log", "transformation of the rank", choices=("identity", "log", "inverse-log", "power"))
    rank_scale: float = option(100.0, "ranks are divided by this …", minimum=1e-9)
    rank_shift: float = option(99.0, "… after this was added", minimum=0)
    power: float = option(1.5, "t of rho=power: (x^(1-t) - 1) / (1 - t)", minimum=1.0001)
    negative: int = option(5, "random contexts that a true one is ranked above, for each visit", minimum=1)
    epochs: int = option(20, "passes over the cells", minimum=1)
    period: int = option(5, "passes between two exact computations of all ranks", minimum=1)
    lr: float = option(0.1, "initial learning rate; decays linearly to zero", minimum=1e-9)
    min_count: int = option(5, "minimum word count; rarer words are dropped", minimum=1)
    max_size: int | None = option(None, "maximum vocabulary size; default: no limit", minimum=2)
    vectors: str = option(
        "sum", "which vectors to return: words, contexts, or both", choices=("input", "output", "sum", "concat")
    )
    memory: int = option(
        1024, "megabytes for counting; what does not fit is merged on disk", minimum=1, changes="speed"
    )
    threads: int | None = option(None, "threads; default: one per CPU core", minimum=1, maximum=1024, changes="speed")
    seed: int = option(1, "random seed; results are identical only with one thread", minimum=0)


class WordRank(Trainable, WordVectors):
    """``input`` and ``output`` (V, D): the vectors of words, and of contexts."""

    method: ClassVar[str] = "wordrank"
    Options: ClassVar[type] = WordRankOptions

    def __init__(
        self,
        vocabulary: Vocabulary,
        input: FloatArray,
        output: FloatArray,
        *,
        options: WordRankOptions,
        about: About,
    ) -> None:
        vectors = served(options.vectors, input, output)
        super().__init__(vocabulary, vectors, options=options, about=about, output=output)
        self.input = input

    @classmethod
    def train(cls, corpus: Corpus, options: WordRankOptions, run: Run) -> Self:
        start = older_vectors(run.start, options.dim)
        plan = plan_words(corpus, options.min_count, options.max_size, start)
        cells = count_pairs(
            corpus,
            plan,
            window=options.window,
            symmetric=True,
            harmonic=True,
            memory=options.memory,
            progress=run.progress,
        )
        weights = _initial(plan, options, start)
        _learn(cells, weights, options, run)
        input, output = (np.ascontiguousarray(matrix[:, : options.dim]) for matrix in weights)
        about = About(corpus.segmentation, corpus.facts, run.curve)
        return cls(plan.vocabulary, input, output, options=options, about=about)

    def parts(self) -> Parts:
        assert self.output is not None
        tensors: dict[str, NDArray[Any]] = {
            "input": self.input,
            "output": self.output,
            "counts": self.vocabulary.counts,
        }
        return Parts(tensors, {"vocab": self.index_to_key})

    @classmethod
    def from_parts(cls, options: WordRankOptions, parts: Parts, about: About) -> Self:
        vocabulary = vocabulary_of(parts)
        input, output = (matrix_of(parts, name, len(vocabulary)) for name in ("input", "output"))
        if input.shape != output.shape:
            raise altered_model(f"its matrices are {input.shape} and {output.shape}")
        return cls(vocabulary, input, output, options=options, about=about)


def _initial(plan: WordPlan, options: WordRankOptions, start: WordVectors | None) -> list[FloatArray]:
    """Words and contexts, (V, padded dim): uniform in (0, 1), scaled to unit length; older rows keep their values."""
    from polyseme.words.kernels.rows import padded

    random, n = np.random.default_rng(options.seed), len(plan.vocabulary)
    matrices = [padded(n, options.dim) for _ in range(2)]
    for matrix in matrices:
        matrix[:, : options.dim] = unit_rows(random.random((n, options.dim), dtype=np.float32))
    if start is not None:
        carried_over(matrices[0], plan.old_rows, older_rows(start))
        carried_over(matrices[1], plan.old_rows, older_output(start))
    return matrices


def cell_weights(counts: FloatArray, options: WordRankOptions) -> FloatArray:
    """r = min(1, (x / x_max)^ε), scaled to a mean of 1 so that the learning rate does not depend on the text.

    It is limited to ``HEAVIEST``: steps of many times the mean make training diverge.
    """
    weights = np.minimum(1, np.asarray(counts, dtype=np.float64) / options.x_max) ** options.alpha
    return np.asarray(np.minimum(weights / weights.mean(), HEAVIEST), dtype=np.float32)


def rho(x: NDArray[np.float64], options: WordRankOptions) -> NDArray[np.float64]:
    """ρ(x) for x = (rank + β) / α."""
    if options.rho == "identity":
        return x
    if options.rho == "log":
        return np.log2(x)
    if options.rho == "inverse-log":
        return 1 - 1 / np.log2(1 + x)
    return np.asarray((x ** (1 - options.power) - 1) / (1 - options.power))


def rho_slope(x: NDArray[np.float64], options: WordRankOptions) -> NDArray[np.float64]:
    """ρ'(x)."""
    if options.rho == "identity":
        return np.ones_like(x)
    if options.rho == "log":
        return np.asarray(1 / (x * np.log(2)))
    if options.rho == "inverse-log":
        return np.asarray(1 / (np.log2(1 + x) ** 2 * (1 + x) * np.log(2)))
    return np.asarray(x**-options.power)


def _learn(cells: Cooccurrence, weights: list[FloatArray], options: WordRankOptions, run: Run) -> None:
    threads, r = available_threads(options.threads), cell_weights(cells.sums, options)
    ranked = np.ones((len(cells), 2))  # x = (rank + β) / α of both orders of a cell: 1/ξ
    coefficients = np.empty((len(cells), 2), dtype=np.float32)

    def weigh(epoch: int) -> None:
        if epoch and epoch % options.period == 0:
            ranked[:] = exact_ranks(cells, weights, options, threads)
        coefficients[:] = r[:, None] * rho_slope(ranked, options)

    bounds, train = _trainer(cells, coefficients, weights, options)
    named = dict(zip(("words", "contexts"), weights, strict=True))
    # Saved when ranks are recomputed anyway, so that they need not be kept.
    learn_in_tiles(bounds, train, named, options, run, before=weigh, save_every=options.period)


def _trainer(
    cells: Cooccurrence, coefficients: FloatArray, weights: list[FloatArray], options: WordRankOptions
) -> tuple[Ints, Train]:
    """Where the cells of each tile begin, and the function that trains on some tiles and returns (cost, updates)."""
    from polyseme.words.kernels.cells import train_wordrank_tiles
    from polyseme.words.kernels.rows import random_state

    across, bounds, keys = tiles_across(cells.n_words), tile_bounds(cells), read_only(cells.keys)

    def train(tiles: Ints, epoch: int, chunk: int) -> NDArray[np.float64]:
        result, state = np.zeros(2), random_state(options.seed, epoch, chunk)
        lr = options.lr * (1 - epoch / options.epochs)
        train_wordrank_tiles(keys, coefficients, bounds, tiles, across, *weights, options.negative, lr, state, result)
        return result

    return bounds, train


def exact_ranks(
    cells: Cooccurrence, weights: list[FloatArray], options: WordRankOptions, threads: int = 1
) -> NDArray[np.float64]:
    """(rank(w, c) + β) / α of each cell in both orders, (cells, 2), computed block by block of words."""
    from polyseme.words.kernels.cells import hinge_ranks

    words, contexts = weights
    rows, columns = (places.astype(np.int32) for places in cells.indices())
    asking, asked = np.concatenate([rows, columns]), np.concatenate([columns, rows])
    order = np.argsort(asking, kind="stable")  # both orders of all cells, by word
    starts = np.searchsorted(asking[order], np.arange(cells.n_words + 1))
    ranks = np.empty(2 * len(cells))
    step = max(1, BLOCK // len(contexts))

    def work(block: int) -> None:
        scores = words[block * step : (block + 1) * step] @ contexts.T  # (b, D) × (D, V) -> (b, V)
        for word, line in enumerate(scores, block * step):
            places = order[starts[word] : starts[word + 1]]
            found = np.empty(len(places))
            hinge_ranks(line, asked[places].astype(np.int64), found)
            ranks[places] = found

    for _ in in_threads(work, range(-(-cells.n_words // step)), threads):
        pass
    return (ranks.reshape(2, -1).T + options.rank_shift) / options.rank_scale
