"""Splitting text into sentences, Chinese and English. 断句

Chinese: after 。！？；… (any run of them) and the closing quotes and brackets that follow, except before a comma.
Narrow ! ? and . do the same between Han characters.
English: after . ! ? and closing quotes, before a space and something that can begin a sentence; not after
abbreviations (Mr. e.g. U.S.), initials (J. Smith) or in numbers.
"""

from __future__ import annotations

import re

# No sentence ends after these and a full stop.
_TITLES = """
mr mrs ms mx dr prof rev hon st sr jr messrs mme mlle gen col maj capt cmdr lt sgt cpl pvt adm gov sen rep pres amb
vs eg ie viz cf al ca fig figs eq eqs sec ch vol vols ed eds no nos op pp p art dept univ inc ltd co corp bros
jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun mt ft ave blvd rd approx est
"""
# After these one may end: a following word that usually begins a sentence decides.
_EITHER = "inc ltd co corp bros jr sr al etc no ed st a.m p.m u.s u.k e.u d.c ph.d b.a m.a"
_BEGINNERS = """
The A An This That These Those He She It They We I You His Her Its Their Our My Your There Here In On At But And
However When While As If After Before Since For From With Both Each Some Many Most Other Another
"""
_NEVER, _MAYBE, _BEGIN = (frozenset(words.split()) for words in (_TITLES, _EITHER, _BEGINNERS))

ENDS = "。！？；…｡"
WIDE_CLOSING = "”’」』）】》〉〕］｝"
_CLOSING = WIDE_CLOSING + "\"')\\]}»"
_OPENING = "“‘「『（【《〈〔［\"'([«¿¡"

_END = rf"[{ENDS}]+[!?]*(?: ?[{WIDE_CLOSING}])*"
_PIECE = re.compile(rf"[^{ENDS}]+(?:{_END})?|{_END}")
_GOES_ON = '，、：,"'  # a piece that begins with one of these may belong to the one before it
_NARROW_END = re.compile(rf"[.!?][.!?{_CLOSING}]*(?:\s+|(?=[\u3400-\u9fff“「『（《]))(?![a-z])")
_ASCII_END = re.compile(r"[.!?][.!?\"')\]}]*\s+(?![a-z])")
_ABBREVIATIONS = _NEVER | _MAYBE
_LAST_PART = re.compile(r"[\s(\[\"“‘'—–-]+")
_WORD_AFTER = re.compile(r"[^\W_]+(?!\.)")


def split_sentences(paragraph: str) -> list[str]:
    """The sentences of one paragraph, without the spaces around them."""
    pieces: list[str] = [paragraph] if paragraph.isascii() else _PIECE.findall(paragraph)
    if len(pieces) > 1 and any(piece[0] in _GOES_ON for piece in pieces):
        pieces = _rejoined(pieces)
    if "." in paragraph or "!" in paragraph or "?" in paragraph:
        pieces = [sentence for piece in pieces for sentence in _split_narrow(piece)]
    return [sentence for piece in pieces if (sentence := piece.strip())]


def _rejoined(pieces: list[str]) -> list[str]:
    """Pieces that go on with a comma joined to the one before, and straight quotes given to the one they close."""
    found: list[str] = []
    quotes = 0
    for piece in pieces:
        marks = piece.count('"')
        if found and piece[0] == '"' and quotes % 2:
            found[-1] += '"'
            piece = piece[1:]
        if found and piece[:1] in _GOES_ON[:-1]:
            found[-1] += piece
        else:
            found.append(piece)
        quotes += marks
    return found


def _split_narrow(text: str) -> list[str]:
    found: list[str] = []
    start = 0
    ends = _ASCII_END if text.isascii() else _NARROW_END
    for match in ends.finditer(text):
        if match.end() < len(text) and _ends(text, start, match):
            found.append(text[start : match.end()])
            start = match.end()
    return [*found, text[start:]]


def _ends(text: str, start: int, match: re.Match[str]) -> bool:
    """Does a sentence end at this narrow . ! or ?"""
    at, end = match.span()
    if not text[end - 1].isspace():  # directly before a Han character: only after another one
        return at > start and text[at - 1] > "\xff"
    first = text[end]
    if first.islower():
        return False
    if text[at] != "." or text[at + 1] == ".":
        return True
    begin = max(start, text.rfind(" ", start, at) + 1)
    word = text[begin:at]
    if len(word) > 1 and word.isalpha() and word.lower() not in _ABBREVIATIONS:
        return True
    after = text[end : end + 24].lstrip(_OPENING)
    if after[:1].islower():
        return False
    word = _LAST_PART.split(word)[-1]
    return not word or _stop_ends(word, after, first=begin == start)


def _stop_ends(word: str, after: str, *, first: bool) -> bool:
    """Does the full stop between ``word`` and ``after`` end a sentence, or belong to an abbreviation?"""
    bare = word.lower().rstrip(".")
    next_word = _WORD_AFTER.match(after)
    begins = next_word is not None and next_word[0] in _BEGIN
    if bare in _MAYBE or (len(word) == 1 and word.isupper()):
        return begins
    if bare.replace(".", "") in _NEVER or (first and word.isdigit()):  # "1. The first point"
        return False
    return begins or "." not in bare
