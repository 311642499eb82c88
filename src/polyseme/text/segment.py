"""Segmenting text into words. 分词

| name      | words are |
|-----------|-----------|
| `auto`    | by script: sentences with Han characters by jieba, other sentences and foreign words as `english` |
| `jieba`   | everything by jieba (rjieba, with its dictionary and HMM) |
| `char`    | every character except spaces |
| `space`   | separated by spaces: text that is already segmented |
| `english` | runs of letters and digits with inner - ' . , (don't, U.S., 3.14); every other sign separately |

or any Python function from a string to a list of strings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from polyseme.errors import FormatError, OptionError, TextError
from polyseme.text import segmenter
from polyseme.text.normalise import CASES, FORMS, SCRIPTS, check, normalise
from polyseme.text.strings import well_formed
from polyseme.text.writing_systems import jobs

if TYPE_CHECKING:
    from typing_extensions import Self

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
    from polyseme.text.source import Reader, Source

    text = "".join(Reader(Source(path)).chunks())
    return tuple(dict.fromkeys(line.split()[0] for line in text.splitlines() if line.strip()))
