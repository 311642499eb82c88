"""Soft bag of words 软词袋: a bag of words in which words similar to those of the text count too.

    x_j = max over the words w of the text of cos(w, word j),   if j is among the 10 words nearest to w;  else 0

A word is nearest to itself, with cosine 1, and negative cosines count as 0: with one neighbour this is the bag of
words, and with all of them the fuzzy bag of words with max membership (Zhao and Mao, Fuzzy Bag-of-Words Model for
Document Representation, 2018). Vectors are sparse, with at most 10 numbers for each word of the text, and compared by
cosine. The model keeps the nearest words of each word with their cosines, but not the word vectors. Words outside the
vocabulary are ignored, and a text without any known word has the zero vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray
from polyseme.errors import OptionError, altered_model
from polyseme.interfaces import Sentence
from polyseme.options import option
from polyseme.sentences.bag_of_words import SparseEncoder
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.run import Run, Trainable
from polyseme.words.nearest import dense_rows, nearest_rows
from polyseme.words.vectors import WordVectors, matrix_of, vocabulary_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from typing_extensions import Self

_TOGETHER = 256  # words whose neighbours are searched at once


@dataclass(frozen=True)
class SoftBowOptions:
    """Options of the soft bag of words."""

    word_vectors: str | None = option(
        None, "word vectors that define word similarity; default: word2vec trained on the text", names="model"
    )
    neighbours: int = option(10, "nearest words that a word counts for, including itself", minimum=1)
    max_size: int = option(50_000, "maximum vocabulary size, and dimension of a vector", minimum=1)
    min_count: int = option(5, "word2vec trained on the text: minimum word count; rarer words are dropped", minimum=1)
    dim: int = option(100, "word2vec trained on the text: dimension of a vector", minimum=1)
    threads: int | None = option(None, "threads that train word2vec; default: all cores", minimum=1, changes="speed")
    seed: int = option(1, "seed of the word2vec trained on the text", minimum=0)


class SoftBow(Trainable, SparseEncoder):
    """A vocabulary, and the nearest words of each word with their cosines."""

    method: ClassVar[str] = "softbow"
    Options: ClassVar[type] = SoftBowOptions
    trains_further: ClassVar[bool] = False
    options: SoftBowOptions

    def __init__(
        self,
        vocabulary: Vocabulary,
        near: NDArray[np.int32],
        cosines: FloatArray,
        *,
        options: SoftBowOptions,
        about: About | None = None,
    ) -> None:
        self.vocabulary, self.near, self.cosines = vocabulary, near, cosines  # (V, k) both
        self.options, self.about = options, about or About()
        self.dim = len(vocabulary)

    @classmethod
    def train(cls, corpus: Corpus, options: SoftBowOptions, run: Run) -> Self:
        words = run.models.get("word_vectors") or _learned(corpus, options, run)
        if not isinstance(words, WordVectors):
            raise OptionError(f"word_vectors names a model with method {words.method}, which has no word vectors")
        about = About(words.about.segmentation or corpus.segmentation, corpus.facts)
        return cls.of(words, options, about=about, run=run)

    @classmethod
    def of(
        cls,
        words: WordVectors,
        options: SoftBowOptions | None = None,
        *,
        about: About | None = None,
        run: Run | None = None,
    ) -> Self:
        """From word vectors alone."""
        options, run = options or SoftBowOptions(), run or Run()
        size = min(options.max_size, len(words))
        vocabulary = Vocabulary(words.vocabulary.words[:size], words.vocabulary.counts[:size])
        near, cosines = _neighbours(words, size, min(options.neighbours, size), run)
        return cls(vocabulary, near, cosines, options=options, about=about or About.of(words))

    def sparse_batch(self, texts: list[Sentence]) -> csr_array:
        """The greatest cosine of each word with any word of the text, ``(n, V)``."""
        from scipy.sparse import csr_array

        index = self.vocabulary.index
        known = [sorted({index[word] for word in words if word in index}) for words in self.tokenize_all(texts)]
        rows = np.array([row for words in known for row in words], dtype=np.int64)
        owner = np.repeat(np.arange(len(texts)), [len(words) for words in known])
        k = self.near.shape[1]
        keys = np.repeat(owner, k) * self.dim + self.near[rows].reshape(-1)  # (N · k)
        values = self.cosines[rows].reshape(-1)
        order = np.lexsort((-values, keys))  # the greatest value of each key first
        keys, first = np.unique(keys[order], return_index=True)
        kept = values[order][first]
        full = kept > 0
        starts = np.searchsorted(keys[full] // self.dim, np.arange(len(texts) + 1))
        columns = (keys[full] % self.dim).astype(np.int32)
        return csr_array((kept[full].astype(np.float32), columns, starts), shape=(len(texts), self.dim))

    def parts(self) -> Parts:
        """The words, their counts, and the table of nearest words."""
        tensors: dict[str, NDArray[Any]] = {
            "counts": self.vocabulary.counts,
            "near": self.near,
            "cosines": self.cosines,
        }
        return Parts(tensors, {"vocab": self.vocabulary.words})

    @classmethod
    def from_parts(cls, options: Any, parts: Parts, about: About) -> Self:
        vocabulary = vocabulary_of(parts)
        cosines = matrix_of(parts, "cosines", len(vocabulary))
        near = parts.tensor("near", cosines.shape, np.int32)
        if near.size and (near.min() < 0 or near.max() >= len(vocabulary) or not np.isfinite(cosines).all()):
            raise altered_model("its nearest words are not in its vocabulary")
        return cls(vocabulary, near, cosines, options=options, about=about)


def _learned(corpus: Corpus, options: SoftBowOptions, run: Run) -> WordVectors:
    from polyseme.words.word2vec import Word2Vec, Word2VecOptions

    own = Word2VecOptions(dim=options.dim, min_count=options.min_count, seed=options.seed, threads=options.threads)
    return Word2Vec.train(corpus, own, Run(progress=run.progress))


def _neighbours(words: WordVectors, size: int, k: int, run: Run) -> tuple[NDArray[np.int32], FloatArray]:
    """For each of the first ``size`` words, the indices and cosines of itself and its ``k - 1`` nearest others."""
    near = np.zeros((size, k), dtype=np.int32)
    cosines = np.zeros((size, k), dtype=np.float32)
    near[:, 0], cosines[:, 0] = np.arange(size), 1
    for start in range(0, size if k > 1 else 0, _TOGETHER):
        asked = np.arange(start, min(start + _TOGETHER, size))
        units = dense_rows(words.vectors[asked]) * words.inverse_norms[asked][:, None]
        places, scores = nearest_rows(words.vectors[:size], words.inverse_norms[:size], units, k)
        scores = np.where(places == asked[:, None], -np.inf, scores)  # the word itself is already first
        order = np.argsort(-scores, axis=1, kind="stable")[:, : k - 1]
        near[asked, 1:] = np.take_along_axis(places, order, axis=1)
        cosines[asked, 1:] = np.clip(np.take_along_axis(scores, order, axis=1), 0, 1)
        run.progress("nearest words", int(asked[-1]) + 1, size)
    return near, cosines
