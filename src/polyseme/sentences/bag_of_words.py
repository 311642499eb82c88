"""Sentence vectors from word counts: bag of words 词袋, TF-IDF, latent semantic analysis 潜在语义分析.

Salton and Buckley, Term-Weighting Approaches in Automatic Text Retrieval, 1988; Spärck Jones, A Statistical
Interpretation of Term Specificity and its Application in Retrieval, 1972; Deerwester, Dumais, Furnas, Landauer and
Harshman, Indexing by Latent Semantic Analysis, 1990.

    bow     x_w = tf(w)                        counts, presence (the one-hot of a text) or 1 + ln tf
    tfidf   x_w = tf(w) · idf(w), of length one;    idf smooth: ln((1 + N) / (1 + df)) + 1,  plain: ln(N / df) + 1
    lsa     X ≈ U Σ Vᵀ of the TF-IDF rows X of the training texts;    vector = x V

The vectors equal those of scikit-learn (CountVectorizer, TfidfVectorizer, TruncatedSVD) for the same words; the words
come from the segmentation of the corpus. A text without a known word has the zero vector. The texts over which document
frequencies are counted may be the documents of a corpus or its sentences.

Sentence encoders with sparse vectors, as long as the vocabulary.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, unit_rows
from polyseme.errors import TrainingError, altered_model
from polyseme.interfaces import TEXTS_AT_ONCE, Sentence, SentenceEncoder, batched, several, text_batches
from polyseme.options import option
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.run import Run, Trainable
from polyseme.words.vectors import matrix_of, vocabulary_of
from polyseme.words.vocabulary_plan import frequent_words

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from typing_extensions import Self

DENSE_BYTES = 64 << 20  # of a batch that is made dense


class SparseEncoder(SentenceEncoder):
    """An encoder with sparse vectors; ``encode`` returns them dense, ``encode_sparse`` sparse."""

    @abstractmethod
    def sparse_batch(self, texts: list[Sentence]) -> csr_array:
        """Vectors of some texts, ``(n, dim)`` float32, as a CSR matrix."""

    def encode_batch(self, texts: list[Sentence]) -> FloatArray:
        """Vectors of some texts, ``(n, dim)``."""
        return np.asarray(self.sparse_batch(texts).toarray(), dtype=np.float32)

    def encode_sparse(self, texts: Iterable[Sentence]) -> csr_array:
        """Vectors of the texts, ``(n, dim)``, as a CSR matrix."""
        from scipy.sparse import csr_array, vstack

        rows = [self.sparse_batch(batch) for batch in text_batches(several(texts))]
        whole: csr_array = vstack([csr_array((0, self.dim), dtype=np.float32), *rows], format="csr")
        return whole

    def stream(self, texts: Iterable[Sentence]) -> Iterator[FloatArray]:
        """The vectors one by one, also for an endless stream of texts."""
        size = max(1, min(TEXTS_AT_ONCE, DENSE_BYTES // (4 * self.dim)))
        return (vector for batch in batched(several(texts), size) for vector in self.encode_batch(batch))

    def transform(self, texts: Iterable[Sentence]) -> csr_array:
        """``encode_sparse``, under scikit-learn's name."""
        return self.encode_sparse(texts)

    def similarity(self, a: Iterable[Sentence] | FloatArray, b: Iterable[Sentence] | FloatArray) -> FloatArray:
        """Cosines of every text of ``a`` with every text of ``b``, ``(len(a), len(b))``; either may be vectors."""
        if any(hasattr(given, "shape") for given in (a, b)):
            return super().similarity(a, b)
        return cosines(unit_vectors(self, a), unit_vectors(self, b))


def unit_sparse(rows: csr_array) -> csr_array:
    """The rows scaled to length one; a zero row stays zero."""
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1))).ravel()
    scaled = rows.copy()
    scaled.data = (scaled.data / np.repeat(np.where(norms > 0, norms, 1), np.diff(scaled.indptr))).astype(np.float32)
    return scaled


