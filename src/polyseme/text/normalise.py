"""Normalisation of text. 文本规范化

``nfkc`` is Unicode's NFKC, so that ＡＢＣ１２３ becomes ABC123, ｶﾞ becomes ガ and ① becomes 1, with two differences:

- Punctuation that Chinese readers expect to be wide stays wide: ，！？：；（）［］｛｝～ and the ellipsis ….
- Characters nobody sees are dropped: byte order marks, zero-width spaces, direction marks, soft hyphens, controls.

``none`` leaves text as it is. Newlines are never added nor removed, so whole blocks of lines can be normalised at once.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache

from polyseme.errors import OptionError, close_matches

FORMS = ("nfkc", "none")
SCRIPTS = ("keep", "simplified", "traditional")
CASES = ("keep", "lower")

WIDE = "，！？：；（）［］｛｝～…"
INVISIBLE = (
    "\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb"
)
# The blocks left out hold nothing that NFKC changes: Han, Hangul syllables, private use.
_BLOCKS = ((0x00A0, 0x3400), (0xA000, 0xAC00), (0xD7A4, 0xD800), (0xF900, 0x10000))

Change = Callable[[str], str]


def check(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the choices, with close ones."""
    if value not in choices:
        raise OptionError(f"{name} is one of {', '.join(choices)}; not {value!r}{close_matches(value, choices)}")


class _Unstable:
    """Patterns of the characters NFKC changes, made at first use.

    Those beyond the basic plane all count: a class without them is one table lookup per character.
    """

    def __init__(self) -> None:
        points = [chr(point) for low, high in _BLOCKS for point in range(low, high) if chr(point) not in WIDE]
        joining = "".join(filter(_joins_the_one_before, points))
        changed = "".join(c for c in points if unicodedata.normalize("NFKC", c) != c and c not in joining)
        every = re.escape(changed + joining) + "\U00010000-\U0010ffff" + INVISIBLE
        self.alone = re.compile(f"[{re.escape(changed)}\U00010000-\U0010ffff{INVISIBLE}]+")
        self.joining = re.compile(f"[{re.escape(joining)}]")
        self.with_base = re.compile(f"[^{re.escape(WIDE)}{every}\n]?[{every}]+")


def _joins_the_one_before(character: str) -> bool:
    # Vowel signs such as U+0B3E have combining class 0 and still compose with the letter before them; so do jamo.
    return unicodedata.category(character) in ("Mn", "Mc") or "\u1160" <= character < "\u1200"


_unstable = cache(_Unstable)
_DROP = re.compile(f"[{INVISIBLE}]+")


def _nfkc_piece(match: re.Match[str]) -> str:
    return unicodedata.normalize("NFKC", _DROP.sub("", match[0]))


def nfkc(text: str) -> str:
    """NFKC that keeps wide Chinese punctuation."""
    if text.isascii():
        return text if text.isprintable() else _DROP.sub("", text)
    unstable = _unstable()
    if not unstable.joining.search(text):
        return unstable.alone.sub(_nfkc_piece, text)
    # Marks are rare where lines are many: only their own lines take the slower way.
    return "\n".join(
        (unstable.with_base if unstable.joining.search(line) else unstable.alone).sub(_nfkc_piece, line)
        for line in text.split("\n")
    )


@cache
def _converter(table: str) -> Change:
    import opencc

    convert: Change = opencc.OpenCC(table).convert
    return convert


def to_script(text: str, script: str) -> str:
    """繁→简 or 简→繁 by OpenCC, phrase by phrase."""
    if script == "keep" or text.isascii():
        return text
    return _converter("t2s" if script == "simplified" else "s2t")(text)


def normalise(text: str, form: str, script: str, case: str) -> str:
    """All the changes in their order: form, script, case."""
    if form == "nfkc":
        text = nfkc(text)
    text = to_script(text, script)
    return text.lower() if case == "lower" else text
