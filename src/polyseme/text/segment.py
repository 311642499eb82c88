"""Segmenting text into words. 分词

| name      | words are |
|-----------|-----------|
| `auto`    | by script: sentences with Han characters by jieba, other sentences and foreign words as `english` |
| `jieba`   | everything by jieba (rjieba, with its dictionary and HMM) |
| `char`    | every character except spaces |
| `space`   | separated by spaces: text that is already segmented |
| `english` | runs of letters and digits with inner - ' . , (don't, U.S., 3.14); every other sign separately |

or any Python function from a string to a list of strings.

Choose the segmenter for each sentence: ``auto`` decides by script. 按文字种类选择分词方法
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from string import ascii_letters
from typing import TYPE_CHECKING, Any

import numpy as np

from polyseme.errors import FormatError, OptionError, TextError
from polyseme.text import segmenter
from polyseme.text.normalise import CASES, FORMS, SCRIPTS, check, normalise
from polyseme.text.segmenter import FLAG_RANGES, FOREIGN_RANGES, HAN_RANGES, JOINER_RANGES, SKIN_RANGES, Job
from polyseme.text.strings import well_formed

if TYPE_CHECKING:
    from typing_extensions import Self

_HAN, _FOREIGN, _LEADS, _MAYBE = 1, 2, 4, 8  # bits: Han characters; signs of foreign words; what precedes such a sign
_RULES = {0: "english", _HAN: "chinese", _HAN | _FOREIGN: "mixed"}
_SIGNS = np.zeros(HAN_RANGES[-1][1] + 2, dtype=np.uint8)
_SIGNS[[ord(sign) for sign in "'’@"]] = _FOREIGN
_SIGNS[[ord(sign) for sign in ":" + ascii_letters]] = _LEADS
_SIGNS[[ord(sign) for sign in "./"]] = _MAYBE  # in U.S. and in an address, but not in 3.14 or 1/2
_WORDS = FOREIGN_RANGES + JOINER_RANGES + SKIN_RANGES + FLAG_RANGES
for _bit, _ranges in ((_FOREIGN, _WORDS), (_HAN, HAN_RANGES)):
    for _low, _high in _ranges:
        _SIGNS[_low : _high + 1] = _bit

_ONE_HAN = re.compile(f"[{''.join(f'{chr(low)}-{chr(high)}' for low, high in HAN_RANGES)}]")


def has_han(text: str) -> bool:
    """Whether the text contains a Chinese character."""
    return _ONE_HAN.search(text) is not None


def jobs(method: str, sentences: str) -> list[Job]:
    """Group the sentences (one per line) into jobs: each is a run of lines that the same rule segments."""
    if not sentences:
        return []
    if method != "auto":
        return [(method, sentences)]
    codes = np.frombuffer(f"{sentences}\n".encode("utf-32-le", "replace"), dtype=np.uint32)
    starts = np.append(0, np.flatnonzero(codes == ord("\n")) + 1)
    signs = _SIGNS.take(codes, mode="clip")
    maybe = np.flatnonzero(signs == _MAYBE)
    signs[maybe[signs[maybe - 1] == _LEADS]] = _FOREIGN
    bits = np.bitwise_or.reduceat(signs, starts[:-1])
    bits = np.where(bits & _HAN, bits & (_HAN | _FOREIGN), 0)  # without Han characters nothing else matters
    changes = np.append(0, np.flatnonzero(np.diff(bits)) + 1)
    bounds = [*starts[changes].tolist(), len(codes)]
    rules = [_RULES[bit] for bit in bits[changes].tolist()]
    return [(rule, sentences[start : end - 1]) for rule, (start, end) in zip(rules, pairwise(bounds), strict=True)]


def mostly_chinese(text: str) -> bool:
    """Whether at least half of the text's letters are Han characters."""
    codes = np.frombuffer(text.encode("utf-32-le", "replace"), dtype=np.uint32)
    han = int(np.count_nonzero(_SIGNS.take(codes, mode="clip") == _HAN))
    return 2 * han >= sum(character.isalpha() for character in text) > 0


METHODS = ("auto", "jieba", "char", "space", "english")
HEAVY = ("auto", "jieba", "english")  # worth more than one thread or process
FUNCTION = "function"
Function = Callable[[str], list[str]]


