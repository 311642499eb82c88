"""Join words into text 拼接成文, with spaces as the language is written: between English words, not in Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NO_SPACE_AFTER = "([{“‘$#@/-"
_NO_SPACE_BEFORE = ")]}”’%,.;:!?/-'"
# Scripts without spaces between words: Thai, Lao, Burmese, Khmer; Chinese and Japanese with their punctuation.
_DENSE = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]"
)


def join_words(words: Iterable[str]) -> str:
    """``["I", "see", "."] → "I see."``, ``["我", "知道", "。"] → "我知道。"``."""
    text = ""
    for word in words:
        if spaced(text, word) and text[-1] not in _NO_SPACE_AFTER and word[0] not in _NO_SPACE_BEFORE:
            text += " "
        text += word
    return text


def spaced(before: str, after: str) -> bool:
    """Whether a space belongs between two pieces of text: not beside another one, or where one of them is Chinese."""
    edges = before[-1:] + after[:1]
    return len(edges) == 2 and not (edges[0].isspace() or edges[1].isspace() or _DENSE.search(edges))
