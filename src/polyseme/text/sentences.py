"""Split text into sentences, Chinese and English, a whole block at a time in NumPy. 断句

Chinese: after 。！？；… (any run of them) and the closing quotes and brackets that follow, except before a comma.
Half-width ! ? and . do the same between Han characters. Marks within a title, 《你好！李焕英》, do not end a sentence.
Hindi । and Urdu ۔ ؟ are treated like the Chinese marks.
English: after . ! ? and closing quotes, before a space and something that can begin a sentence; not after
abbreviations (Mr. e.g. U.S.), initials (J. Smith) or in numbers.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Ints

# Abbreviations: a full stop after them does not end a sentence. The first group must be capitalised (Sat., Art.).
_CAPITALISED = """
mr mrs ms mx dr prof rev hon st sr jr messrs mme mlle gen col maj capt cmdr lt sgt cpl pvt adm gov sen rep pres amb
art dept univ mt ave blvd rd jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun
"""
_ALWAYS = "vs eg ie viz cf ca figs eqs vols eds nos pp approx"
# After these a sentence may end: it does if the next word is one that usually begins a sentence.
_EITHER = """
inc ltd co corp bros jr sr al etc no ed st fig eq sec ch vol op p est ft a.m p.m u.s u.k e.u d.c ph.d b.a m.a
"""
_BEGINNERS = """
The A An This That These Those He She It They We I You His Her Its Their Our My Your There Here In On At But And
However When While As If After Before Since For From With Both Each Some Many Most Other Another
"""
_TITLES, _NEVER, _MAYBE, _BEGIN = (frozenset(words.split()) for words in (_CAPITALISED, _ALWAYS, _EITHER, _BEGINNERS))

ENDS = "。！？；…｡؟۔।॥"
WIDE_CLOSING = "”’」』）】》〉〕］｝"
_LONGEST_TITLE = 60
_OPENING = "“‘「『（【《〈〔［\"'([«¿¡"
_ABBREVIATIONS = _TITLES | _NEVER | _MAYBE
_LAST_PART = re.compile(r"[\s(\[\"“‘'—–-]+")
_WORD_AFTER = re.compile(r"[^\W_]+(?!\.)")

# Character classes for splitting. Beyond the Basic Multilingual Plane, all characters are OTHER.
OTHER, NEWLINE, SPACE, END, NARROW_END, CLOSE, APOSTROPHE, QUOTE, COMMA, LOWER, HAN, TITLE = range(12)
Codes = NDArray[np.uint32]


def _classes() -> NDArray[np.uint8]:
    table = np.zeros(0x10000, dtype=np.uint8)
    table[[ord(c) for c in map(chr, range(0x3001)) if c.isspace()]] = SPACE
    named = {
        NEWLINE: "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029",
        END: ENDS,
        NARROW_END: ".!?",
        CLOSE: WIDE_CLOSING + ")]}»",
        APOSTROPHE: "'",
        QUOTE: '"',
        COMMA: "，、：,",
        LOWER: "abcdefghijklmnopqrstuvwxyz",
        TITLE: "《〈",
    }
    for kind, characters in named.items():
        table[[ord(c) for c in characters]] = kind
    table[0x3400:0xA000] = table[[ord(c) for c in "“「『（"]] = HAN
    return table


_CLASS = _classes()
# For each class: whether it may follow . ! ? at the end of a sentence, and whether it is stripped.
_CLOSES = np.isin(range(TITLE + 1), (NARROW_END, CLOSE, APOSTROPHE, QUOTE))
_SPACES = np.isin(range(TITLE + 1), SPACE)
_BLANKS = np.isin(range(TITLE + 1), (SPACE, NEWLINE))


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without the spaces around them; a line break ends a sentence, too."""
    starts, ends, _, _ = sentence_spans(text, codes_of(text))
    return [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def codes_of(text: str) -> Codes:
    """The code points of a text, padded with a newline before and two after, so that every position has neighbours."""
    return np.frombuffer(f"\n{text}\n\n".encode("utf-32-le", "replace"), dtype=np.uint32)


def sentence_spans(text: str, codes: Codes) -> tuple[Ints, Ints, Ints, int]:
    """The start, end and line number of each sentence, and the number of newlines in the text."""
    kinds = _CLASS.take(codes, mode="clip")
    lines = np.flatnonzero(kinds == NEWLINE)
    titles = _titles(codes, kinds, lines)
    wide, narrow = (_outside(np.flatnonzero(kinds == kind), titles) for kind in (END, NARROW_END))
    breaks = np.sort(np.concatenate([lines + 1, _wide_ends(kinds, wide, lines)]))
    starts = np.sort(np.concatenate([breaks, _narrow_ends(text, kinds, narrow, breaks)]))[:-1]
    ends = np.append(starts[1:], len(kinds) - 1)
    starts, ends = _stripped(kinds, starts, ends)
    full = starts < ends
    starts, ends = starts[full], ends[full]
    return starts - 1, ends - 1, np.searchsorted(lines, starts) - 1, len(lines) - 3  # three newlines are padding


def _titles(codes: Codes, kinds: NDArray[np.uint8], lines: Ints) -> tuple[Ints, Ints]:
    """The positions of matching 《 and 》 within a line."""
    opened = np.flatnonzero(kinds == TITLE)
    closed = np.flatnonzero(kinds == CLOSE)
    closed = closed[(codes[closed] == ord("》")) | (codes[closed] == ord("〉"))]
    following = (np.append(places, len(codes)) for places in (opened, lines, closed))
    other, line, end = (places[np.searchsorted(places, opened, side="right")] for places in following)
    whole = end < np.minimum(np.minimum(other, line), opened + _LONGEST_TITLE)
    return opened[whole], end[whole]


def _outside(marks: Ints, titles: tuple[Ints, Ints]) -> Ints:
    """The marks outside titles. It loops over titles with marks in them, which are few."""
    first, last = (np.searchsorted(marks, ends) for ends in titles)
    inside = [np.arange(first[i], last[i]) for i in np.flatnonzero(first < last)]
    return np.delete(marks, np.concatenate(inside)) if inside else marks


def _wide_ends(kinds: NDArray[np.uint8], marks: Ints, lines: Ints) -> Ints:
    """The positions after 。！？；… and the closing quotes and brackets that follow."""
    ends: Ints = marks[kinds[marks + 1] != END] + 1
    moving = np.arange(len(ends))
    while len(moving):
        here = kinds[ends[moving]]
        spaced = (here == SPACE) & (kinds[ends[moving] + 1] == CLOSE)  # segmented text: 好 。 ”
        step = (here == CLOSE) | (here == NARROW_END) | spaced
        for kind in (QUOTE, APOSTROPHE):
            if len(quotes := np.flatnonzero(here == kind)):
                step[quotes] = _inside_quotes(kinds, kind, lines, ends[moving[quotes]])
        ends[moving[step]] += 1 + spaced[step]
        moving = moving[step]
    kept: Ints = np.compress(kinds[ends] != COMMA, ends)
    return kept


def _inside_quotes(kinds: NDArray[np.uint8], kind: int, lines: Ints, places: Ints) -> NDArray[np.bool_]:
    """Whether the number of quotes from the start of the line to each place is odd. The one in don't does not count."""
    quotes = np.flatnonzero(kinds == kind)
    quotes = quotes[(kinds[quotes - 1] != LOWER) | (kinds[quotes + 1] != LOWER)]
    line_starts = lines[np.searchsorted(lines, places) - 1]
    number = np.searchsorted(quotes, places) - np.searchsorted(quotes, line_starts)
    return np.asarray(number % 2, dtype=np.bool_)


def _narrow_ends(text: str, kinds: NDArray[np.uint8], marks: Ints, breaks: Ints) -> Ints:
    """The positions after . ! ? and the closing marks that follow, if a sentence ends there."""
    marks = marks[kinds[marks - 1] != NARROW_END]
    after = _behind(kinds, _CLOSES, marks + 1)
    spaced = kinds[after] == SPACE
    between_han = (kinds[marks - 1] >= HAN) & (kinds[after] >= HAN)
    marks, after, spaced = (array[spaced | between_han] for array in (marks, after, spaced))
    after = _behind(kinds, _SPACES, after)
    possible = (kinds[after] != LOWER) & (kinds[after] != NEWLINE)
    marks, after, spaced = (array[possible] for array in (marks, after, spaced))
    begins = breaks[np.searchsorted(breaks, marks, side="right") - 1]  # of the line, or after the last wide end
    rows = zip((begins - 1).tolist(), (marks - 1).tolist(), (after - 1).tolist(), spaced.tolist(), strict=True)
    ends = [not spaced or _ends(text, begin, mark, end) for begin, mark, end, spaced in rows]
    return np.compress(ends, after)


def _ends(text: str, start: int, at: int, end: int) -> bool:
    """Whether a sentence ends at the half-width mark at ``at``, if the next one would begin at ``end``."""
    if text[end].islower():
        return False
    if text[at] != "." or text[at + 1] == ".":
        return True
    begin = max(start, at - 40)
    begin = max(begin, text.rfind(" ", begin, at) + 1)
    word = text[begin:at]
    if len(word) > 1 and word.isalpha() and word.lower() not in _ABBREVIATIONS:
        return True
    after = text[end : end + 24].lstrip(_OPENING)
    if after[:1].islower():
        return False
    word = _LAST_PART.split(word)[-1]
    return not word or _stop_ends(word, after, first=begin == start or _follows_an_end(text, start, begin))


def _follows_an_end(text: str, start: int, begin: int) -> bool:
    """Whether the word at ``begin`` follows the end of a sentence, and not an abbreviation such as Fig."""
    before = text[max(start, begin - 20) : begin].rstrip()
    if before[-1:] != ".":
        return before[-1:] in ("!", "?")
    return _LAST_PART.split(before)[-1].rstrip(".").lower() not in _ABBREVIATIONS


def _stripped(kinds: NDArray[np.uint8], starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The spans without leading and trailing spaces."""
    starts = np.minimum(_behind(kinds, _SPACES, starts), ends)
    kinds[0] = OTHER  # stops the search backwards over blanks
    before = len(kinds) - _behind(kinds[::-1], _BLANKS, len(kinds) - ends)
    return starts, np.maximum(before, starts)


def _behind(kinds: NDArray[np.uint8], passed: NDArray[np.bool_], places: Ints) -> Ints:
    """Move each place past the run of characters of the ``passed`` classes that begins there."""
    moved = places.copy()
    within = np.flatnonzero(passed[kinds[places]])
    for _ in range(3):  # longer runs are rare
        moved[within] += 1
        within = within[passed[kinds[moved[within]]]]
    if len(within):
        inside = passed[kinds]
        run_ends = np.append(np.flatnonzero(inside[1:] < inside[:-1]) + 1, len(kinds))
        moved[within] = run_ends[np.searchsorted(run_ends, moved[within], side="right")]
    return moved


def _stop_ends(word: str, after: str, *, first: bool) -> bool:
    """Whether the full stop between ``word`` and ``after`` ends a sentence or belongs to an abbreviation."""
    bare = word.lower().rstrip(".")
    next_word = _WORD_AFTER.match(after)
    begins = next_word is not None and next_word[0] in _BEGIN
    if bare in _MAYBE or (len(word) == 1 and word.isupper()):
        return begins
    if bare in _TITLES:
        return word[0].islower()
    if bare.replace(".", "") in _NEVER or (first and word.isdigit()):  # "1. The first point"
        return False
    return begins or "." not in bare
