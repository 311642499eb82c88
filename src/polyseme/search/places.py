"""Which words of a corpus a piece of its text is in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polyseme.text.corpus import Corpus

Places = NDArray[np.int64]


def words_of(corpus: Corpus, sentences: Places, spans: Places) -> Places:
    """For pieces given by their bytes: the first word of each, and the one after its last, ``(n, 2)``."""
    places = np.zeros((len(sentences), 2), dtype=np.int64)
    last = -1
    for hit, (sentence, (first_byte, end_byte)) in enumerate(zip(sentences.tolist(), spans.tolist(), strict=True)):
        if sentence != last:  # pieces of one sentence follow each other
            starts, ends, spaced = _token_bounds(corpus, sentence)
            origin, offset = int(corpus.text_spans[sentence, 0]), int(corpus.sentence_offsets[sentence])
            last = sentence
        start, end = len(decoded(corpus, origin, first_byte)), len(decoded(corpus, origin, end_byte))
        if spaced:
            start, end = spaced[start], spaced[end]
        first = min(int(np.searchsorted(ends, start, side="right")), max(len(ends) - 1, 0))
        behind = max(int(np.searchsorted(starts, end, side="left")), first + 1)
        places[hit] = offset + first, offset + behind
    return places


def decoded(corpus: Corpus, start: int, end: int) -> str:
    """The text between two bytes."""
    return corpus.text_bytes[start:end].tobytes().decode("utf-8", "replace")


def _token_bounds(corpus: Corpus, sentence: int) -> tuple[Places, Places, list[int]]:
    """Where the words of a sentence begin and end in its text.

    Mostly the words are the text without its spaces: then places are counted without spaces, and the third value says
    how many other characters stand before each one.
    """
    text, tokens = corpus.text(sentence), corpus.sentence(sentence)
    if "".join(text.split()) == "".join(tokens):
        sizes = np.array([len(token) for token in tokens], dtype=np.int64)
        ends = np.cumsum(sizes)
        return ends - sizes, ends, np.cumsum([0, *(not c.isspace() for c in text)]).tolist()
    spans = np.array(corpus.token_spans(sentence), dtype=np.int64).reshape(-1, 2)
    return spans[:, 0], spans[:, 1], []


def words_beside(corpus: Corpus, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """The word before and the word after each token, by number, ``(n, 2)``; -1 at the edge of a sentence."""
    sentences = np.searchsorted(corpus.sentence_offsets, tokens, side="right") - 1
    first, last = corpus.sentence_offsets[sentences], corpus.sentence_offsets[sentences + 1] - 1
    ids, end = corpus.ids, len(corpus.ids) - 1
    before = np.where(tokens > first, ids[np.maximum(tokens - 1, 0)], -1)
    behind = np.where(tokens < last, ids[np.minimum(tokens + 1, end)], -1)
    return np.stack([before, behind], axis=1).astype(np.int64)
