"""Join words into text 拼接成文, with spaces as the language is written: between English words, not in Chinese."""

from __future__ import annotations

from collections.abc import Iterable

_NO_SPACE_AFTER = "([{“‘$#@/-"
_NO_SPACE_BEFORE = ")]}”’%,.;:!?/-'"


def join_words(words: Iterable[str]) -> str:
    """``["I", "see", "."] → "I see."``, ``["我", "知道", "。"] → "我知道。"``."""
    text = ""
    for word in words:
        between = text[-1:].isascii() and word[:1].isascii() and not (text[-1:].isspace() or word[:1].isspace())
        if text and word and between and text[-1] not in _NO_SPACE_AFTER and word[0] not in _NO_SPACE_BEFORE:
            text += " "
        text += word
    return text
