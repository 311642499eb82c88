"""The segmenters at work, many sentences at a time: one call of a C-speed function for a whole page of them.

A page is text again: words with spaces between them, and a newline for a word at the end of every sentence.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

PAGE = 48  # sentences: larger pages fall out of the processor's cache

Words = Callable[[str], list[str]]
Pages = Callable[[Sequence[str]], Iterator[str]]

_HAN_RANGES = (
    *((0x2E80, 0x2FDF), (0x3005, 0x3005), (0x3007, 0x3007), (0x3021, 0x3029), (0x3400, 0x4DBF), (0x4E00, 0x9FFF)),
    *((0xF900, 0xFAFF), (0x20000, 0x323AF)),
)
# Letters of other scripts, and Latin ones with accents, whose words jieba would tear into characters.
_FOREIGN_RANGES = (
    *((0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x1FFF), (0x2C00, 0x2DFF), (0x3041, 0x30FA), (0x30FC, 0x318F)),
    *((0xA000, 0xD7FF), (0xFF66, 0xFFDC)),
)
_FOREIGN = "".join(f"{chr(low)}-{chr(high)}" for low, high in _FOREIGN_RANGES)

OTHER, PLAIN, MIXED = 0, 1, 3  # bits: Han characters; signs of foreign words
_SCRIPT = np.zeros(_HAN_RANGES[-1][1] + 2, dtype=np.uint8)
_SCRIPT[[ord(sign) for sign in "'’.@/"]] = 2
for _bit, _ranges in ((2, _FOREIGN_RANGES), (1, _HAN_RANGES)):
    for _low, _high in _ranges:
        _SCRIPT[_low : _high + 1] = _bit
_BLANKS = (
    "\t\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u1680"
    + "".join(map(chr, range(0x2000, 0x200B)))
    + "\u2028\u2029\u202f\u205f\u3000"
)


def plain_spaces(text: str) -> str:
    """Every kind of space but the newline as a plain one. Looking for each beats one pass with a pattern."""
    for blank in _BLANKS:
        if blank in text:
            text = text.replace(blank, " ")
    return text


def _marks() -> str:
    """Signs that belong to the letter before them (vowel signs, accents) and that ``\\w`` leaves out."""
    areas = ((0x300, 0x370), (0x483, 0x48A), (0x591, 0x1CFA), (0x1DC0, 0x1E00), (0xA66F, 0xABEE), (0xFE20, 0xFE30))
    points = (chr(point) for low, high in areas for point in range(low, high))
    return "".join(point for point in points if unicodedata.category(point) in ("Mn", "Mc", "Me"))


def _rules(letter: str, flags: int = 0) -> Words:
    """Addresses; abbreviations with dots; words and numbers with what joins their parts; other signs one by one."""
    return re.compile(
        r"https?://[!-~]*[\w/]"
        r"|(?:[^\W\d_]\.){2,}|Ph\.D\."  # U.S., e.g.
        rf"|{letter}+(?:(?:[-'’·]|(?<=\d)[.,:/](?=\d)){letter}+)*(?:@\w+(?:[.-]\w+)+)?"  # don't, 3.14, a@b.org
        r"|\n|\.{2,}|-{2,}|[^\w\s]",
        flags,
    ).findall


_ascii_rules = cache(lambda: _rules(r"\w", re.ASCII))
_other_rules = cache(lambda: _rules(rf"[\w{_marks()}]"))


def by_rules(text: str) -> list[str]:
    """The words of text that has spaces between them."""
    return (_ascii_rules() if text.isascii() else _other_rules())(text)


@cache
def _jieba(words: tuple[str, ...]) -> Words:
    import rjieba

    if not words:
        shared: Words = rjieba.cut  # its dictionary is loaded already
        return shared
    segmenter = rjieba.Jieba()
    for word in words:
        # The frequency from which on jieba prefers the word to its parts.
        segmenter.add_word(word, segmenter.suggest_freq(word), "n")
    cut: Words = segmenter.cut
    return cut


@cache
def _foreign_words() -> re.Pattern[str]:
    letter = f"[A-Za-z0-9{_FOREIGN}{_marks()}]"
    rest = rf"{letter}*(?:[-'’·]{letter}+)*"
    # Every branch begins with a class of characters, which is quickly refused, and a run is tried from its beginning
    # only: from each of its letters in turn, a long one would take forever.
    return re.compile(
        r"(https?://[!-~]*[\w/]"
        r"|[A-Za-z](?<![A-Za-z]{2})\.(?:[A-Za-z]\.)+"
        r"|[A-Za-z0-9_.+-](?<![A-Za-z0-9_.+-]{2})[A-Za-z0-9_.+-]*@[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)+"
        rf"|[A-Za-z0-9](?<![A-Za-z0-9]{{2}})[A-Za-z0-9]*(?:[{_FOREIGN}]|(?<=[A-Za-z])['’](?=[A-Za-z])){rest}"
        rf"|[{_FOREIGN}]{rest}"
        rf"|['’](?<=[A-Za-z].)(?=[A-Za-z]){rest})"
    )


def _by_jieba(words: tuple[str, ...]) -> Pages:
    cut = _jieba(words)
    return lambda sentences: (" ".join(cut(page)) for page in _joined(sentences))


def _by_script(words: tuple[str, ...]) -> Pages:
    cut = _jieba(words)

    def pages(sentences: Sequence[str]) -> Iterator[str]:
        """Runs of plain Chinese sentences go to jieba together, runs without Han characters to the word rules."""
        kinds = _scripts(sentences)
        bounds = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(sentences)]
        for start, end in pairwise(bounds):
            run = sentences[start:end]
            if kinds[start] == PLAIN:
                yield from (" ".join(cut(page)) for page in _joined(run))
            elif kinds[start] == MIXED:
                yield from (" ".join(_mixed(sentence, cut)) + " \n" for sentence in run)
            else:
                yield from _by_word_rules(run)

    return pages


def _scripts(sentences: Sequence[str]) -> NDArray[np.uint8]:
    """For each sentence: OTHER without Han characters, else PLAIN, or MIXED where there may be foreign words."""
    codes = np.frombuffer("\n".join([*sentences, ""]).encode("utf-32-le", "replace"), dtype=np.uint32)
    kinds = _SCRIPT[np.minimum(codes, len(_SCRIPT) - 1)]
    ends = np.flatnonzero(codes == ord("\n"))
    kinds = np.bitwise_or.reduceat(kinds, np.append(0, ends[:-1] + 1))
    return np.where(kinds & 1, kinds, OTHER).astype(np.uint8)


def _mixed(sentence: str, cut: Words) -> list[str]:
    """Foreign words whole, what is between them by jieba."""
    found: list[str] = []
    for place, piece in enumerate(_foreign_words().split(sentence)):
        if place % 2:
            found.append(piece)
        elif piece:
            found += cut(piece)
    return found


def _joined(sentences: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(sentences), PAGE):
        yield "\n".join(sentences[start : start + PAGE]) + "\n"


def _by_characters(sentences: Sequence[str]) -> Iterator[str]:
    return (" ".join(page) for page in _joined(sentences))


def _by_spaces(sentences: Sequence[str]) -> Iterator[str]:
    yield " \n ".join(sentences) + " \n"


def _by_word_rules(sentences: Sequence[str]) -> Iterator[str]:
    return (" ".join(by_rules(page)) for page in _joined(sentences))


def pages(method: str, words: tuple[str, ...]) -> Pages:
    """The segmenter of a name, with its user dictionary."""
    if method in ("auto", "jieba"):
        return _by_script(words) if method == "auto" else _by_jieba(words)
    return {"char": _by_characters, "space": _by_spaces, "english": _by_word_rules}[method]