def unit_vectors(encoder: SentenceEncoder, texts: Iterable[Sentence]) -> FloatArray | csr_array:
    """Vectors of length one, ``(n, dim)``, as a CSR matrix if the encoder is sparse."""
    if isinstance(encoder, SparseEncoder):
        return unit_sparse(encoder.encode_sparse(texts))
    return unit_rows(encoder.encode(texts))


def cosines(left: FloatArray | csr_array, right: FloatArray | csr_array) -> FloatArray:
    """The cosine of every row of ``left`` with every row of ``right``, both of length one: ``(n, m)``."""
    found = left @ right.T
    return np.asarray(found if isinstance(found, np.ndarray) else found.toarray(), dtype=np.float32)


def paired_cosines(left: Any, right: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
    """The cosine of each row of ``left`` with the same row of ``right``, ``(n,)``, and whether neither row is zero.

    Both are of length one, and dense or CSR matrices alike.
    """
    products = (left * right if isinstance(left, np.ndarray) else left.multiply(right)).sum(axis=1)
    filled = np.logical_and(*(np.asarray(abs(rows).sum(axis=1)).ravel() > 0 for rows in (left, right)))
    return np.asarray(products, dtype=np.float32).ravel(), filled


_BLOCK_TOKENS = 1 << 20  # tokens of the corpus counted at a time


@dataclass(frozen=True)
class BowOptions:
    """Options of bag of words."""

    entries: str = option("counts", "weight of a word", choices=("counts", "presence", "log"))
    min_count: int = option(1, "minimum word count; rarer words are dropped", minimum=1)
    max_size: int | None = option(None, "maximum vocabulary size; default: no limit", minimum=1)
    max_share: float = option(1.0, "words in more than this fraction of the texts are dropped", minimum=0, maximum=1)
    texts: str = option(
        "auto",
        "unit of text; auto: documents, or sentences if there is only one document",
        choices=("auto", "documents", "sentences"),
    )


@dataclass(frozen=True)
class TfidfOptions(BowOptions):
    """Options of TF-IDF."""

    idf: str = option("smooth", "inverse document frequency: ln((1+N)/(1+df)) + 1, or ln(N/df) + 1, or none",
                      choices=("smooth", "plain", "none"))  # fmt: skip
    norm: str = option("l2", "normalise vectors to length one, or not", choices=("l2", "none"))


@dataclass(frozen=True)
class LsaOptions(TfidfOptions):
    """Options of latent semantic analysis."""

    dim: int = option(200, "dimension of a vector", minimum=1)
    iterations: int = option(5, "power iterations of the randomised SVD", minimum=0)
    seed: int = option(1, "random seed", minimum=0)


class Bow(Trainable, SparseEncoder):
    """Bag of words: a vocabulary with the document frequency of each word."""

    method: ClassVar[str] = "bow"
    Options: ClassVar[type] = BowOptions
    trains_further: ClassVar[bool] = False
    options: BowOptions

    def __init__(
        self,
        vocabulary: Vocabulary,
        frequencies: NDArray[np.int64],
        n_texts: int,
        *,
        options: BowOptions,
        about: About | None = None,
    ) -> None:
        self.vocabulary, self.frequencies, self.n_texts = vocabulary, frequencies, n_texts
        self.options, self.about = options, about or About()
        self.dim = len(vocabulary)

    @classmethod
    def train(cls, corpus: Corpus, options: BowOptions, run: Run) -> Self:
        vocabulary = frequent_words(corpus, options.min_count, options.max_size)
        offsets = text_offsets(corpus, options.texts)
        frequencies = np.zeros(len(vocabulary), dtype=np.int64)
        for rows, done in term_rows(corpus, offsets, len(vocabulary)):
            frequencies += np.bincount(rows.indices, minlength=len(vocabulary))
            run.progress("counting", done, corpus.n_tokens)
        n_texts = len(offsets) - 1
        kept = np.flatnonzero(frequencies <= options.max_share * n_texts)
        if not len(kept):
            raise TrainingError(f"every word occurs in more than {options.max_share:.0%} of the texts: raise max_share")
        words = Vocabulary([vocabulary.words[i] for i in kept], vocabulary.counts[kept])
        about = About(corpus.segmentation, corpus.facts)
        return cls(words, frequencies[kept], n_texts, options=options, about=about)

    def sparse_batch(self, texts: list[Sentence]) -> csr_array:
        """The weighted word counts of each text, ``(n, V)``."""
        return self.weighed(count_rows(self.tokenize_all(texts), self.vocabulary))

    def weighed(self, rows: csr_array) -> csr_array:
        """Rows of counts, weighted as the options say."""
        if self.options.entries == "presence":
            rows.data[:] = 1
        elif self.options.entries == "log":
            rows.data = 1 + np.log(rows.data)
        return rows

    def parts(self) -> Parts:
        """The words, their counts and frequencies."""
        tensors = {"counts": self.vocabulary.counts, "frequencies": self.frequencies, "texts": np.array([self.n_texts])}
        return Parts(tensors, {"vocab": self.vocabulary.words})

    @classmethod
    def from_parts(cls, options: Any, parts: Parts, about: About) -> Self:
        vocabulary = vocabulary_of(parts)
        frequencies = parts.tensor("frequencies", (len(vocabulary),), np.integer)
        n_texts = parts.tensor("texts", (1,), np.integer)
        if np.any(frequencies < 0) or np.any(frequencies > n_texts[0]):
            raise altered_model("a word occurs in more texts than there are")
        return cls(vocabulary, np.array(frequencies, np.int64), int(n_texts[0]), options=options, about=about)


class Tfidf(Bow):
    """Bag of words weighted by inverse document frequency."""

    method: ClassVar[str] = "tfidf"
    Options: ClassVar[type] = TfidfOptions
    options: TfidfOptions

    def __init__(self, *parts: Any, **known: Any) -> None:
        super().__init__(*parts, **known)
        self.idf = inverse_frequencies(self.frequencies, self.n_texts, self.options.idf)

    def weighed(self, rows: csr_array) -> csr_array:
        rows = super().weighed(rows)
        rows.data = rows.data * self.idf[rows.indices]
        return unit_sparse(rows) if self.options.norm == "l2" else rows


class Lsa(Trainable, SentenceEncoder):
    """TF-IDF vectors projected on the main singular directions of the training texts."""

    method: ClassVar[str] = "lsa"
    Options: ClassVar[type] = LsaOptions
    shortens: ClassVar[bool] = True  # its dimensions are in the order of the singular values
    trains_further: ClassVar[bool] = False
    options: LsaOptions

    def __init__(self, rows: Tfidf, directions: FloatArray, *, options: LsaOptions, about: About | None = None) -> None:
        self.rows, self.directions = rows, directions  # (V, D)
        self.options, self.about = options, about or About.of(rows)
        self.dim = int(directions.shape[1])

    @classmethod
    def train(cls, corpus: Corpus, options: LsaOptions, run: Run) -> Self:
        from scipy.sparse import vstack
        from sklearn.utils.extmath import randomized_svd

        rows = Tfidf.train(corpus, options, run)
        offsets = text_offsets(corpus, options.texts)
        columns = np.full(len(corpus.all_words), len(rows.vocabulary), dtype=np.int32)
        places = corpus.vocabulary.index
        columns[[places[word] for word in rows.vocabulary.words]] = np.arange(len(rows.vocabulary))
        blocks = [rows.weighed(block) for block, _ in term_rows(corpus, offsets, len(rows.vocabulary), columns)]
        matrix = vstack(blocks, format="csr")
        most = min(matrix.shape)
        if options.dim > most:
            raise TrainingError(
                f"{matrix.shape[0]:,} texts of {matrix.shape[1]:,} words have at most {most} directions: lower dim"
            )
        run.progress("factoring", 0, None)
        found = randomized_svd(matrix, options.dim, n_iter=options.iterations, random_state=options.seed)
        directions = np.ascontiguousarray(found[2].T, dtype=np.float32)
        run.progress("factoring", 1, 1)
        return cls(rows, directions, options=options)

    def encode_batch(self, texts: list[Sentence]) -> FloatArray:
        """``(n, V) · (V, D) -> (n, D)``"""
        return np.asarray(self.rows.sparse_batch(texts) @ self.directions, dtype=np.float32)

    def parts(self) -> Parts:
        """The parts of the TF-IDF model, and the directions."""
        parts = self.rows.parts()
        return Parts({**parts.tensors, "directions": self.directions}, parts.tables)

    @classmethod
    def from_parts(cls, options: LsaOptions, parts: Parts, about: About) -> Self:
        rows = Tfidf.from_parts(options, parts, about)
        return cls(rows, matrix_of(parts, "directions", rows.dim), options=options, about=about)


def inverse_frequencies(frequencies: NDArray[np.int64], n_texts: int, kind: str) -> FloatArray:
    """The idf of words with these document frequencies."""
    if kind == "none":
        return np.ones(len(frequencies), dtype=np.float32)
    if kind == "plain":
        return np.asarray(np.log(n_texts / np.maximum(frequencies, 1)) + 1, dtype=np.float32)
    return np.asarray(np.log((1 + n_texts) / (1 + frequencies)) + 1, dtype=np.float32)


def count_rows(texts: list[list[str]], vocabulary: Vocabulary) -> csr_array:
    """How often each word of the vocabulary occurs in each text, ``(n, V)`` float32."""

    index, unknown = vocabulary.index, len(vocabulary)
    columns = np.array([index.get(word, unknown) for words in texts for word in words], dtype=np.int32)
    starts = np.concatenate([[0], np.cumsum([len(words) for words in texts], dtype=np.int64)])
    return _counted(columns, starts, unknown)


def text_offsets(corpus: Corpus, texts: str) -> NDArray[np.int64]:
    """Where the texts of a corpus begin and end, in tokens."""
    return np.asarray(corpus.sentence_offsets)[sentence_numbers(corpus, texts)]


def sentence_numbers(corpus: Corpus, texts: str) -> NDArray[np.int64]:
    """Where the texts of a corpus begin and end, in sentences."""
    by_document = texts == "documents" or (texts == "auto" and corpus.n_documents > 1)
    return np.asarray(corpus.document_offsets) if by_document else np.arange(corpus.n_sentences + 1)


def term_rows(
    corpus: Corpus, offsets: NDArray[np.int64], size: int, columns: NDArray[np.int32] | None = None
) -> Iterator[tuple[csr_array, int]]:
    """``count_rows`` for a corpus, a block of texts at a time, each with the number of tokens read so far.

    ``columns`` maps a word of the corpus to its column (``size`` or more: none); by default, its column is its number.
    """
    first, last = 0, len(offsets) - 1
    while first < last:
        enough = int(np.searchsorted(offsets, offsets[first] + _BLOCK_TOKENS, side="right")) - 1
        end = min(max(enough, first + 1), last)
        ids = np.asarray(corpus.ids[offsets[first] : offsets[end]])
        yield (
            _counted(ids if columns is None else columns[ids], offsets[first : end + 1] - offsets[first], size),
            int(offsets[end]),
        )
        first = end


def _counted(columns: NDArray[np.int32], starts: NDArray[np.int64], size: int) -> csr_array:
    from scipy.sparse import csr_array

    known = columns < size
    before = np.concatenate([[0], np.cumsum(known)])
    rows = csr_array(
        (np.ones(int(before[-1]), dtype=np.float32), columns[known], before[starts]), shape=(len(starts) - 1, size)
    )
    rows.sum_duplicates()
    return rows
