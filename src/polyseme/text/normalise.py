"""Normalisation of text. 文本规范化

``nfkc`` is Unicode's NFKC, so that ＡＢＣ１２３ becomes ABC123, ｶﾞ becomes ガ and ① becomes 1, with three differences:

- Punctuation that is full-width in Chinese stays so: ，！？：；（）［］｛｝～ and the ellipsis ….
- Invisible characters are dropped: byte order marks, zero-width spaces, direction marks, soft hyphens, controls.
- Every kind of space except the newline, including the tab, becomes a plain space.

``none`` leaves text as it is. Newlines are never added or removed, so whole blocks of lines can be normalised at once.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import OptionError, close_matches

FORMS = ("nfkc", "none")
SCRIPTS = ("keep", "simplified", "traditional")
CASES = ("keep", "lower")

WIDE = "，！？：；（）［］｛｝～…"
_NO_BASE = WIDE + "\n"
INVISIBLE = (
    *((0x00, 0x08), (0x0E, 0x1B), (0x7F, 0x84), (0x86, 0x9F), (0xAD, 0xAD), (0x61C, 0x61C), (0x180E, 0x180E)),
    *((0x200B, 0x200B), (0x200E, 0x200F), (0x202A, 0x202E), (0x2060, 0x2064), (0x2066, 0x206F), (0xFEFF, 0xFEFF)),
    *((0xFFF9, 0xFFFB), (0xE0000, 0xE0FFF)),
)
SPACES = "\t\v\f\r\x1c\x1d\x1e\x1f\x85\u1680\u2028\u2029"  # those that NFKC does not change
_REPLACED: dict[int, str | None] = {
    **{point: None for first, last in INVISIBLE for point in range(first, last + 1)},
    **{ord(space): " " for space in SPACES},
}
# The other blocks contain nothing that NFKC changes: Han, Hangul syllables, private use.
_BLOCKS = ((0x00A0, 0x3400), (0xA000, 0xAC00), (0xD7A4, 0xD800), (0xF900, 0x10000))

Change = Callable[[str], str]


def check(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise an OptionError, with close matches, if the value is not one of the choices."""
    if value not in choices:
        raise OptionError(f"{name} must be one of {', '.join(choices)}, not {value!r}{close_matches(value, choices)}")


STABLE, CHANGES, JOINS, VANISHES = range(4)


@cache
def _table() -> NDArray[np.uint8]:
    """For every character: whether normalisation keeps, changes or drops it, or may join it to the one before."""
    table = np.zeros(0x110000, dtype=np.uint8)
    for low, high in _BLOCKS:
        table[low:high] = [_stability(chr(point)) for point in range(low, high)]
    table[0x10000:0x20000] = table[0x2F800:0x2FA20] = table[0xE0000:0xE1000] = CHANGES
    table[[ord(character) for character in WIDE]] = STABLE
    table[list(_REPLACED)] = [VANISHES if new is None else CHANGES for new in _REPLACED.values()]
    return table


def _stability(character: str) -> int:
    # Vowel signs such as U+0B3E have combining class 0 and still compose with the letter before them; so do jamo.
    form = unicodedata.normalize("NFKC", character)
    if unicodedata.category(form[0]) in ("Mn", "Mc") or "\u1160" <= form[0] < "\u1200":
        return JOINS
    return CHANGES if form != character else STABLE


def may_vanish(codes: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which of these characters are dropped; a text that begins with another one cannot become empty."""
    return np.asarray(_table().take(codes, mode="clip") == VANISHES)


def nfkc(text: str) -> str:
    """NFKC that keeps full-width Chinese punctuation."""
    if text.isascii() and text.isprintable():
        return text
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    kinds = _table().take(codes, mode="clip")  # faster than an index, and no code is too large
    spots = np.flatnonzero(kinds > STABLE)
    if not len(spots):
        return text
    breaks = np.flatnonzero(np.diff(spots) > 1)
    runs = zip(spots[np.append(0, breaks + 1)].tolist(), (spots[np.append(breaks, -1)] + 1).tolist(), strict=True)
    pieces: list[str] = []
    done = 0
    for start, end in runs:
        if kinds[start] >= JOINS and start > done and text[start - 1] not in _NO_BASE:
            start -= 1
        pieces += (text[done:start], unicodedata.normalize("NFKC", text[start:end].translate(_REPLACED)))
        done = end
    return "".join(pieces) + text[done:]


@cache
def _converter(table: str) -> Change:
    import opencc

    convert: Change = opencc.OpenCC(table).convert
    return convert


def to_script(text: str, script: str) -> str:
    """Convert 繁→简 or 简→繁 with OpenCC, phrase by phrase."""
    if script == "keep" or text.isascii():
        return text
    return _converter("t2s" if script == "simplified" else "s2t")(text)


def normalise(text: str, form: str, script: str, case: str) -> str:
    """Normalise the form, then the script, then the case."""
    if form == "nfkc":
        text = nfkc(text)
    text = to_script(text, script)
    return text.lower() if case == "lower" else text
