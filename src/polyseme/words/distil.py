"""Distilled vectors 蒸馏词向量: static word vectors from any context encoder, averaged over each word's occurrences.

Bommasani, Davis and Cardie, Interpreting Pretrained Contextualized Representations via Reductions to Static
Embeddings, 2020 (their aggregation by the mean).

    x_w = 1/n_w Σ_{occurrences i of w}  h_i,      h_i the vector of one layer at that position

With ``weight=document`` every document that contains a word counts the same, however often the word occurs in it. With
``pca`` the vectors are centred, which removes what the vectors of all words share, and only their principal components
are kept.

What differs from the paper: the text is read once, in order, and only a running mean is kept for each word, so memory
does not grow with the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints, main_directions
from polyseme.errors import OptionError
from polyseme.interfaces import ContextEncoder, Layers
from polyseme.options import option
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.training.checkpoint import Snapshot
from polyseme.training.run import Run
from polyseme.words.vectors import WordVectors
from polyseme.words.vocabulary_plan import frequent_words

if TYPE_CHECKING:
    from typing_extensions import Self

_BLOCK_TOKENS = 8192  # encoded at a time
_CHECKPOINT_TOKENS = 50 * _BLOCK_TOKENS


@dataclass(frozen=True)
class DistilOptions:
    """Options of distilled vectors: what is averaged, and how."""

    layers: str = option("mean", "layer to average: top, mean, mix or a number")
    weight: str = option(
        "occurrence",
        "weight equally every occurrence of a word, or every document it occurs in",
        choices=("occurrence", "document"),
    )
    pca: int = option(
        0, "centre the vectors and keep this many principal components; 0: keep them unchanged", minimum=0
    )
    min_count: int = option(5, "minimum word count; rarer words are dropped", minimum=1)
    max_size: int | None = option(None, "maximum vocabulary size; default: no limit", minimum=1)
    occurrences: int | None = option(
        None, "maximum occurrences needed per word: sentences that add none are skipped", minimum=1
    )
    encoder: str = option("", "the method of the encoder")


class Distilled(WordVectors):
    """Word vectors that are means of contextual vectors."""

    method: ClassVar[str] = "distilled"
    Options: ClassVar[type] = DistilOptions

    @classmethod
    def of(cls, encoder: ContextEncoder, corpus: Corpus, options: DistilOptions, run: Run) -> Self:
        """Encode the corpus and average the vectors of each word."""
        if Layers.read(options.layers, encoder.n_layers).n_planes > 1:
            raise OptionError("a word vector uses one layer: top, mean, mix or a number")
        vocabulary = frequent_words(corpus, options.min_count, options.max_size)
        reading = _Reading(encoder, corpus, options, len(vocabulary))
        vectors = _components(reading.means(run), options.pca)
        return cls(vocabulary, vectors, options=options, about=About(corpus.segmentation, corpus.facts))


class _Means:
    """A running mean for each word."""

    def __init__(self, n_words: int, dim: int) -> None:
        self.mean = np.zeros((n_words, dim), dtype=np.float32)
        self.weight = np.zeros(n_words, dtype=np.int64)

    def add(self, words: Ints, sums: NDArray[np.float64], weights: Ints) -> None:
        """Add ``sums`` (n, D) over ``weights`` vectors of n distinct words: m += (Σ - n·m) / n_so_far."""
        self.weight[words] += weights
        before = self.mean[words].astype(np.float64)
        self.mean[words] = before + (sums - weights[:, None] * before) / self.weight[words, None]


class _Reading:
    """One pass over the corpus."""

    def __init__(self, encoder: ContextEncoder, corpus: Corpus, options: DistilOptions, n_words: int) -> None:
        self.encoder, self.corpus, self.options, self.n_words = encoder, corpus, options, n_words
        self.totals = _Means(n_words, encoder.dim)
        by_document = options.weight == "document"
        self.within = _Means(n_words, encoder.dim) if by_document else self.totals  # of the document being read
        self.read = np.zeros(n_words, dtype=np.int64)  # occurrences of each word

    def means(self, run: Run) -> FloatArray:
        """The mean vectors, ``(V, D)``."""
        offsets, done, since = self.corpus.sentence_offsets, self._resumed(run), 0
        for first, last in self._blocks(done):
            self._add(first, last)
            if self.within is not self.totals and self._ends_a_document(last):
                self._close_document()
            since += int(offsets[last] - offsets[first])
            if since >= _CHECKPOINT_TOKENS:
                run.save(self._snapshot(last))
                since = 0
            run.progress("distilling", int(offsets[last]), int(offsets[-1]))
        return self.totals.mean

    def _blocks(self, first: int) -> Iterator[tuple[int, int]]:
        """Ranges of sentences with about ``_BLOCK_TOKENS`` tokens; none crosses documents if these are weighted."""
        corpus, end = self.corpus, self.corpus.n_sentences
        while first < end:
            enough = corpus.sentence_offsets[first] + _BLOCK_TOKENS
            last = max(first + 1, int(np.searchsorted(corpus.sentence_offsets, enough, side="right")) - 1)
            if self.within is not self.totals:
                last = min(last, int(corpus.document_offsets[corpus.sentence_documents[first] + 1]))
            yield first, min(last, end)
            first = min(last, end)

    def _add(self, first: int, last: int) -> None:
        corpus, offsets = self.corpus, self.corpus.sentence_offsets
        wanted = [i for i in range(first, last) if self._wants(corpus.ids[offsets[i] : offsets[i + 1]])]
        if not wanted:
            return
        ids = np.concatenate([corpus.ids[offsets[i] : offsets[i + 1]] for i in wanted])
        encoded = self.encoder.encode_tokens([corpus.sentence(i) for i in wanted], layers=self.options.layers)
        vectors = np.concatenate([sentence.layers[0] for sentence in encoded])  # (n, D)
        order = np.argsort(ids, kind="stable")
        order = order[: np.searchsorted(ids[order], self.n_words)]  # words outside the vocabulary have higher ids
        words, starts, counts = np.unique(ids[order], return_index=True, return_counts=True)
        if len(words):
            sums = np.add.reduceat(vectors[order], starts, axis=0, dtype=np.float64)
            self.within.add(words.astype(np.int64), sums, counts)
            self.read[words] += counts

    def _wants(self, ids: NDArray[np.int32]) -> bool:
        if self.options.occurrences is None:
            return True
        known = ids[ids < self.n_words]
        return bool((self.read[known] < self.options.occurrences).any())

    def _ends_a_document(self, sentence: int) -> bool:
        documents = self.corpus.document_offsets
        return bool(documents[np.searchsorted(documents, sentence)] == sentence)

    def _close_document(self) -> None:
        words = np.flatnonzero(self.within.weight)
        self.totals.add(words, self.within.mean[words].astype(np.float64), np.ones(len(words), dtype=np.int64))
        self.within.mean[words], self.within.weight[words] = 0, 0

    def _snapshot(self, sentence: int) -> Snapshot:
        tensors: dict[str, NDArray[Any]] = {"mean": self.totals.mean, "weight": self.totals.weight, "read": self.read}
        if self.within is not self.totals:
            tensors |= {"within.mean": self.within.mean, "within.weight": self.within.weight}
        return Snapshot(tensors, {"sentence": sentence})

    def _resumed(self, run: Run) -> int:
        snapshot = run.resumed()
        if snapshot is None:
            return 0
        for name, array in self._snapshot(0).tensors.items():
            array[...] = snapshot.tensors[name]
        return int(snapshot.state["sentence"])


def _components(vectors: FloatArray, n: int) -> FloatArray:
    if not n:
        return vectors
    centred = vectors - vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    return np.asarray(centred @ main_directions(centred, n)[0].astype(np.float32))
