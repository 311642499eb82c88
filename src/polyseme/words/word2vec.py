"""word2vec 词向量: skip-gram and CBOW, with negative sampling or hierarchical softmax.

Mikolov, Chen, Corrado and Dean, Efficient Estimation of Word Representations in Vector Space, 2013; Mikolov, Sutskever,
Chen, Corrado and Dean, Distributed Representations of Words and Phrases and their Compositionality, 2013.

    skip-gram, negative sampling:  max Σ_(w,c)  log σ(x_w·y_c) + Σ_{n ~ P^0.75} log σ(-x_w·y_n)

The centre word w predicts each word c within a window of random size around it. CBOW predicts w from the mean of all
x_c; hierarchical softmax replaces what is predicted and n by the inner nodes of a Huffman tree on the path to it.

As in the authors' program, the pairs of a window are trained from their other end, log σ(x_c·y_w): each word of a pair
is the centre of a window in its turn, so the pairs are the same, and the whole window shares the output row of w.

What differs from the program: the negative samples of a centre word are drawn once for its whole window; two context
words are trained at a time; the learning rate decays linearly to zero over the words read by all threads.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints
from polyseme.errors import OptionError, altered_model, as_given
from polyseme.options import option
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.checkpoint import Snapshot
from polyseme.training.run import Run, Trainable
from polyseme.words.epochs import Epochs, available_threads, chunk_bounds, preparing, read_only
from polyseme.words.vectors import WordVectors, matrix_of, vocabulary_of
from polyseme.words.vocabulary_plan import WordPlan, carried_over, older_output, older_rows, older_vectors, plan_words

if TYPE_CHECKING:
    from typing_extensions import Self

    from polyseme.words.kernels.predict import InputRows

MOST_DIM = 1024  # what fits in the work area of the compiled code
FEWEST_PASSES, MOST_PASSES, WORDS_READ = 5, 30, 15_000_000
Options = TypeVar("Options", bound="SkipgramOptions")


@dataclass(frozen=True)
class SkipgramOptions:
    """Options that word2vec, fastText and cw2vec share."""

    dim: int = option(100, "dimension of a vector", minimum=1, maximum=MOST_DIM)
    window: int = option(5, "maximum number of context words on each side", minimum=1, maximum=1000)
    negative: int = option(5, "negative samples per centre word", minimum=1, maximum=100)
    sample: float = option(1e-3, "subsampling: words more frequent than this are skipped at random; 0: off", minimum=0)
    epochs: int | None = option(
        None,
        "passes over the text; default: 5, and more for a short text (until 15 million words are read, at most 30)",
        minimum=1,
    )
    lr: float = option(0.05, "initial learning rate; decays linearly to zero", minimum=1e-9)
    min_count: int = option(5, "minimum word count; rarer words are dropped", minimum=1)
    max_size: int | None = option(None, "maximum vocabulary size; default: no limit", minimum=2)
    threads: int | None = option(None, "threads; default: one per CPU core", minimum=1, maximum=1024, changes="speed")
    seed: int = option(1, "random seed; results are identical only with one thread", minimum=0)


@dataclass(frozen=True)
class PredictOptions(SkipgramOptions):
    """Options that word2vec and fastText share."""

    architecture: str = option(
        "skipgram",
        "skipgram: the centre word predicts each of its neighbours; cbow: their mean predicts it",
        choices=("skipgram", "cbow"),
    )
    loss: str = option("negative", "training objective", choices=("negative", "hierarchical"))


@dataclass(frozen=True)
class Word2VecOptions(PredictOptions):
    """Options of word2vec."""

    vectors: str = option(
        "input",
        "which vectors to return: input, output, or both",
        choices=("input", "output", "sum", "concat"),
    )


class Word2Vec(Trainable, WordVectors):
    """``input`` (V, D) and ``output`` (V, D) are both kept; ``options.vectors`` says how they form ``vectors``.

    A hierarchical model has ``nodes`` (V - 1, D), the inner nodes of its tree, instead of ``output``.
    """

    method: ClassVar[str] = "word2vec"
    Options: ClassVar[type] = Word2VecOptions

    def __init__(
        self,
        vocabulary: Vocabulary,
        input: FloatArray,
        output: FloatArray | None,
        *,
        options: Word2VecOptions,
        about: About,
        nodes: FloatArray | None = None,
    ) -> None:
        vectors = served(options.vectors, input, output)
        super().__init__(vocabulary, vectors, options=options, about=about, output=output)
        self.input = input
        self.nodes = nodes

    @classmethod
    def train(cls, corpus: Corpus, options: Word2VecOptions, run: Run) -> Self:
        if options.loss == "hierarchical" and options.vectors != "input":
            raise OptionError(
                f"hierarchical softmax predicts tree nodes, not words, so it has no {options.vectors} vectors: "
                f"leave {as_given('vectors', options.vectors)} out, or give {as_given('loss', 'negative')}"
            )
        options = with_passes(options, corpus.n_tokens)
        start = older_vectors(run.start, options.dim)
        plan = plan_words(corpus, options.min_count, options.max_size, start)
        inputs = one_row_each(len(plan.vocabulary))
        first = random_rows(len(plan.vocabulary), options.dim, options.seed, 1.0)
        if start is not None:
            carried_over(first, plan.old_rows, older_rows(start))
        weights = learn(
            corpus, plan, inputs, first, options, run, start, architecture=options.architecture, loss=options.loss
        )
        about = About(corpus.segmentation, corpus.facts, run.curve)
        input, output = (np.ascontiguousarray(matrix[:, : options.dim]) for matrix in weights)
        if options.loss == "hierarchical":
            return cls(plan.vocabulary, input, None, options=options, about=about, nodes=output)
        return cls(plan.vocabulary, input, output, options=options, about=about)

    def parts(self) -> Parts:
        tensors: dict[str, NDArray[Any]] = {"input": self.input, "counts": self.vocabulary.counts}
        if self.output is not None:
            tensors["output"] = self.output
        if self.nodes is not None:
            tensors["nodes"] = self.nodes
        return Parts(tensors, {"vocab": self.index_to_key})

    @classmethod
    def from_parts(cls, options: Word2VecOptions, parts: Parts, about: About) -> Self:
        vocabulary = vocabulary_of(parts)
        input = matrix_of(parts, "input", len(vocabulary))
        if options.loss == "hierarchical":
            nodes = matrix_of(parts, "nodes", len(vocabulary) - 1)
            if options.vectors != "input":
                raise altered_model(f"a hierarchical model has no {options.vectors!r} vectors")
            return cls(vocabulary, input, None, options=options, about=about, nodes=nodes)
        output = matrix_of(parts, "output", len(vocabulary))
        if input.shape != output.shape:
            raise altered_model(f"its matrices are {input.shape} and {output.shape}")
        return cls(vocabulary, input, output, options=options, about=about)


def with_passes(options: Options, n_words: int) -> Options:
    """The options with ``epochs`` filled in for a text of this many words."""
    wanted = min(max(round(WORDS_READ / max(n_words, 1)), FEWEST_PASSES), MOST_PASSES)
    return dataclasses.replace(options, epochs=options.epochs or wanted)


def served(which: str, input: FloatArray, output: FloatArray | None) -> FloatArray:
    """The vectors to return: ``input``, ``output``, or their ``sum`` or concatenation."""
    if which == "input" or output is None:
        return input
    if which == "output":
        return output
    return input + output if which == "sum" else np.concatenate([input, output], axis=1)


def one_row_each(n_words: int) -> InputRows:
    """The input rows of words without subwords: one each."""
    from polyseme.words.kernels.predict import InputRows

    one = np.ones(n_words, dtype=np.float32)
    return InputRows(np.arange(n_words + 1, dtype=np.int64), np.arange(n_words, dtype=np.int32), one)


def random_rows(rows: int, dim: int, seed: int, spread: float, used: Ints | None = None) -> FloatArray:
    """Random rows, uniform in ±spread/dim, padded for the compiled code; if ``used`` is given, other rows are zero."""
    from polyseme.words.kernels.rows import padded

    matrix = padded(rows, dim)
    random = np.random.default_rng(seed)
    numbers = np.arange(rows) if used is None else used
    for at in range(0, len(numbers), 1 << 14):
        block = numbers[at : at + (1 << 14)]
        values = random.random((len(block), dim), dtype=np.float32) - np.float32(0.5)
        matrix[block, :dim] = values * np.float32(2 * spread / dim)
    return matrix


def keep_chances(counts: Ints, sample: float) -> NDArray[np.uint32]:
    """The probability that a word of frequency f is kept, times 2³²: √(sample/f) + sample/f, as in word2vec.c."""
    if sample == 0:
        return np.full(len(counts), 0xFFFFFFFF, dtype=np.uint32)
    ratio = sample * counts.sum() / np.maximum(counts, 1)
    chances: NDArray[np.uint32] = (np.minimum(np.sqrt(ratio) + ratio, 1) * 0xFFFFFFFF).astype(np.uint32)
    return chances


def learn(
    corpus: Corpus,
    plan: WordPlan,
    inputs_of: InputRows,
    first: FloatArray,
    options: SkipgramOptions,
    run: Run,
    start: WordVectors | None,
    *,
    architecture: str = "skipgram",
    loss: str = "negative",
) -> tuple[FloatArray, FloatArray]:
    """Train the input rows, starting from ``first``, and the output rows or tree nodes; returns both, padded."""
    from polyseme.words.kernels.huffman import huffman_tree, no_tree
    from polyseme.words.kernels.predict import Objective, Text, train_chunk
    from polyseme.words.kernels.rows import alias_table, logistic_table, padded, random_state

    counts, n_words = plan.vocabulary.counts, len(plan.vocabulary)
    hierarchical = loss == "hierarchical"
    keep = np.append(keep_chances(counts, options.sample), np.uint32(0))[plan.numbers]
    text = Text(read_only(corpus.ids), read_only(corpus.sentence_offsets), keep, plan.numbers)
    tree = huffman_tree(counts) if hierarchical else no_tree()
    alias = alias_table(np.maximum(counts, 1).astype(np.float64) ** 0.75)
    negative, skipgram = min(options.negative, n_words - 1), architecture == "skipgram"
    objective = Objective(options.window, negative, skipgram, hierarchical)
    table = logistic_table()
    inputs, outputs = first, padded(n_words - 1 if hierarchical else n_words, options.dim)
    if start is not None and not hierarchical:
        carried_over(outputs, plan.old_rows, older_output(start))
    snapshot = run.resumed()
    if snapshot:
        snapshot.fill(inputs=inputs, outputs=outputs)

    def train(epoch: int, chunk: int, begin: int, end: int, lr_begin: float, lr_end: float) -> tuple[float, float]:
        state, result = random_state(options.seed, epoch, chunk), np.zeros(2)
        train_chunk(
            text, begin, end, inputs_of, alias, tree, objective, inputs, outputs, lr_begin, lr_end, state, table, result
        )
        return float(result[0]), float(result[1])

    with preparing(run.progress):
        train(0, 0, 0, 0, 0.0, 0.0)  # no words: only compiles, so that the measured speed excludes it
    Epochs(
        bounds=chunk_bounds(corpus.sentence_offsets),
        epochs=options.epochs or FEWEST_PASSES,
        lr=options.lr,
        threads=available_threads(options.threads),
        train=train,
        keep=lambda state: run.save(Snapshot({"inputs": inputs, "outputs": outputs}, state)),
        check=lambda: bool(np.isfinite(inputs.sum(dtype=np.float64) + outputs.sum(dtype=np.float64))),
    ).run(run, snapshot.state if snapshot else {})
    return inputs, outputs
