"""Join words into text 拼接成文, with spaces as the language is written: in English and Korean, not in Chinese.

One rule says where a space belongs, ``needs_space``; ``joined`` puts spaces there and nowhere else, so that each word
stays as it was given, and ``join_words`` also writes punctuation as it is printed, without a space before a comma.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Chinese and Japanese with their punctuation and full-width forms; Hangul lies between them and is left out, also its
# separate and its half-width letters (jamo).
CHINESE_JAPANESE = (
    "\u2e80-\u312f\u3190-\u9fff\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff9f\uffe0-\uffef"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_THAI_LAO_BURMESE_KHMER = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\ua9e0-\ua9ff\uaa60-\uaa7f"
UNSPACED = CHINESE_JAPANESE + _THAI_LAO_BURMESE_KHMER  # written without spaces between words
_UNSPACED = re.compile(f"[{UNSPACED}]")
_BROKEN_IN_TWO = ("——", "……")  # dashes and ellipses of two characters
_NO_SPACE_AFTER = "([{“‘$#@/-"
_NO_SPACE_BEFORE = ")]}”’%,.;:!?/-'"


def is_unspaced(character: str) -> bool:
    """Whether no space stands next to this character, as in Chinese."""
    return _UNSPACED.match(character) is not None


def needs_space(before: str, after: str) -> bool:
    """Whether a space belongs between two pieces of text: not beside another one, nor inside a dash broken in two."""
    edges = before[-1:] + after[:1]
    if len(edges) < 2 or edges[0].isspace() or edges[1].isspace():
        return False
    return _UNSPACED.search(edges) is None and edges not in _BROKEN_IN_TWO


def joined(words: Iterable[str]) -> str:
    """The words as they are, with spaces where they belong: ``["I", "see", "."] → "I see ."``."""
    return joined_with_spans(words)[0]


def joined_with_spans(words: Iterable[str]) -> tuple[str, list[tuple[int, int]]]:
    """The same, and the start and end of each word in it."""
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    length, before = 0, ""
    for word in words:
        if needs_space(before, word):
            parts.append(" ")
            length += 1
        parts.append(word)
        spans.append((length, length + len(word)))
        length, before = length + len(word), word or before
    return "".join(parts), spans


def join_words(words: Iterable[str]) -> str:
    """``["I", "see", "."] → "I see."``, ``["我", "知道", "。"] → "我知道。"``."""
    text = ""
    for word in words:
        if needs_space(text, word) and text[-1] not in _NO_SPACE_AFTER and word[0] not in _NO_SPACE_BEFORE:
            text += " "
        text += word
    return text


def continued(text: str, spelt: str, whole: str) -> str:
    """``text`` and what ``whole`` holds beyond it: ``spelt`` is the text as a tokenizer writes it, without the unknown.

    Both are written from the first unit on, since what precedes a unit decides on the space before it.
    """
    new = whole[len(spelt) :]
    return text + (new.lstrip(" ") if text[-1:].isspace() else new)
