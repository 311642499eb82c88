"""One table of the kinds of evaluation files. A file's kind is told by its content; the first that fits is taken."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from polyseme.errors import FormatError
from polyseme.evaluate.report import Report, Settings, read_lines

SAMPLE = 1 << 16


class Kind(NamedTuple):
    """A module with ``fits(lines)``, asked with the beginning of a file, and ``evaluate(model, path, settings)``."""

    name: str
    chinese: str
    module: str


KINDS = (
    Kind("word-in-context", "语境词义", "polyseme.evaluate.context"),
    Kind("analogy", "词类比", "polyseme.evaluate.analogy"),
    Kind("sts", "句子相似度", "polyseme.evaluate.sts"),
    Kind("similarity", "词相似度", "polyseme.evaluate.similarity"),
)
FOLDER = KINDS[2]  # what a folder is: sets of sentence pairs
RETRIEVAL = Kind("retrieval", "检索", "polyseme.evaluate.retrieval")  # told by the texts that are named beside it
# What any other text is good for, where the model is a language model.
TEXT = Kind("perplexity", "困惑度", "polyseme.evaluate.perplexity")


def evaluate_file(model: Any, path: str | Path, settings: Settings | None = None) -> Report:
    """How well the model does on a file of any kind in the table."""
    path = Path(path)
    settings = settings or Settings()
    kind = RETRIEVAL if settings.texts is not None else recognise_kind(path, model)
    report: Report = import_module(kind.module).evaluate(model, path, settings)
    report.file = path.name
    return report


def recognise_kind(path: str | Path, model: Any = None) -> Kind:
    """The row of the table that fits the file; to a language model, other text is text."""
    if Path(path).is_dir():
        return FOLDER
    if not Path(path).is_file():
        raise FormatError(f"{path} is not a file")
    lines = read_lines(path, SAMPLE)
    for kind in KINDS:
        if lines and import_module(kind.module).fits(lines):
            return kind
    if lines and getattr(model, "language", None):
        return TEXT
    names = " or ".join(f"{kind.name} {kind.chinese}" for kind in KINDS)
    raise FormatError(f"{path} is no evaluation file of a known kind ({names}): see docs/evaluate.md")
