"""Cutting text into words. 分词

| name      | words are |
|-----------|-----------|
| `auto`    | by script: Han runs by jieba, everything else by the word rules of `english` |
| `jieba`   | all of it by jieba (rjieba, with its dictionary and HMM) |
| `char`    | every character but spaces |
| `space`   | what stands between spaces: text that is segmented already |
| `english` | runs of letters and digits with inner - ' . , (don't, U.S., 3.14); every other sign for itself |

or any Python function from a string to a list of strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from polyseme.errors import FormatError, OptionError, TextError
from polyseme.text.normalise import CASES, FORMS, SCRIPTS, check, normalise

if TYPE_CHECKING:
    from typing_extensions import Self

METHODS = ("auto", "jieba", "char", "space", "english")
FUNCTION = "function"
Cut = Callable[[str], list[str]]

HAN = "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_HAN = re.compile(f"[{HAN}]")
# jieba keeps these beside Han characters in one run, for words such as T恤, 卡拉OK or 4S店.
_BESIDE_HAN = r"[A-Za-z0-9+#&._%\-]*"
_HAN_RUN = re.compile(rf"{_BESIDE_HAN}[{HAN}](?:[{HAN}]|{_BESIDE_HAN}[{HAN}])*{_BESIDE_HAN}")


def _marks() -> str:
    """Signs that belong to the letter before them (vowel signs, accents) and that ``\\w`` leaves out."""
    import unicodedata

    areas = ((0x300, 0x370), (0x483, 0x48A), (0x591, 0x1CFA), (0x1DC0, 0x1E00), (0xA66F, 0xABEE), (0xFE20, 0xFE30))
    points = (point for low, high in areas for point in range(low, high))
    return "".join(chr(point) for point in points if unicodedata.category(chr(point)) in ("Mn", "Mc", "Me"))


@cache
def _word_rules() -> Cut:
    letters = rf"[\w{_marks()}]"
    return re.compile(
        r"https?://[^\s<>\"，。；）]*[\w/]"  # addresses
        rf"|(?:[^\W\d_]\.){{2,}}(?!{letters})"  # U.S., e.g.
        rf"|{letters}+(?:[-'’.,·:/@]{letters}+)*"  # don't, 3.14, 1,000, self-made, 12:30, a@b.org
        r"|\.{2,}|-{2,}|[^\w\s]"
    ).findall


@cache
def _jieba(words: tuple[str, ...]) -> Cut:
    import rjieba

    segmenter = rjieba.Jieba()
    for word in words:
        # The frequency at which jieba prefers the word to its parts, as jieba's own add_word takes it.
        segmenter.add_word(word, segmenter.suggest_freq(word), "n")
    cut: Cut = segmenter.cut
    return cut


def _cut_jieba(words: tuple[str, ...]) -> Cut:
    cut = _jieba(words)

    def tokens(text: str) -> list[str]:
        found = cut(text)
        return [token for token in found if not token.isspace()]

    return tokens


def _cut_by_script(words: tuple[str, ...]) -> Cut:
    cut_han, cut_other = _cut_jieba(words), _word_rules()

    def tokens(text: str) -> list[str]:
        if not _HAN.search(text):
            return cut_other(text)
        found: list[str] = []
        done = 0
        for run in _HAN_RUN.finditer(text):
            found += cut_other(text[done : run.start()])
            found += cut_han(run[0])
            done = run.end()
        return found + cut_other(text[done:])

    return tokens


def _cut_characters(text: str) -> list[str]:
    return list("".join(text.split()))


def cutter(method: str, words: tuple[str, ...]) -> Cut:
    """The function that cuts normalised text into words."""
    if method == "auto":
        return _cut_by_script(words)
    if method == "jieba":
        return _cut_jieba(words)
    others: dict[str, Cut] = {"char": _cut_characters, "space": str.split, "english": _word_rules()}
    return others[method]


@dataclass(frozen=True)
class Segmentation:
    """How text becomes words. It is kept with every corpus and model, so that later text is cut the same way."""

    method: str = "auto"
    normalise: str = "nfkc"  # nfkc | none
    script: str = "keep"  # keep | simplified | traditional
    case: str = "keep"  # keep | lower
    words: tuple[str, ...] = ()  # the user dictionary
    function: Cut | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.method != FUNCTION:
            check("segment", self.method, METHODS)
        check("normalise", self.normalise, FORMS)
        check("script", self.script, SCRIPTS)
        check("case", self.case, CASES)
        if self.words and self.method not in ("auto", "jieba"):
            raise OptionError(f"a user dictionary works with segment auto or jieba, not with {self.method}")

    @classmethod
    def of(cls, segment: str | Cut | Segmentation, **settings: Any) -> Segmentation:
        """From what people write: the name of a method, a function, or a Segmentation."""
        if isinstance(segment, Segmentation):
            return replace(segment, **settings) if settings else segment
        if isinstance(segment, str):
            return cls(segment, **settings)
        return cls(FUNCTION, function=segment, **settings)

    def normalised(self, text: str) -> str:
        """The text that is cut."""
        return normalise(text, self.normalise, self.script, self.case)

    def cut(self) -> Cut:
        """The function from normalised text to words."""
        if self.method != FUNCTION:
            return cutter(self.method, self.words)
        if self.function is None:
            raise TextError(
                "the text was segmented by a Python function, which cannot be stored: "
                "give lists of words instead of raw text"
            )
        return _checked(self.function)

    def tokens(self, text: str) -> list[str]:
        """The words of a text."""
        return self.cut()(self.normalised(text))

    def to_json(self) -> dict[str, Any]:
        """What a corpus or model keeps of it."""
        kept = {"method": self.method, "normalise": self.normalise, "script": self.script, "case": self.case}
        return {**kept, "words": list(self.words)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """What ``to_json`` gave."""
        try:
            words = tuple(record.get("words", ()))
            names = {name: record[name] for name in ("method", "normalise", "script", "case")}
            if not all(isinstance(value, str) for value in (*names.values(), *words)):
                raise TypeError
            return cls(**names, words=words)
        except (AttributeError, KeyError, TypeError):
            raise FormatError(f"this is no description of a segmentation: {str(record)[:80]}") from None
        except OptionError as error:
            raise FormatError(f"the segmentation is not one this polyseme knows: {error}") from None


def _checked(function: Cut) -> Cut:
    def tokens(text: str) -> list[str]:
        return [token for token in function(text) if token and not token.isspace()]

    return tokens
