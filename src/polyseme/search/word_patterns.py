"""Words in a row, each given by its letters, by a pattern of them, by its tag, or by both: ``打/v */n``."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import OptionError
from polyseme.text.corpus import Corpus
from polyseme.text.segment import FUNCTION

_BLOCK = 1 << 22  # words of the text looked at together
_TAGGED = re.compile(r".*/[A-Za-z]{1,4}\*?")  # a word with a tag, if it is not just text

Places = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Element:
    """What one word must be; None requests nothing."""

    word: int | None = None  # its number; -1 for a word that the corpus does not have
    words: Mask | None = None  # by number
    tags: Mask | None = None  # by number


def find_words(corpus: Corpus, query: str) -> tuple[Places, Places]:
    """Sentences (n,), and the first and last + 1 of the words (n, 2) among those of the corpus."""
    elements = [_element(corpus, part) for part in _parts(corpus, query)]
    length = len(elements)
    firsts = [np.zeros(0, dtype=np.int64)]
    for begin in range(0, corpus.n_tokens - length + 1, _BLOCK):
        end = min(begin + _BLOCK, corpus.n_tokens - length + 1)
        firsts.append(begin + np.flatnonzero(_hits(corpus, elements, begin, end)))
    first = np.concatenate(firsts)
    sentences = np.searchsorted(corpus.sentence_offsets, first, side="right") - 1
    whole = first + length <= corpus.sentence_offsets[sentences + 1]  # not across two sentences
    first = first[whole]
    if not len(first) and corpus.tags is None and any(map(_TAGGED.fullmatch, query.split())):
        raise OptionError("the corpus has no tags to choose by")
    return sentences[whole], np.stack([first, first + length], axis=1)


def _parts(corpus: Corpus, query: str) -> list[str]:
    """The words as given; one that the corpus does not have is cut as its text was."""
    parts = query.split()
    tagged = corpus.tags is not None and "/" in query
    plain = len(parts) == 1 and not tagged and not re.search("[*?]", query)
    if plain and corpus.number(query) < 0 and corpus.segmentation.method != FUNCTION:
        return corpus.segmentation.tokens(query) or parts
    return parts


def _element(corpus: Corpus, part: str) -> Element:
    word, stroke, tag = part.rpartition("/") if corpus.tags is not None and part != "/" else (part, "", "")
    if not stroke:
        word = part
    tags = _tags_like(corpus, tag) if stroke and tag != "*" else None
    if word in ("", "*"):
        return Element(tags=tags)
    if not re.search("[*?]", word) or corpus.number(word) >= 0:
        return Element(word=corpus.number(word), tags=tags)
    like = _glob(word)
    matches = (like.fullmatch(known) is not None for known in corpus.all_words)
    return Element(words=np.fromiter(matches, dtype=bool, count=len(corpus.all_words)), tags=tags)


def _tags_like(corpus: Corpus, tag: str) -> Mask:
    found = tags_like(corpus, tag)
    if not found.any():
        raise OptionError(f"no word has a tag like {tag!r}; the tags are {', '.join(filter(None, corpus.tag_names))}")
    return found


def tags_like(corpus: Corpus, tag: str) -> Mask:
    """Which tags of the corpus a pattern means: ``n`` that one, ``n*`` all that begin so."""
    like = _glob(tag)
    return np.array([like.fullmatch(name) is not None for name in corpus.tag_names], dtype=bool)


def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile("".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern), re.DOTALL)


def _hits(corpus: Corpus, elements: list[Element], begin: int, end: int) -> Mask:
    """Whether the words from each place on are the elements, (end - begin,)."""
    found = np.ones(end - begin, dtype=bool)
    for step, element in enumerate(elements):
        ids = corpus.ids[begin + step : end + step]
        if element.word is not None:
            found &= ids == element.word
        if element.words is not None:
            found &= element.words[ids]
        if element.tags is not None and corpus.tags is not None:
            found &= element.tags[corpus.tags[begin + step : end + step]]
    return found
