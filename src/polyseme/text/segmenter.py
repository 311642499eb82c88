"""Segmentation of text into words, and the worker process that does it: it receives jobs and sends back words.

A job is a rule and some sentences, one per line. Its result is text again, in UTF-16, which the numbering of words
works on: words separated by spaces, with a newline as a word of its own at the end of every sentence.

Worker processes import this file and nothing else of ours, so it imports little: no NumPy.
"""

from __future__ import annotations

import marshal
import os
import re
import signal
import struct
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, islice
from typing import IO, Any

CODING = "utf-16-le"
PAGE = 8192  # minimum number of characters per call of the segmenter; other threads run during the call

SPACE = " ".encode(CODING)
_LENGTH = struct.Struct("<Q")  # of a message between processes

Words = Callable[[str], list[str]]
Job = tuple[str, str]  # rule, sentences

HAN_RANGES = (
    *((0x2E80, 0x2FDF), (0x3005, 0x3005), (0x3007, 0x3007), (0x3021, 0x3029), (0x3400, 0x4DBF), (0x4E00, 0x9FFF)),
    *((0xF900, 0xFAFF), (0x20000, 0x323AF)),
)
# Letters of other scripts, and accented Latin ones: jieba would split their words into characters.
FOREIGN_RANGES = (
    *((0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x1FFF), (0x2C00, 0x2DFF), (0x3041, 0x30FA), (0x30FC, 0x318F)),
    *((0xA000, 0xD7FF), (0xFE20, 0xFE2F), (0xFF66, 0xFFDC)),
)
# Characters that combine into one emoji: joiners, keycaps, variation selectors; skin tones; flag letters (in pairs).
JOINER_RANGES = ((0x200C, 0x200D), (0x20E3, 0x20E3), (0xFE00, 0xFE0F))
SKIN_RANGES = ((0x1F3FB, 0x1F3FF),)
FLAG_RANGES = ((0x1F1E6, 0x1F1FF),)


def _class(ranges: Iterable[tuple[int, int]]) -> str:
    """Code point ranges as the inside of a regular expression's character class."""
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
    """Replace every kind of space but the newline by a plain one. Searching for each is faster than a regex pass."""
    for blank in _BLANKS:
        if blank in text:
            text = text.replace(blank, " ")
    return text


def _marks() -> str:
    """Combining marks (vowel signs, accents), which belong to the letter before them and which ``\\w`` omits."""
    areas = ((0x300, 0x370), (0x483, 0x48A), (0x591, 0x1CFA), (0x1DC0, 0x1E00), (0xA66F, 0xABEE), (0xFE20, 0xFE30))
    points = (chr(point) for low, high in areas for point in range(low, high))
    return "".join(point for point in points if unicodedata.category(point) in ("Mn", "Mc", "Me"))


def _rules(letter: str, sign: str, flags: int = 0) -> Words:
    """A pattern for URLs, abbreviations with dots, words and numbers with inner punctuation, and single signs."""
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
    """The words of a text in a language that is written with spaces."""
    return (_ascii_rules() if text.isascii() else _other_rules())(text)


def by_characters(text: str) -> Iterable[str]:
    """The characters of a text, each with its combining marks."""
    return text if text.isascii() or not _more_than_characters()(text) else _characters()(text)


@cache
def _jieba(words: tuple[str, ...]) -> Words:
    import rjieba

    if not words:
        shared: Words = rjieba.cut  # its dictionary is loaded already
        return shared
    segmenter = rjieba.Jieba()
    for word in words:
        # The lowest frequency at which jieba prefers the word to its parts.
        segmenter.add_word(word, segmenter.suggest_freq(word), "n")
    cut: Words = segmenter.cut
    return cut


@cache
def _foreign_words() -> re.Pattern[str]:
    letter = f"[A-Za-z0-9{_FOREIGN}]"
    rest = rf"{letter}*(?:[-'’·]{letter}+)*"
    # One character class for the first character of all branches skips Chinese text quickly. A run is only tried from
    # its beginning: starting from each of its letters in turn would take quadratic time on a long one.
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
    """Segment lines with jieba, a page at a time. Under ``auto``, foreign words and lines without Chinese bypass jieba.

    A NUL takes the place of each of these while jieba runs: no text contains one, and jieba always splits it off.
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
    """Reattach joiners and variation selectors that jieba split off from their emoji."""
    return _APART.sub("", text) if "\u200d" in text or "\ufe0f" in text else text


def _with_thousands(text: str) -> str:
    """Rejoin 3 , 000.50. A placeholder would change how jieba segments the text before it: 长达 3,000 公里."""
    pieces = text.split(",")
    for i in range(1, len(pieces)):
        if pieces[i - 1][-2:-1].isdigit() and _THOUSANDS(pieces[i]):
            pieces[i - 1], pieces[i] = pieces[i - 1][:-1], pieces[i][1:]
    return ",".join(pieces)


def _put_back(text: str, foreign: Iterator[str]) -> str:
    """Replace each NUL by the next foreign word."""
    if "\0" not in text:
        return text
    pieces = text.split("\0")
    return "".join(chain.from_iterable(zip(pieces, [*islice(foreign, len(pieces) - 1), ""], strict=True)))


def _encoded(pages: Iterable[str]) -> bytes:
    """Join the pages, encoding each while it is still in the processor's cache."""
    return SPACE.join([page.encode(CODING, "replace") for page in pages])


def _pages(sentences: str) -> Iterator[str]:
    """Split the sentences into pages of whole lines; each page ends with a newline."""
    start = 0
    while (end := sentences.find("\n", start + PAGE) + 1) > 0:
        yield sentences[start:end]
        start = end
    yield sentences[start:] + "\n"


def work(jobs: Sequence[Job], words: tuple[str, ...]) -> bytes:
    """The results of the jobs, concatenated; ``words`` is the user dictionary."""
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


def serve_jobs() -> None:
    """Read the user dictionary, then jobs, until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the main process closes our input
    try:
        words = receive(sys.stdin.buffer)
        while True:
            send(sys.stdout.buffer, work(receive(sys.stdin.buffer), words))
    except (EOFError, BrokenPipeError):
        os._exit(0)


def send(stream: IO[bytes] | None, value: Any) -> None:
    """Send a plain value, preceded by its length."""
    assert stream
    data = marshal.dumps(value)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes] | None) -> Any:
    """Receive what ``send`` sent; EOFError if the other side is gone."""
    assert stream
    head = stream.read(_LENGTH.size)
    size = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else 1
    data = stream.read(size) if len(head) == _LENGTH.size else b""
    if len(data) < size:
        raise EOFError
    return marshal.loads(data)
