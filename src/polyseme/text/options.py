"""Options for reading and segmenting text and tables: one dataclass per kind of data, for Python, flags and docs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from polyseme.options import make_options, option
from polyseme.text.blocks import DOCUMENTS, FORMATS
from polyseme.text.normalise import CASES, FORMS, SCRIPTS
from polyseme.text.segment import METHODS, Segmentation

R = TypeVar("R", bound="Cutting")
_FOUND = "text encoding; UTF-8, UTF-16, GB18030, Big5 and Windows-1252 are detected automatically"


TABLE_FORMATS = ("tsv", "csv", "bars", "jsonl", "json", "first", "lines")


@dataclass(frozen=True)
class Cutting:
    """How text is segmented into words. In Python, ``segment`` may also be a function or a Segmentation."""

    segment: str = option("auto", "word segmentation; auto: by script", choices=METHODS)
    words: tuple[str, ...] = option((), "user dictionary: words that jieba must not split")
    normalise: str = option(
        "nfkc", "normalise ＡＢＣ１２３ to ABC123 etc.; Chinese punctuation stays full-width", choices=FORMS
    )
    script: str = option("keep", "繁→简 or 简→繁", choices=SCRIPTS)
    case: str = option("keep", "letters", choices=CASES)


@dataclass(frozen=True)
class Reading(Cutting):
    """How the text of a corpus is read."""

    format: str = option(
        "auto",
        "what a line contains: a paragraph, part of one, a JSON record, segmented words, word/TAG",
        choices=FORMATS,
    )
    field: str = option("text", "JSON field with the text")
    documents: str = option(
        "auto",
        "document boundary; auto: blank lines in a single file, otherwise one document per file",
        choices=DOCUMENTS,
    )
    encoding: str | None = option(None, _FOUND)
    errors: str = option("strict", "invalid bytes: fail, or replace them with �", choices=("strict", "replace"))


@dataclass(frozen=True)
class ReadingParallel(Cutting):
    """How parallel text is read."""

    columns: Mapping[str, Any] | None = option(
        None, "columns by name or number from 1: source=1,target=2; default: guessed"
    )
    encoding: str | None = option(None, _FOUND)
    errors: str = option(
        "strict", "strict: fail on unreadable input; replace: replace invalid bytes with �; "
                  "skip: also skip bad rows",
        choices=("strict", "replace", "skip"),
    )  # fmt: skip


@dataclass(frozen=True)
class ReadingExamples(ReadingParallel):
    """How labelled examples are read."""

    columns: Mapping[str, Any] | None = option(
        None,
        "columns by name or number from 1: text=sentence,label=2; pairs: first, second and "
        "label; tagged sentences: token and tag; choices: context, question, alternatives and answer; default: guessed",
    )
    format: str | None = option(None, "format of a table; default: detected", choices=TABLE_FORMATS)
    scored: bool | None = option(None, "labels are scores, not classes; default: if they have decimals or grade pairs")
    label_parts: int | None = option(None, "keep only this many parts of labels such as DESC:manner", minimum=1)


CUTTING = tuple(field.name for field in dataclasses.fields(Cutting))
READING = tuple(field.name for field in dataclasses.fields(Reading))
# Kind of training data → options for reading it.
OPTIONS_OF: dict[str, type[Cutting]] = {
    "corpus": Reading,
    "parallel": ReadingParallel,
    **dict.fromkeys(("texts", "pairs", "tags", "spans", "choices"), ReadingExamples),
}
READING_NAMES = frozenset(field.name for cls in OPTIONS_OF.values() for field in dataclasses.fields(cls))


def make_reading(cls: type[R], values: Mapping[str, Any]) -> tuple[R, Segmentation]:
    """Check the options; returns them and the segmentation they describe."""
    given = dict(values)
    segment = given.pop("segment", "auto")
    if "words" in given and not isinstance(given["words"], str):
        given["words"] = tuple(given["words"])
    how = make_options(cls, given | ({"segment": segment} if isinstance(segment, str) else {}))
    return how, Segmentation.of(segment, **{name: given[name] for name in CUTTING if name in given})
