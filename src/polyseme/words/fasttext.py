"""fastText 子词向量: word2vec in which a word's vector is the mean of its own row and those of its character n-grams.

Bojanowski, Grave, Joulin and Mikolov, Enriching Word Vectors with Subword Information, 2017.

    x_w = 1/(1 + |G_w|) · (own_w + Σ_{g ∈ G_w} z_g),   G_w: the n-grams of "<w>", minn <= n <= maxn, hashed into buckets

The rest is word2vec's objective. An unseen word gets the mean of its n-grams' rows. The hash is fastText's own, so a
model can be written as a fastText .bin file.

What differs from the paper's program: a word's n-gram rows are read when it enters the window and written when it
leaves, not for each pair of words; buckets that no word of the vocabulary uses stay zero; and Chinese words, most of
which have one to three characters, get n-grams of single characters too.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray
from polyseme.errors import OptionError, TrainingError
from polyseme.options import option
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.run import Run, Trainable
from polyseme.words.character_ngrams import END_OF_SENTENCE, Subwords, marked
from polyseme.words.epochs import preparing
from polyseme.words.vectors import WordVectors, matrix_of, vocabulary_of
from polyseme.words.vocabulary_plan import WordPlan, carried_over, older_rows, older_vectors, plan_words
from polyseme.words.word2vec import PredictOptions, learn, one_row_each, random_rows, with_passes

if TYPE_CHECKING:
    from typing_extensions import Self

    from polyseme.words.kernels.predict import InputRows

MOST_BUCKETS = 2_000_000  # fastText's default


@dataclass(frozen=True)
class FastTextOptions(PredictOptions):
    """Options of fastText."""

    minn: int | None = option(None, "shortest n-gram; default: 1 for Chinese text, otherwise 3", minimum=1, maximum=100)
    maxn: int | None = option(
        None,
        "longest n-gram, 0: no n-grams; default: 4 for Chinese text, otherwise 6",
        minimum=0,
        maximum=100,
    )
    buckets: int | None = option(
        None,
        "hash buckets for n-grams; default: twice the distinct n-grams, at most 2,000,000",
        minimum=1,
        maximum=1 << 30,
    )


class FastText(Trainable, WordVectors):
    """``vectors`` (V, D) are the means; ``subwords`` holds the rows that are averaged."""

    method: ClassVar[str] = "fasttext"
    Options: ClassVar[type] = FastTextOptions
    subwords: Subwords

    def __init__(
        self,
        vocabulary: Vocabulary,
        vectors: FloatArray,
        *,
        options: FastTextOptions,
        about: About,
        output: FloatArray | None,
        subwords: Subwords,
        nodes: FloatArray | None = None,
    ) -> None:
        super().__init__(vocabulary, vectors, options=options, about=about, output=output, subwords=subwords)
        self.nodes = nodes

    @classmethod
    def train(cls, corpus: Corpus, options: FastTextOptions, run: Run) -> Self:
        options = with_passes(options, corpus.n_tokens)
        start = older_vectors(run.start, options.dim)
        plan = plan_words(corpus, options.min_count, options.max_size, start)
        options = _settled(options, plan.vocabulary, start)
        with preparing(run.progress):
            inputs, options = _inputs(plan.vocabulary.words, options)
        first = _initial(inputs, plan, options, start)
        rows, output = learn(
            corpus, plan, inputs, first, options, run, start, architecture=options.architecture, loss=options.loss
        )
        n, dim = len(plan.vocabulary), options.dim
        own, buckets, output = (np.ascontiguousarray(m[:, :dim]) for m in (rows[:n], rows[n:], output))
        subwords = Subwords(options.minn or 1, options.maxn or 0, buckets, own, len(buckets), None, END_OF_SENTENCE)
        vectors = subwords.compose(plan.vocabulary.words)
        about = About(corpus.segmentation, corpus.facts, run.curve)
        nodes, output_rows = (output, None) if options.loss == "hierarchical" else (None, output)
        return cls(
            plan.vocabulary, vectors, options=options, about=about, output=output_rows, subwords=subwords, nodes=nodes
        )

    def parts(self) -> Parts:
        parts = super().parts()
        tensors: dict[str, NDArray[Any]] = {**parts.tensors, "own": self.subwords.own, "buckets": self.subwords.rows}
        if self.nodes is not None:
            tensors["nodes"] = self.nodes
        return Parts(tensors, parts.tables)

    @classmethod
    def from_parts(cls, options: FastTextOptions, parts: Parts, about: About) -> Self:
        vocabulary = vocabulary_of(parts)
        n = len(vocabulary)
        vectors, own = (matrix_of(parts, name, n) for name in ("vectors", "own"))
        rows = matrix_of(parts, "buckets", options.buckets or 0)
        nodes = matrix_of(parts, "nodes", n - 1) if options.loss == "hierarchical" else None
        output = matrix_of(parts, "output", n) if options.loss == "negative" else None
        subwords = Subwords(options.minn or 1, options.maxn or 0, rows, own, len(rows), None, END_OF_SENTENCE)
        return cls(vocabulary, vectors, options=options, about=about, output=output, subwords=subwords, nodes=nodes)


def _settled(options: FastTextOptions, vocabulary: Vocabulary, start: WordVectors | None) -> FastTextOptions:
    """The options with minn and maxn filled in, from the older model or the script of the text."""
    if start is not None and start.subwords:
        old = start.subwords
        if old.kept is not None:
            raise TrainingError("a pruned fastText model cannot be trained further: some of its buckets are missing")
        for name, value in (("minn", old.minn), ("maxn", old.maxn), ("buckets", old.n_buckets)):
            if getattr(options, name) not in (None, value):
                raise TrainingError(f"the model to train further has {name}={value}: leave {name} out, or give {value}")
        return dataclasses.replace(options, minn=old.minn, maxn=old.maxn, buckets=old.n_buckets or None)
    shortest, longest = (1, 4) if vocabulary.is_chinese() else (3, 6)
    minn = options.minn if options.minn is not None else shortest
    maxn = options.maxn if options.maxn is not None else max(longest, minn)
    if 0 < maxn < minn:
        raise OptionError(f"minn is {minn} and maxn {maxn}: the shortest n-gram is longer than the longest")
    return dataclasses.replace(options, minn=minn, maxn=maxn)


def _inputs(words: list[str], options: FastTextOptions) -> tuple[InputRows, FastTextOptions]:
    """The input rows of each word (its own, then those of its n-grams), and the options with ``buckets`` filled in."""
    from polyseme.words.kernels.ngrams import ngram_hashes
    from polyseme.words.kernels.predict import InputRows

    n = len(words)
    if not options.maxn:
        return one_row_each(n), dataclasses.replace(options, buckets=None)
    spellings = [marked(word, END_OF_SENTENCE) for word in words]
    offsets, hashes = ngram_hashes(spellings, options.minn or 1, options.maxn, marked=True)
    buckets = options.buckets or max(1, min(MOST_BUCKETS, 2 * len(np.unique(hashes))))
    ids = np.insert((hashes % np.uint32(buckets)).astype(np.int64) + n, offsets[:-1], np.arange(n))
    offsets = offsets + np.arange(n + 1)
    means = (1 / np.diff(offsets)).astype(np.float32)
    return InputRows(offsets, ids.astype(np.int32), means), dataclasses.replace(options, buckets=buckets)


def _initial(inputs: InputRows, plan: WordPlan, options: FastTextOptions, start: WordVectors | None) -> FloatArray:
    """Small random rows for the words and the buckets in use; rows trained in the older model keep their values."""
    n, buckets = len(plan.vocabulary), options.buckets or 0
    first = random_rows(n + buckets, options.dim, options.seed, 1.0, np.unique(inputs.ids).astype(np.int64))
    if start is not None:
        carried_over(first, plan.old_rows, start.subwords.own if start.subwords else older_rows(start))
        if start.subwords:
            trained = start.subwords.rows.any(axis=1)
            first[n:][trained, : options.dim] = start.subwords.rows[trained]
    return first
