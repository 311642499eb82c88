"""What is looked for in a text: a string however the text was cut, a regular expression, or words with their tags.

| mode    | the query                                                                                            |
|---------|------------------------------------------------------------------------------------------------------|
| `text`  | any string: 改革开放 finds 改革 开放 too; letters are whole words, small ones find capitals            |
| `regex` | a regular expression within a sentence, of the ``regex`` package: `打(了|过)?\\p{Han}{1,2}`             |
| `words` | words in a row as they were cut, `*` and `?` for unknown letters, tags after a stroke: `打/v */n`     |
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import regex

from polyseme.errors import OptionError
from polyseme.search.word_patterns import Places, find_words
from polyseme.text.corpus import Corpus

MODES = ("text", "regex", "words")
_BLOCK_SENTENCES = 20_000
_SPACES = r"[ \t\u00a0\u3000]"
_BYTE_SPACES = b"(?:" + "|".join([" ", "\t", "\xa0", "\u3000"]).encode() + b")*"


@dataclass(frozen=True)
class Found:
    """Where a query stands: sentences, and in them either bytes of the text or words; in the order of the text."""

    sentences: Places  # (n,)
    spans: Places  # (n, 2): first and last + 1
    by_words: bool  # spans count the words of the whole corpus; else the bytes of its text


def find(corpus: Corpus, query: str, mode: str, *, seconds: float | None = None) -> Found:
    """All places of the query. A regular expression that takes longer than ``seconds`` is given up."""
    if mode not in MODES:
        raise OptionError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    if not query.strip():
        raise OptionError("the query is empty")
    if mode == "words":
        sentences, places = find_words(corpus, query)
        return Found(sentences, places, by_words=True)
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


def _find_bytes(corpus: Corpus, pattern: bytes) -> Found:
    """In the bytes of the text as they are on disk."""
    text, spans = corpus.text_bytes, corpus.text_spans
    found = [match.span() for match in regex.compile(pattern).finditer(text.data, concurrent=True)]
    places = np.array(found, dtype=np.int64).reshape(-1, 2)
    sentences = np.searchsorted(spans[:, 0], places[:, 0], side="right") - 1
    whole = (sentences >= 0) & (places[:, 1] <= spans[np.maximum(sentences, 0), 1])  # not across two sentences
    return Found(sentences[whole], places[whole], by_words=False)


# ---- regular expressions


def _find_regex(corpus: Corpus, pattern: regex.Pattern[str], seconds: float | None) -> Found:
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
    return Found(np.array(sentences, dtype=np.int64), np.array(places, dtype=np.int64).reshape(-1, 2), by_words=False)


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
