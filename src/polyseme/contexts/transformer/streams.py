"""A corpus as subwords, read from disk: only the subwords of its words and the sentence lengths are in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from polyseme.contexts.transformer.pieces import Ints, Pieces
from polyseme.text.corpus import Corpus

WORDS_AT_ONCE = 50_000
TOKENS_AT_ONCE = 1 << 22
SENTENCES_AT_ONCE = 1 << 16
HELD_OUT_PIECES = 20_000
FEW_DOCUMENTS = 10


@dataclass(frozen=True)
class Stretch:
    """Consecutive subwords, and the word of each, numbered within the stretch (-1: not part of a word)."""

    ids: Ints
    words: Ints


class PieceTable:
    """The subwords of every word of a corpus."""

    def __init__(self, corpus: Corpus, pieces: Pieces) -> None:
        self.corpus = corpus
        words, counts, flat = corpus.all_words, list[int](), list[Ints]()
        for start in range(0, len(words), WORDS_AT_ONCE):
            found = pieces.ids(words[start : start + WORDS_AT_ONCE])
            counts += [len(ids) for ids in found]
            flat += found
        self.counts = np.array(counts, dtype=np.int32)
        self.flat = np.concatenate(flat) if flat else np.zeros(0, dtype=np.int64)
        self.starts = np.cumsum(self.counts, dtype=np.int64) - self.counts

    @cached_property
    def sentence_sizes(self) -> Ints:
        """The number of subwords of every sentence."""
        corpus, offsets = self.corpus, self.corpus.sentence_offsets
        sizes = np.zeros(len(corpus), dtype=np.int64)
        for first in range(0, len(corpus), SENTENCES_AT_ONCE):
            last = min(first + SENTENCES_AT_ONCE, len(corpus))
            counts = self.counts[corpus.ids[offsets[first] : offsets[last]]]
            before = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
            sizes[first:last] = np.diff(before[offsets[first : last + 1] - offsets[first]])
        return sizes

    def frequencies(self, n_pieces: int) -> Ints:
        """How often each subword occurs in the corpus."""
        words = np.zeros(len(self.counts), dtype=np.int64)
        for start in range(0, len(self.corpus.ids), TOKENS_AT_ONCE):
            words += np.bincount(self.corpus.ids[start : start + TOKENS_AT_ONCE], minlength=len(words))
        by_place = np.repeat(words, self.counts)
        return np.bincount(self.flat, weights=by_place, minlength=n_pieces).astype(np.int64)

    def pieces_of(self, ids: NDArray[np.integer]) -> Stretch:
        """The subwords of a sequence of word ids."""
        counts = self.counts[ids]
        total = int(counts.sum())
        words = np.repeat(np.arange(len(ids)), counts)
        first = np.cumsum(counts) - counts
        places = np.repeat(self.starts[ids] - first, counts) + np.arange(total)
        return Stretch(self.flat[places], words)


class PieceCorpus:
    """Some sentences of a corpus as one stream of subwords; ``end`` follows each document or sentence (``behind``)."""

    def __init__(self, table: PieceTable, sentences: Ints, *, end: int | None = None, behind: str = "document") -> None:
        self.corpus, self.table, self.sentences, self.end = table.corpus, table, sentences, end
        documents = self.corpus.sentence_documents[sentences]
        last = np.append(documents[1:] != documents[:-1], True) if len(sentences) else np.zeros(0, dtype=bool)
        self.ended = (last if behind == "document" else np.ones_like(last)) & (end is not None)
        self.sizes = table.sentence_sizes[sentences] + self.ended
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        self.document_ends = np.flatnonzero(last) + 1  # among these sentences

    @property
    def n_pieces(self) -> int:
        """The length of the stream."""
        return int(self.offsets[-1])

    def stretch(self, start: int, end: int) -> Stretch:
        """The subwords ``start … end`` of the stream."""
        first = int(np.searchsorted(self.offsets, start, side="right")) - 1
        last = int(np.searchsorted(self.offsets, end, side="left"))
        whole = self.sentences_between(first, last)
        offset = int(self.offsets[first])
        return Stretch(whole.ids[start - offset : end - offset], whole.words[start - offset : end - offset])

    def sentences_between(self, first: int, last: int) -> Stretch:
        """The subwords of the sentences ``first … last`` of the stream."""
        offsets, ids = self.corpus.sentence_offsets, self.corpus.ids
        parts: list[Stretch] = []
        known = 0
        for place in range(first, last):
            sentence = self.sentences[place]
            found = self.table.pieces_of(ids[offsets[sentence] : offsets[sentence + 1]])
            parts.append(Stretch(found.ids, found.words + known))
            known += int(offsets[sentence + 1] - offsets[sentence])
            if self.ended[place]:
                parts.append(Stretch(np.array([self.end]), np.array([-1])))
        if not parts:
            return Stretch(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        return Stretch(np.concatenate([part.ids for part in parts]), np.concatenate([part.words for part in parts]))


def split(table: PieceTable, share: float, seed: int) -> tuple[Ints, Ints]:
    """Training and held-out sentences: the latter are random documents, or the end of a text with few documents.

    No document is more than a quarter of what is held out, unless all are.
    """
    corpus, sizes = table.corpus, table.sentence_sizes
    everything = np.arange(len(corpus))
    wanted = min(share * int(sizes.sum()), HELD_OUT_PIECES)
    if not share or len(corpus) < 2:
        return everything, everything[:0]
    if corpus.n_documents < FEW_DOCUMENTS:
        n = max(int(np.searchsorted(np.cumsum(sizes[::-1]), wanted, side="right")), 1)
        return everything[:-n], everything[-n:]
    of_documents = np.bincount(corpus.sentence_documents, weights=sizes, minlength=corpus.n_documents)
    order = np.random.default_rng(seed).permutation(corpus.n_documents)
    short = order[of_documents[order] <= max(wanted / 4, of_documents.min())]
    n = max(int(np.searchsorted(np.cumsum(of_documents[short]), wanted, side="right")), 1)
    held_out = np.isin(corpus.sentence_documents, short[:n])
    return everything[~held_out], everything[held_out]
