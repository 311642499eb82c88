"""The segmenters at work. A job is a rule and some sentences, one per line; its answer is text again: words with spaces
between them, and a newline for a word at the end of every sentence. It is in UTF-16, as the words are numbered.

Helper processes import this file, so it imports little: no NumPy.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, islice

CODING = "utf-16-le"
PAGE = 8192  # characters, or more, cut by one call, next to which other threads run

SPACE = " ".encode(CODING)

Words = Callable[[str], list[str]]
Job = tuple[str, str]  # rule, sentences

HAN_RANGES = (
    *((0x2E80, 0x2FDF), (0x3005, 0x3005), (0x3007, 0x3007), (0x3021, 0x3029), (0x3400, 0x4DBF), (0x4E00, 0x9FFF)),
    *((0xF900, 0xFAFF), (0x20000, 0x323AF)),
)
# Letters of other scripts, and Latin ones with accents, whose words jieba would tear into characters.
FOREIGN_RANGES = (
    *((0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x1FFF), (0x2C00, 0x2DFF), (0x3041, 0x30FA), (0x30FC, 0x318F)),
    *((0xA000, 0xD7FF), (0xFE20, 0xFE2F), (0xFF66, 0xFFDC)),
)
# What makes one sign of several: joiners, keycaps and variants; colours of skin; the letters of flags, two a flag.
JOINER_RANGES = ((0x200C, 0x200D), (0x20E3, 0x20E3), (0xFE00, 0xFE0F))
SKIN_RANGES = ((0x1F3FB, 0x1F3FF),)
FLAG_RANGES = ((0x1F1E6, 0x1F1FF),)


def _class(ranges: Iterable[tuple[int, int]]) -> str:
    """Ranges as they occur in the brackets of a pattern."""
    return "".join(f"{chr(low)}-{chr(high)}" for low, high in ranges)


_FOREIGN = _class(FOREIGN_RANGES)
_JOINERS = _class(JOINER_RANGES)
_JOINED = f"[{_JOINERS}{_class(SKIN_RANGES)}]"
_FLAG_LETTER = f"[{_class(FLAG_RANGES)}]"
_FLAG = _FLAG_LETTER * 2
_EMOJI = "[\u203c-\u2bff\U0001f000-\U0001faff]"
_THOUSANDS = re.compile(r" [0-9]{3}(?![0-9])").match
_APART = re.compile(f"(?<=[^\n ]) (?=[{_JOINERS}])|(?<=\u200d) (?={_EMOJI})")
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
    """Signs that belong to the letter before them (vowel signs, accents) and that ``\\w`` omits."""
    areas = ((0x300, 0x370), (0x483, 0x48A), (0x591, 0x1CFA), (0x1DC0, 0x1E00), (0xA66F, 0xABEE), (0xFE20, 0xFE30))
    points = (chr(point) for low, high in areas for point in range(low, high))
    return "".join(point for point in points if unicodedata.category(point) in ("Mn", "Mc", "Me"))


def _rules(letter: str, sign: str, flags: int = 0) -> Words:
    """Addresses; abbreviations with dots; words and numbers with what joins their parts; other signs one by one."""
    return re.compile(
        r"https?://[!-~]*[\w/]"
        r"|(?:[^\W\d_]\.){2,}|Ph\.D\."  # U.S., e.g.
        rf"|{letter}+(?:(?:[-'’·]|(?<=\d)[.,:/](?=\d)){letter}+)*"  # don't, 3.14
        r"(?:[@.+](?:(?<=@)|\w{1,64}(?:[.+-]\w{1,64}){0,7}@)\w+(?:[.-]\w+)+)?"  # a@b.org, a.b@c.org
        rf"|\n|\.{{2,}}|-{{2,}}|{sign}",
        flags,
    ).findall


_ascii_rules = cache(lambda: _rules(r"\w", r"[^\w\s]", re.ASCII))
_other_rules = cache(lambda: _rules(rf"[\w{_marks()}{_JOINERS}]", rf"{_FLAG}|[^\w\s](?:\u200d[^\w\s]|{_JOINED})*"))
_more_than_characters = cache(lambda: re.compile(f"[{_marks()}{_JOINERS}{_class(SKIN_RANGES + FLAG_RANGES)}]").search)
_characters = cache(lambda: re.compile(f"{_FLAG}|\n|.(?:\u200d{_EMOJI}|[{_marks()}]|{_JOINED})*").findall)


def by_rules(text: str) -> list[str]:
    """The words of text that has spaces between them."""
    return (_ascii_rules() if text.isascii() else _other_rules())(text)


def by_characters(text: str) -> Iterable[str]:
    """The characters of a text, each with its marks."""
    return text if text.isascii() or not _more_than_characters()(text) else _characters()(text)


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
    letter = f"[A-Za-z0-9{_FOREIGN}]"
    rest = rf"{letter}*(?:[-'’·]{letter}+)*"
    # One class for the beginnings of all branches passes quickly over the Chinese. A run is tried from its beginning
    # only: from each of its letters in turn, a long one would take forever.
    return re.compile(
        rf"([A-Za-z0-9_.+'’{_FOREIGN}{_EMOJI[1:-1]}-](?:"
        r"(?<=h)ttps?://[!-~]*[A-Za-z0-9_/]"
        r"|(?<=[A-Za-z])(?<![A-Za-z]{2})\.(?:[A-Za-z]\.)+"
        r"|(?<=[A-Za-z0-9_.+-])(?<![A-Za-z0-9_.+-]{2})[A-Za-z0-9_.+-]*@[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)+"
        rf"|(?<=[A-Za-z0-9])(?<![A-Za-z0-9]{{2}})[A-Za-z0-9]*(?:[{_FOREIGN}]|(?<=[A-Za-z])['’](?=[A-Za-z])){rest}"
        rf"|(?<=[{_FOREIGN}]){rest}"
        rf"|(?<=[A-Za-z]['’])(?=[A-Za-z]){rest}"
        rf"|(?<={_EMOJI})(?:\u200d{_EMOJI}|{_JOINED})+"
        rf"|(?<={_FLAG_LETTER}){_FLAG_LETTER}))"
    )


def _by_jieba(jobs: Iterable[Job], cut: Words) -> bytes:
    """Lines cut by jieba, whole pages at once. ``auto`` keeps numbers whole, foreign words, and lines without Chinese.

    While jieba works, a NUL, which no text has and which jieba cuts off from everything, stands for each of these.
    """
    texts: list[str] = []
    foreign: list[str] = []
    for rule, lines in jobs:
        if rule == "mixed":
            pieces = _foreign_words().split(lines)
            foreign += pieces[1::2]
            lines = "\0".join(pieces[::2])
        elif rule == "english":
            foreign.append(" ".join(by_rules(lines)))
            lines = "\0"
        texts.append(lines)
    whole = iter(foreign)
    pages = (_with_joiners(" ".join(cut(page))) for page in _pages("\n".join(texts)))
    return _encoded(pages if rule == "jieba" else (_put_back(_with_thousands(page), whole) for page in pages))


def _with_joiners(text: str) -> str:
    """Signs that were cut off from what they join put back to it."""
    return _APART.sub("", text) if "\u200d" in text or "\ufe0f" in text else text


def _with_thousands(text: str) -> str:
    """3 , 000.50 put together again. A stand-in would change how jieba cuts what is before it: 长达 3,000 公里."""
    pieces = text.split(",")
    for i in range(1, len(pieces)):
        if pieces[i - 1][-2:-1].isdigit() and _THOUSANDS(pieces[i]):
            pieces[i - 1], pieces[i] = pieces[i - 1][:-1], pieces[i][1:]
    return ",".join(pieces)


def _put_back(text: str, foreign: Iterator[str]) -> str:
    """The next foreign words in the places of the NULs."""
    if "\0" not in text:
        return text
    pieces = text.split("\0")
    return "".join(chain.from_iterable(zip(pieces, [*islice(foreign, len(pieces) - 1), ""], strict=True)))


def _encoded(pages: Iterable[str]) -> bytes:
    """The pages as one text; each is encoded while it is in the processor's own memory."""
    return SPACE.join([page.encode(CODING, "replace") for page in pages])


def _pages(sentences: str) -> Iterator[str]:
    """Whole lines, some at a time; each page ends with a newline."""
    start = 0
    while (end := sentences.find("\n", start + PAGE) + 1) > 0:
        yield sentences[start:end]
        start = end
    yield sentences[start:] + "\n"


def work(jobs: Sequence[Job], words: tuple[str, ...]) -> bytes:
    """The answers to the jobs, one after the other; ``words`` is the user dictionary."""
    rules = {rule for rule, _ in jobs}
    if rules & {"chinese", "mixed", "jieba"}:
        return _by_jieba(jobs, _jieba(words))
    if not rules:
        return b""
    (rule,) = rules
    sentences = "\n".join([lines for _, lines in jobs])
    if rule == "english":
        return _encoded(" ".join(by_rules(page)) for page in _pages(sentences))
    if rule == "char":
        return _encoded(" ".join(by_characters(page)) for page in _pages(sentences))
    return (sentences.replace("\n", " \n ") + " \n").encode(CODING, "replace")