@dataclass(frozen=True)
class Segmentation:
    """How text is segmented. Every corpus and model stores it, so that later text is segmented the same way."""

    method: str = "auto"
    normalise: str = "nfkc"  # nfkc | none
    script: str = "keep"  # keep | simplified | traditional
    case: str = "keep"  # keep | lower
    words: tuple[str, ...] = ()  # the user dictionary
    function: Function | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.method != FUNCTION:
            check("segment", self.method, METHODS)
        check("normalise", self.normalise, FORMS)
        check("script", self.script, SCRIPTS)
        check("case", self.case, CASES)
        if self.words and self.method not in ("auto", "jieba"):
            raise OptionError(f"a user dictionary works with segment auto or jieba, not with {self.method}")
        given: object = self.words
        if isinstance(given, str):
            raise OptionError(f"words is a list of words, not one string: {given[:20]!r}")
        # Normalise the words like the text in which they will be looked up.
        written = (word.strip() for word in self.normalised(well_formed("\n".join(self.words))).split("\n"))
        object.__setattr__(self, "words", tuple(dict.fromkeys(filter(None, written))))

    @classmethod
    def of(cls, segment: str | Function | Segmentation, **settings: Any) -> Segmentation:
        """Make a Segmentation from the name of a method, a function, or another Segmentation."""
        if isinstance(segment, Segmentation):
            return replace(segment, **settings) if settings else segment
        if isinstance(segment, str):
            return cls(segment, **settings)
        return cls(FUNCTION, function=segment, **settings)

    def normalised(self, text: str) -> str:
        """The text as it is normalised before segmentation."""
        return normalise(text, self.normalise, self.script, self.case)

    def lines(self, text: str) -> str:
        """Normalise sentences, one per line, for ``jobs``: all spaces become plain ones."""
        text = self.normalised(text)
        return text if self.normalise == "nfkc" else segmenter.plain_spaces(text)

    def jobs(self, lines: str) -> list[segmenter.Job]:
        """The jobs that segment ``lines``; ``segmenter.work`` runs them, in this process or another."""
        return jobs(self.method, lines)

    def tokens(self, text: str) -> list[str]:
        """The words of a text."""
        return self.token_lists([text])[0]

    def token_lists(self, texts: Sequence[str]) -> list[list[str]]:
        """The words of each text; many short texts at once are much faster than one at a time."""
        if self.method == FUNCTION:
            return [self.call(self.normalised(well_formed(text))) for text in texts]
        # One text per line; normalisation does not join characters across newlines.
        joined = well_formed("\n".join([text.replace("\n", " ") for text in texts]))
        words = segmenter.work(self.jobs(self.lines(joined).replace("\0", "\ufffd")), self.words).decode(
            segmenter.CODING
        )
        return [line.split() for line in words.split("\n")[: len(texts)]]

    def call(self, text: str) -> list[str]:
        """Apply the Python function to normalised text; empty and blank words are dropped."""
        if self.function is None:
            raise TextError(
                "the text was segmented by a Python function, which cannot be saved: give lists "
                "of words instead of raw text"
            )
        return [token for token in map(str, self.function(text)) if token and not token.isspace()]

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON, stored in corpora and models; a function cannot be stored."""
        kept = {"method": self.method, "normalise": self.normalise, "script": self.script, "case": self.case}
        return {**kept, "words": list(self.words)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any], *, where: object) -> Self:
        """Read what ``to_json`` returned; ``where`` is the file, for error messages."""
        try:
            words = tuple(record.get("words", ()))
            names = {name: record[name] for name in ("method", "normalise", "script", "case")}
            if not all(isinstance(value, str) for value in (*names.values(), *words)):
                raise TypeError
            return cls(**names, words=words)
        except (AttributeError, KeyError, TypeError):
            raise FormatError(
                f"{where} was altered: this is not a description of a segmentation: {str(record)[:80]}"
            ) from None
        except OptionError as error:
            raise FormatError(f"{where}: the segmentation is not one this polyseme knows: {error}") from None


def read_words(path: str) -> tuple[str, ...]:
    """Read a user dictionary: one word per line; what follows the word (jieba's count and tag) is ignored."""
    from polyseme.text.source import Source, SourceReader

    text = "".join(SourceReader(Source(path)).chunks())
    return tuple(dict.fromkeys(line.split()[0] for line in text.splitlines() if line.strip()))
