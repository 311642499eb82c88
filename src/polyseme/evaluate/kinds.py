"""One table of the kinds of evaluation files. A file's kind is recognised by its content; the first that fits is
taken."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from polyseme.errors import FormatError
from polyseme.evaluate.report import EvaluationSettings, Report, read_lines
from polyseme.interfaces import LanguageModel

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
STS = KINDS[2]  # what a folder is too: sets of sentence pairs
RETRIEVAL = Kind("retrieval", "检索", "polyseme.evaluate.retrieval")  # told by the texts that are named next to it
TRANSFER = Kind("transfer", "迁移", "polyseme.evaluate.transfer")  # other labelled texts and pairs, or where requested
PROBING = Kind("probing", "探测", "polyseme.evaluate.probing")  # any text, where tasks are requested
TRANSLATION = Kind("translation", "翻译", "polyseme.evaluate.translation")  # parallel text
# What any other text is good for, where the model is a language model.
TEXT = Kind("perplexity", "困惑度", "polyseme.evaluate.perplexity")


def evaluate_file(model: Any, path: str | Path, settings: EvaluationSettings | None = None) -> Report:
    """How well the model does on a file of any kind in the table."""
    path = Path(path)
    settings = settings or EvaluationSettings()
    kind = _asked_for(settings) or recognise_kind(path, model)
    if kind == STS and settings.dev is not None:  # cosines have nothing to be chosen
        kind = TRANSFER
    report: Report = import_module(kind.module).evaluate(model, path, settings)
    report.file = path.name
    return report


def _asked_for(settings: EvaluationSettings) -> Kind | None:
    if settings.probe:
        return PROBING
    if settings.texts is not None:
        return RETRIEVAL
    return TRANSFER if settings.transfer or settings.test is not None else None


def recognise_kind(path: str | Path, model: Any = None) -> Kind:
    """The row of the table that fits the file; to a language model, other text is text."""
    if Path(path).is_dir():
        return STS
    if not Path(path).is_file():
        raise FormatError(f"{path} is not a file")
    lines = read_lines(path, SAMPLE)
    transfer = import_module(TRANSFER.module)
    for kind in KINDS:
        if lines and import_module(kind.module).fits(lines):
            # Columns of numbers may be those of rows (RTE, MRPC), and the label a class.
            return TRANSFER if kind == STS and transfer.holds_classes(Path(path)) else kind
    if lines and import_module(TRANSLATION.module).holds_translations(Path(path)):
        return TRANSLATION
    if lines and transfer.holds_examples(Path(path)):
        return TRANSFER
    if lines and isinstance(model, LanguageModel) and model.language:
        return TEXT
    names = ", ".join(f"{kind.name} {kind.chinese}" for kind in (*KINDS, TRANSLATION, TRANSFER))
    raise FormatError(f"{path} is not an evaluation file of a known kind ({names}): see docs/evaluate.md")
