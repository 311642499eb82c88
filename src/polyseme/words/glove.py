"""GloVe 全局词向量: vectors whose dot products approximate the logarithms of co-occurrence counts.

Pennington, Socher and Manning, GloVe: Global Vectors for Word Representation, 2014.

    min Σ_ij f(X_ij) (w_i·c_j + b_i + b'_j - log X_ij)²,    f(x) = min(1, (x / x_max)^alpha)

X_ij sums 1/distance over all occurrences of j within the window of i. The vectors returned are w + c, as in the paper.

AdaGrad is that of the paper's program: a step is lr · gradient (components clipped at ±100) divided by the root of
1 + Σ (lr · gradient)² of the earlier steps.

What differs from the program: the cells of the matrix are visited tile by tile (512×512 words, tiles and the
cells of each in random order), so that the rows in use stay in the cache, and a cell of a symmetric matrix is stored
once and trained in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints
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
from polyseme.words.epochs import read_only
from polyseme.words.vectors import WordVectors, matrix_of, vocabulary_of
from polyseme.words.vocabulary_plan import WordPlan, carried_over, older_output, older_rows, older_vectors, plan_words
from polyseme.words.word2vec import served

if TYPE_CHECKING:
    from typing_extensions import Self

_WEIGHTS = ("words", "contexts", "word_squares", "context_squares")


@dataclass(frozen=True)
class GloveOptions:
    """Options of GloVe."""

    dim: int = option(100, "dimension of a vector", minimum=1)
    window: int = option(10, "window size: context words on each side", minimum=1, maximum=1000)
    symmetric: bool = option(True, "context on both sides, or only before the word")
    weights: str = option("harmonic", "weight of a pair: 1/distance, or 1", choices=("harmonic", "flat"))
    x_max: float = option(10.0, "count above which a cell has full weight", minimum=1e-9)
    alpha: float = option(0.75, "exponent of the weight of rarer cells", minimum=0)
    epochs: int = option(25, "passes over the cells", minimum=1)
    lr: float = option(0.05, "AdaGrad's learning rate", minimum=1e-9)
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


class Glove(Trainable, WordVectors):
    """``input`` (V, D) for words, ``output`` (V, D) for contexts, and the biases of both, (2, V)."""

    method: ClassVar[str] = "glove"
    Options: ClassVar[type] = GloveOptions

    def __init__(
        self,
        vocabulary: Vocabulary,
        input: FloatArray,
        output: FloatArray,
        biases: FloatArray,
        *,
        options: GloveOptions,
        about: About,
    ) -> None:
        vectors = served(options.vectors, input, output)
        super().__init__(vocabulary, vectors, options=options, about=about, output=output)
        self.input = input
        self.biases = biases

    @classmethod
    def train(cls, corpus: Corpus, options: GloveOptions, run: Run) -> Self:
        start = older_vectors(run.start, options.dim)
        plan = plan_words(corpus, options.min_count, options.max_size, start)
        cells = count_pairs(
            corpus,
            plan,
            window=options.window,
            symmetric=options.symmetric,
            harmonic=options.weights == "harmonic",
            memory=options.memory,
            progress=run.progress,
        )
        weights = _initial(plan, options, start)
        learn_in_tiles(*_trainer(cells, weights, options), dict(zip(_WEIGHTS, weights, strict=True)), options, run)
        rows = [np.ascontiguousarray(matrix[:, : options.dim]) for matrix in weights[:2]]
        biases = np.stack([matrix[:, -_lanes()] for matrix in weights[:2]])
        about = About(corpus.segmentation, corpus.facts, run.curve)
        return cls(plan.vocabulary, rows[0], rows[1], biases, options=options, about=about)

    def parts(self) -> Parts:
        assert self.output is not None
        tensors: dict[str, NDArray[Any]] = {
            "input": self.input,
            "output": self.output,
            "biases": self.biases,
            "counts": self.vocabulary.counts,
        }
        return Parts(tensors, {"vocab": self.index_to_key})

    @classmethod
    def from_parts(cls, options: GloveOptions, parts: Parts, about: About) -> Self:
        vocabulary = vocabulary_of(parts)
        input, output = (matrix_of(parts, name, len(vocabulary)) for name in ("input", "output"))
        biases = matrix_of(parts, "biases", 2)
        if input.shape != output.shape or biases.shape[1] != len(vocabulary):
            raise altered_model("its matrices do not fit each other")
        return cls(vocabulary, input, output, biases, options=options, about=about)


def _lanes() -> int:
    from polyseme.words.kernels.rows import LANES

    return LANES


def _initial(plan: WordPlan, options: GloveOptions, start: WordVectors | None) -> list[FloatArray]:
    """Words, contexts and squared steps of both, (V, padded dim + LANES); see ``kernels/cells.py`` for a row."""
    from polyseme.words.kernels.rows import padded

    lanes, n = _lanes(), len(plan.vocabulary)
    columns = -(-options.dim // lanes) * lanes + lanes
    random = np.random.default_rng(options.seed)
    matrices = [padded(n, columns) for _ in range(4)]
    for matrix in matrices[:2]:
        matrix[:, : options.dim] = (random.random((n, options.dim), dtype=np.float32) - np.float32(0.5)) / options.dim
        matrix[:, -lanes] = (random.random(n, dtype=np.float32) - np.float32(0.5)) / options.dim
    for squares in matrices[2:]:
        squares[:] = 1
    if isinstance(start, Glove):
        for place, source in enumerate((start.input, start.output)):
            carried_over(matrices[place], plan.old_rows, source)
            carried_over(matrices[place][:, -lanes:], plan.old_rows, start.biases[place][:, None])
    elif start is not None:
        carried_over(matrices[0], plan.old_rows, older_rows(start))
        carried_over(matrices[1], plan.old_rows, older_output(start))
    return matrices


def _trainer(cells: Cooccurrence, weights: list[FloatArray], options: GloveOptions) -> tuple[Ints, Train]:
    """Where the cells of each tile begin, and the function that trains on some tiles and returns (cost, updates)."""
    from polyseme.words.kernels.cells import train_glove_tiles
    from polyseme.words.kernels.rows import random_state

    across, bounds = tiles_across(cells.n_words), tile_bounds(cells)
    keys, sums = read_only(cells.keys), read_only(cells.sums)

    def train(tiles: Ints, epoch: int, chunk: int) -> NDArray[np.float64]:
        result, state = np.zeros(2), random_state(options.seed, epoch, chunk)
        train_glove_tiles(
            keys, sums, bounds, tiles, across, cells.symmetric, *weights,
            options.x_max, options.alpha, options.lr, state, result,
        )  # fmt: skip
        return result

    return bounds, train
