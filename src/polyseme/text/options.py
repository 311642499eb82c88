"""How raw text and tables are read and cut: one dataclass for each kind of data, for Python, flags and docs alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from polyseme.options import make_options, option
from polyseme.text.block import DOCUMENTS
from polyseme.text.formats import FORMATS
from polyseme.text.normalise import CASES, FORMS, SCRIPTS
from polyseme.text.segment import METHODS, Segmentation
from polyseme.text.tables import FORMATS as TABLES

R = TypeVar("R", bound="Cutting")
_FOUND = "of the text; found by itself if UTF-8, UTF-16, GB18030, Big5 or Windows-1252"


@dataclass(frozen=True)
class Cutting:
    """How text is cut into words. In Python, ``segment`` may also be a function or a Segmentation."""

    segment: str = option("auto", "how text is cut into words; auto goes by script", choices=METHODS)
    words: tuple[str, ...] = option((), "user dictionary: words that jieba keeps whole")
    normalise: str = option(
        "nfkc", "ＡＢＣ１２３ to ABC123 and the like; Chinese punctuation stays wide", choices=FORMS
    )
    script: str = option("keep", "繁→简 or 简→繁", choices=SCRIPTS)
    case: str = option("keep", "letters", choices=CASES)


@dataclass(frozen=True)
class Reading(Cutting):
    """How the text of a corpus is read."""

    format: str = option(
        "auto", "what a line is: a paragraph, part of one, a JSON record, words, word/TAG", choices=FORMATS
    )
    field: str = option("text", "the field of a JSON record that holds the text")
    documents: str = option(
        "auto", "what ends a document; auto: blank lines in one file, files where there are several", choices=DOCUMENTS
    )
    encoding: str | None = option(None, _FOUND)
    errors: str = option("strict", "bad bytes: refuse, or replace them by �", choices=("strict", "replace"))


@dataclass(frozen=True)
class ReadingParallel(Cutting):
    """How parallel text is read."""

    columns: Mapping[str, Any] | None = option(
        None, "which columns are which, by name or number from 1: source=1,target=2; guessed unless given"
    )
    encoding: str | None = option(None, _FOUND)
    errors: str = option(
        "strict", "refuse what cannot be read; replace bad bytes by �; or skip bad rows too",
        choices=("strict", "replace", "skip"),
    )  # fmt: skip


@dataclass(frozen=True)
class ReadingExamples(ReadingParallel):
    """How labelled examples are read."""

    columns: Mapping[str, Any] | None = option(
        None,
        "which columns are which, by name or number from 1: text=sentence,label=2; of pairs first, second and label; "
        "of tagged sentences token and tag; guessed unless given",
    )
    format: str | None = option(None, "of a table; found by itself unless given", choices=TABLES)
    scored: bool | None = option(
        None, "labels are numbers, not classes; unless given, where they have fractions or grade pairs"
    )
    label_parts: int | None = option(None, "of labels in parts (DESC:manner) keep the first so many", minimum=1)


CUTTING = tuple(field.name for field in dataclasses.fields(Cutting))
READING = tuple(field.name for field in dataclasses.fields(Reading))
# What a method learns from, and how that is read.
OPTIONS_OF: dict[str, type[Cutting]] = {
    "corpus": Reading,
    "parallel": ReadingParallel,
    **dict.fromkeys(("texts", "pairs", "tags", "spans"), ReadingExamples),
}
READING_NAMES = frozenset(field.name for cls in OPTIONS_OF.values() for field in dataclasses.fields(cls))


def make_reading(cls: type[R], values: Mapping[str, Any]) -> tuple[R, Segmentation]:
    """Checked options, and the segmentation that they ask for."""
    given = dict(values)
    segment = given.pop("segment", "auto")
    if "words" in given and not isinstance(given["words"], str):
        given["words"] = tuple(given["words"])
    how = make_options(cls, given | ({"segment": segment} if isinstance(segment, str) else {}))
    return how, Segmentation.of(segment, **{name: given[name] for name in CUTTING if name in given})
