"""A corpus as subwords, read from disk: only the subwords of its words and the sentence lengths are in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from polyseme.contexts.transformer.tokenizer import ATTACHED, FIRST, SPACED, Ints, Pieces, attachments, word_forms
from polyseme.text.corpus import Corpus

WORDS_AT_ONCE = 50_000
WORDS_PROBED = 2_000
TOKENS_AT_ONCE = 1 << 22
SENTENCES_AT_ONCE = 1 << 16
HELD_OUT_PIECES = 20_000
FEW_PIECES = 300  # the report on fewer held-out subwords is left to chance
FEW_DOCUMENTS = 10


@dataclass(frozen=True)
class TokenRun:
    """Consecutive subwords, and the word of each, numbered within the stretch (-1: not part of a word)."""

    ids: Ints
    words: Ints


class PieceTable:
    """The subwords of every word of a corpus, in each form that it has in running text (``word_forms``).

    Form f of word w has the number f · n_words + w. If the forms do not differ (WordPiece), there is only the first.
    """

    def __init__(self, corpus: Corpus, pieces: Pieces, *, texts: str = "document") -> None:
        """``texts``: what is a text of its own, so that its first word follows nothing: a document or a sentence."""
        self.corpus = corpus
        words = corpus.all_words
        # A tokenizer that marks spaces does so in every word, so the most frequent ones tell.
        probe = [_packed(sequences) for sequences in word_forms(words[:WORDS_PROBED], pieces)]
        self.varies = not all(probe[0].equals(form) for form in probe[1:])
        parts: list[list[_PackedSequences]] = []  # of some words: their forms
        for start in range(0, len(words), WORDS_AT_ONCE):
            chunk = words[start : start + WORDS_AT_ONCE]
            parts.append(
                [
                    _packed(sequences)
                    for sequences in (word_forms(chunk, pieces) if self.varies else [pieces.ids(chunk)])
                ]
            )
        whole = _joined([part for form in zip(*parts, strict=True) for part in form])
        self.counts, self.flat, self.n_words = whole.counts, whole.flat, len(words)
        self.starts = np.cumsum(self.counts, dtype=np.int64) - self.counts
        self.space_free = attachments(words) if self.varies else None
        first_sentences = corpus.document_offsets[:-1] if texts == "document" else np.arange(len(corpus))
        self.text_starts = np.asarray(corpus.sentence_offsets)[first_sentences]

    @cached_property
    def sentence_sizes(self) -> Ints:
        """The number of subwords of every sentence."""
        corpus, offsets = self.corpus, self.corpus.sentence_offsets
        sizes = np.zeros(len(corpus), dtype=np.int64)
        for first in range(0, len(corpus), SENTENCES_AT_ONCE):
            last = min(first + SENTENCES_AT_ONCE, len(corpus))
            counts = self.counts[self.forms(int(offsets[first]), int(offsets[last]))]
            before = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
            sizes[first:last] = np.diff(before[offsets[first : last + 1] - offsets[first]])
        return sizes

    def frequencies(self, n_pieces: int) -> Ints:
        """How often each subword occurs in the corpus."""
        n, forms = len(self.corpus.ids), np.zeros(len(self.counts), dtype=np.int64)
        for start in range(0, n, TOKENS_AT_ONCE):
            forms += np.bincount(self.forms(start, min(start + TOKENS_AT_ONCE, n)), minlength=len(forms))
        by_place = np.repeat(forms, self.counts)
        return np.bincount(self.flat, weights=by_place, minlength=n_pieces).astype(np.int64)

    def forms(self, start: int, end: int) -> NDArray[np.integer]:
        """The number of the word form of each of the tokens ``start … end`` of the corpus."""
        ids = self.corpus.ids[start:end]
        if self.space_free is None:
            return ids
        before_it, after_it = self.space_free
        previous = self.corpus.ids[max(start - 1, 0) : max(end - 1, 0)]
        attached = before_it[ids]
        attached[len(ids) - len(previous) :] |= after_it[previous]
        form = np.where(attached, ATTACHED, SPACED)
        first, last = np.searchsorted(self.text_starts, (start, end))
        form[self.text_starts[first:last] - start] = FIRST
        return form * self.n_words + ids

    def pieces_of(self, start: int, end: int) -> TokenRun:
        """The subwords of the tokens ``start … end`` of the corpus."""
        forms = self.forms(start, end)
        counts = self.counts[forms]
        total = int(counts.sum())
        words = np.repeat(np.arange(len(forms)), counts)
        first = np.cumsum(counts) - counts
        places = np.repeat(self.starts[forms] - first, counts) + np.arange(total)
        return TokenRun(self.flat[places], words)


@dataclass(frozen=True)
class _PackedSequences:
    """Sequences of subwords, one after the other, and the length of each."""

    counts: NDArray[np.int32]
    flat: Ints

    def equals(self, other: _PackedSequences) -> bool:
        return np.array_equal(self.counts, other.counts) and np.array_equal(self.flat, other.flat)


def _packed(sequences: list[Ints]) -> _PackedSequences:
    flat = np.concatenate(sequences) if sequences else np.zeros(0, dtype=np.int64)
    return _PackedSequences(np.array([len(ids) for ids in sequences], dtype=np.int32), flat)


def _joined(parts: list[_PackedSequences]) -> _PackedSequences:
    parts = parts or [_packed([])]
    return _PackedSequences(
        np.concatenate([part.counts for part in parts]), np.concatenate([part.flat for part in parts])
    )


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

    def stretch(self, start: int, end: int) -> TokenRun:
        """The subwords ``start … end`` of the stream."""
        first = int(np.searchsorted(self.offsets, start, side="right")) - 1
        last = int(np.searchsorted(self.offsets, end, side="left"))
        whole = self.sentences_between(first, last)
        offset = int(self.offsets[first])
        return TokenRun(whole.ids[start - offset : end - offset], whole.words[start - offset : end - offset])

    def sentences_between(self, first: int, last: int) -> TokenRun:
        """The subwords of the sentences ``first … last`` of the stream."""
        offsets = self.corpus.sentence_offsets
        parts: list[TokenRun] = []
        known = 0
        for place in range(first, last):
            sentence = self.sentences[place]
            run = self.table.pieces_of(int(offsets[sentence]), int(offsets[sentence + 1]))
            parts.append(TokenRun(run.ids, run.words + known))
            known += int(offsets[sentence + 1] - offsets[sentence])
            if self.ended[place]:
                parts.append(TokenRun(np.array([self.end]), np.array([-1])))
        if not parts:
            return TokenRun(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        return TokenRun(np.concatenate([part.ids for part in parts]), np.concatenate([part.words for part in parts]))


def split(table: PieceTable, share: float, seed: int) -> tuple[Ints, Ints]:
    """Training and held-out sentences: the latter are random documents, or the end of a text with few documents.

    No document is more than a quarter of what is held out, unless too little would be left. If most documents are even
    longer than all of it, the end of the text is added.
    """
    corpus, sizes = table.corpus, table.sentence_sizes
    everything, held_out = np.arange(len(corpus)), np.zeros(len(corpus), dtype=bool)
    wanted = min(share * int(sizes.sum()), HELD_OUT_PIECES)
    if not share or len(corpus) < 2:
        return everything, everything[:0]
    enough = min(wanted / 2, FEW_PIECES)
    if corpus.n_documents >= FEW_DOCUMENTS:
        of_documents = np.bincount(corpus.sentence_documents, weights=sizes, minlength=corpus.n_documents)
        order = np.random.default_rng(seed).permutation(corpus.n_documents)
        for most in (wanted / 4, wanted / 2, wanted):
            short = order[of_documents[order] <= most]
            n = int(np.searchsorted(np.cumsum(of_documents[short]), wanted, side="right"))
            held_out = np.isin(corpus.sentence_documents, short[:n])
            if sizes[held_out].sum() >= enough:
                break
    missing = wanted - sizes[held_out].sum()
    if not held_out.any() or wanted - missing < enough:
        n = int(np.searchsorted(np.cumsum(sizes[::-1]), missing, side="right"))
        held_out[len(corpus) - max(n, 1) :] = True
    return everything[~held_out], everything[held_out]
