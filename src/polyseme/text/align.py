"""Find the words of a sentence in its original text, even if normalisation changed them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from polyseme.text.segment import Segmentation

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
        found = place if normalised.startswith(token, place) else _nearest(lowered, words[i], place)
        ahead = filter(None, words[i + 1 : i + 1 + _AHEAD])
        if not token or found < 0 or any(lowered.find(word, place, found) >= 0 for word in ahead):
            at = spans[-1][1] if spans else 0
            spans.append((at, at))
            continue
        place = found + len(token)
        spans.append((owner[found][0], owner[place - 1][1]))
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
