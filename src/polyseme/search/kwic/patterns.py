r"""What is looked for in a text: a string however the text was cut, a regular expression, or words with their tags.

| mode    | the query                                                                                            |
|---------|------------------------------------------------------------------------------------------------------|
| `text`  | any string: 改革开放 finds 改革 开放 too; letters are whole words, small ones find capitals            |
| `regex` | a regular expression within a sentence, of the ``regex`` package: `打(了|过)?\p{Han}{1,2}`             |
| `words` | words in a row as they were cut, `*` and `?` for unknown letters, tags after a stroke: `打/v */n`     |

Words in a row, each given by its letters, by a pattern of them, by its tag, or by both: ``打/v */n``.

Which words of a corpus a piece of its text is in.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import regex
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


MODES = ("text", "regex", "words")
_BLOCK_SENTENCES = 20_000
_SPACES = r"[ \t\u00a0\u3000]"
_BYTE_SPACES = b"(?:" + "|".join([" ", "\t", "\xa0", "\u3000"]).encode() + b")*"


@dataclass(frozen=True)
class Matches:
    """Where a query stands: sentences, and in them either bytes of the text or words; in the order of the text."""

    sentences: Places  # (n,)
    spans: Places  # (n, 2): first and last + 1
    by_words: bool  # spans count the words of the whole corpus; else the bytes of its text


def find(corpus: Corpus, query: str, mode: str, *, seconds: float | None = None) -> Matches:
    """All places of the query. A regular expression that takes longer than ``seconds`` is given up."""
    if mode not in MODES:
        raise OptionError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    if not query.strip():
        raise OptionError("the query is empty")
    if mode == "words":
        sentences, places = find_words(corpus, query)
        return Matches(sentences, places, by_words=True)
    if mode == "text" and not any(c.isalnum() and not _is_wide(c) for c in query):
        return _find_bytes(corpus, _BYTE_SPACES.join(regex.escape(part.encode()) for part in "".join(query.split())))
    pattern = query if mode == "regex" else _text_pattern(query)
    smart = regex.IGNORECASE if mode == "text" and query == query.lower() else 0
    try:
        compiled = regex.compile(pattern, regex.MULTILINE | smart)
    except (regex.error, ValueError, RecursionError, OverflowError) as error:
        raise OptionError(f"this is not a regular expression: {str(error)[:100]}") from None
    return _find_regex(corpus, compiled, seconds)


# ---- strings


def _is_wide(character: str) -> bool:
    """Chinese characters, their punctuation, kana: written without spaces between them."""
    return unicodedata.east_asian_width(character) in "WF"


def _text_pattern(query: str) -> str:
    """Letters as whole words with spaces where the query has some; a space may be next to any wide character."""
    parts: list[str] = []
    before, gap = "", False
    for character in query.strip():
        if character.isspace():
            gap = True
            continue
        if before and (_is_wide(before) or _is_wide(character)):
            parts.append(f"{_SPACES}*")
        elif gap:
            parts.append(f"{_SPACES}+")
        parts.append(regex.escape(character, special_only=True))
        before, gap = character, False
    first, last = query.strip()[0], query.strip()[-1]
    edge = r"(?<![\p{L}\p{N}--\p{Han}])" if _is_narrow_letter(first) else ""
    end = r"(?![\p{L}\p{N}--\p{Han}])" if _is_narrow_letter(last) else ""
    return f"(?V1){edge}{''.join(parts)}{end}"


def _is_narrow_letter(character: str) -> bool:
    return character.isalnum() and not _is_wide(character)


def _find_bytes(corpus: Corpus, pattern: bytes) -> Matches:
    """In the bytes of the text as they are on disk."""
    text, spans = corpus.text_bytes, corpus.text_spans
    found = [match.span() for match in regex.compile(pattern).finditer(text.data, concurrent=True)]
    places = np.array(found, dtype=np.int64).reshape(-1, 2)
    sentences = np.searchsorted(spans[:, 0], places[:, 0], side="right") - 1
    whole = (sentences >= 0) & (places[:, 1] <= spans[np.maximum(sentences, 0), 1])  # not across two sentences
    return Matches(sentences[whole], places[whole], by_words=False)


# ---- regular expressions


def _find_regex(corpus: Corpus, pattern: regex.Pattern[str], seconds: float | None) -> Matches:
    deadline = None if seconds is None else time.monotonic() + seconds
    sentences: list[int] = []
    places: list[tuple[int, int]] = []
    for begin in range(0, corpus.n_sentences, _BLOCK_SENTENCES):
        spans = corpus.text_spans[begin : begin + _BLOCK_SENTENCES]
        lines = [corpus.text_bytes[a:b].tobytes().replace(b"\n", b" ") for a, b in spans.tolist()]
        text = b"\n".join(lines).decode("utf-8", "replace")
        starts = np.cumsum([0, *(len(line) + 1 for line in text.split("\n"))])
        try:
            matches = list(_matches(pattern, text, deadline))
        except TimeoutError:
            raise OptionError(f"this regular expression takes longer than {seconds:g} s: make it simpler") from None
        rows = np.searchsorted(starts, [start for start, _ in matches], side="right") - 1
        for (start, end), row in zip(matches, rows.tolist(), strict=True):
            first = int(spans[row, 0]) + len(text[starts[row] : start].encode())
            sentences.append(begin + row)
            places.append((first, first + len(text[start:end].encode())))
    return Matches(np.array(sentences, dtype=np.int64), np.array(places, dtype=np.int64).reshape(-1, 2), by_words=False)


def _matches(pattern: regex.Pattern[str], text: str, deadline: float | None) -> Iterator[tuple[int, int]]:
    """Matches that are not empty, each within a line; one that crosses the end of its line is tried within it."""
    place, end = 0, len(text)
    while place < end:
        left = None if deadline is None else max(0.001, deadline - time.monotonic())
        for match in pattern.finditer(text, place, end, timeout=left, concurrent=True):
            start, stop = match.span()
            if (line := text.find("\n", start, stop)) >= 0:
                yield from _matches_within(pattern, text, start, line, left)
                place = line + 1
                break
            if stop > start:
                yield start, stop
        else:
            return


def _matches_within(
    pattern: regex.Pattern[str], text: str, start: int, end: int, left: float | None
) -> Iterator[tuple[int, int]]:
    for match in pattern.finditer(text, start, end, timeout=left, concurrent=True):
        if match.end() > match.start():
            yield match.span()


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
