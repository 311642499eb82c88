"""Words ↔ their text 词与文本: joined with spaces as the language is written, and found again in the original text.

One rule says where a space belongs, ``needs_space``: in English and Korean, not in Chinese. ``joined`` puts spaces
there and nowhere else, so that each word stays as it was given, and ``join_words`` also writes punctuation as it is
printed, without a space before a comma. ``token_spans`` finds words in the text they come from, even if normalisation
changed them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polyseme.text.segment import Segmentation


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


_LETTER = r"[^\W_\u2e80-\U0003ffff]"  # a letter of an alphabetic word, not a Chinese character
_WITHIN_A_WORD = rf"(?<={_LETTER})(?={_LETTER})"
_AHEAD = 3  # following words that a match may not skip


def token_spans(text: str, tokens: Sequence[str], segmentation: Segmentation) -> list[tuple[int, int]]:
    """(start, end) of each token in ``text``; a token that is not in the text is an empty span after the one before."""
    normalised, owner = _normalised_with_owners(text, segmentation)
    lowered = _lower(normalised)
    words = [_lower(token) for token in tokens]
    spans: list[tuple[int, int]] = []
    place = 0
    for i, token in enumerate(tokens):
        while normalised[place : place + 1].isspace() and not token[:1].isspace():
            place += 1
        start = place if normalised.startswith(token, place) else _nearest(lowered, words[i], place)
        ahead = filter(None, words[i + 1 : i + 1 + _AHEAD])
        if not token or start < 0 or any(lowered.find(word, place, start) >= 0 for word in ahead):
            at = spans[-1][1] if spans else 0
            spans.append((at, at))
            continue
        place = start + len(token)
        spans.append((owner[start][0], owner[place - 1][1]))
    return spans


def _nearest(text: str, word: str, place: int) -> int:
    """The next occurrence of ``word`` from ``place`` on, at the start of a word if possible; -1 if there is none."""
    match = re.compile(rf"(?!{_WITHIN_A_WORD}){re.escape(word)}").search(text, place)
    return match.start() if match else text.find(word, place)


def _lower(text: str) -> str:
    """The text in lower case, with its length unchanged."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _normalised_with_owners(text: str, segmentation: Segmentation) -> tuple[str, list[tuple[int, int]]]:
    """The normalised text and, for each of its characters, the span of the original text that it came from."""
    whole = segmentation.normalised(text)
    if whole == text:
        return whole, [(i, i + 1) for i in range(len(text))]
    owner: list[tuple[int, int]] = []
    pieces = []
    for start, end in _clusters(text):
        piece = segmentation.normalised(text[start:end])
        pieces.append(piece)
        owner += [(start, end)] * len(piece)
    if "".join(pieces) != whole:
        # Script conversion works on phrases, so it can differ from that of the pieces, but it keeps lengths.
        # In all other cases every character belongs to the whole text.
        same = segmentation.script != "keep" and len(owner) == len(whole)
        owner = owner if same else [(0, len(text))] * len(whole)
    return whole, owner


def _clusters(text: str) -> list[tuple[int, int]]:
    """Spans that normalisation changes independently: a character and the marks that follow it."""
    starts = [i for i, character in enumerate(text) if i == 0 or not _follows(character)]
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


def _follows(character: str) -> bool:
    """Whether a character combines with the one before: marks, jamo, half-width voice marks, invisible characters."""
    if unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf", "Cc"):
        return not character.isspace()
    return "\u1160" <= character < "\u1200" or character in "ﾞﾟ"
