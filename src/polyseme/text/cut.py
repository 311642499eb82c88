"""The segmenters at work, many sentences at a time: one call of a C-speed function for a whole page of them.

A page of words is a flat list in which a mark, "\\n" or "\\0", ends every sentence; " " and "" in it mean nothing. The
corpus builder gives all of these numbers below ``FIRST`` and sorts them out in one pass over the numbers.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache

MARKS = {"\n": 0, "\0": 0, " ": 1, "": 1}
END = 0
FIRST = 2  # the first number of a word
PAGE = 48  # sentences: larger pages fall out of the processor's cache

Words = Callable[[str], list[str]]
Pages = Callable[[Sequence[str]], Iterator[list[str]]]

HAN = "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
# Letters of other scripts than Latin without accents, whose words jieba would tear into characters.
_FOREIGN = "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u1fff\u2c00-\u2dff\u3041-\u30fa\u30fc-\u318f\ua000-\ud7ff\uff66-\uffdc"
_HAN = re.compile(f"[{HAN}]")
_HINT = re.compile(f"[{_FOREIGN}'’.@/]")
_BLANK = re.compile("[\t\v\f\r\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")


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

    segmenter = rjieba.Jieba()
    for word in words:
        # The frequency from which on jieba prefers the word to its parts.
        segmenter.add_word(word, segmenter.suggest_freq(word), "n")
    cut: Words = segmenter.cut
    return cut


@cache
def _foreign_words() -> re.Pattern[str]:
    letter = f"[A-Za-z0-9{_FOREIGN}{_marks()}]"
    return re.compile(
        r"(https?://[!-~]*[\w/]|(?:(?<![A-Za-z])[A-Za-z]\.){2,}|[A-Za-z0-9_.+-]+@[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)+"
        rf"|[A-Za-z0-9]*(?:[{_FOREIGN}]|(?<=[A-Za-z])['’](?=[A-Za-z])){letter}*(?:[-'’·]{letter}+)*)"
    )


def _by_jieba(words: tuple[str, ...]) -> Pages:
    cut = _jieba(words)
    return lambda sentences: (cut(page) for page in _joined(sentences))


def _by_script(words: tuple[str, ...]) -> Pages:
    cut = _jieba(words)

    def pages(sentences: Sequence[str]) -> Iterator[list[str]]:
        """Runs of plain Chinese sentences go to jieba together, the others one by one."""
        plain: list[str] = []
        for sentence in sentences:
            han = _HAN.search(sentence)
            if han and not _HINT.search(sentence):
                plain.append(sentence)
                continue
            yield from (cut(page) for page in _joined(plain))
            plain.clear()
            yield [*(_mixed(sentence, cut) if han else by_rules(_BLANK.sub(" ", sentence))), "\n"]
        yield from (cut(page) for page in _joined(plain))

    return pages


def _mixed(sentence: str, cut: Words) -> list[str]:
    found: list[str] = []
    for place, piece in enumerate(_foreign_words().split(sentence)):
        if place % 2:
            found.append(piece)
        elif piece:
            found += cut(_BLANK.sub(" ", piece))
    return found


def _joined(sentences: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(sentences), PAGE):
        yield _BLANK.sub(" ", "\n".join(sentences[start : start + PAGE])) + "\n"


def _by_characters(sentences: Sequence[str]) -> Iterator[list[str]]:
    return (list(page) for page in _joined(sentences))


def _by_spaces(sentences: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(sentences), PAGE):
        yield " \0 ".join([*sentences[start : start + PAGE], ""]).split()


def _by_word_rules(sentences: Sequence[str]) -> Iterator[list[str]]:
    return (by_rules(page) for page in _joined(sentences))


def _by_function(function: Words) -> Pages:
    def pages(sentences: Sequence[str]) -> Iterator[list[str]]:
        for sentence in sentences:
            yield [*(str(token) for token in function(sentence) if token and not str(token).isspace()), "\n"]

    return pages


def pages(method: str, words: tuple[str, ...], function: Words | None) -> Pages:
    """The segmenter of a name, with its user dictionary."""
    if function:
        return _by_function(function)
    if method in ("auto", "jieba"):
        return _by_script(words) if method == "auto" else _by_jieba(words)
    return {"char": _by_characters, "space": _by_spaces, "english": _by_word_rules}[method]
