"""One table of the kinds of evaluation files. A file's kind is recognised by its content; the first that fits is
taken."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from polyseme.errors import FormatError
from polyseme.evaluate.report import EvaluationSettings, Report, read_lines
from polyseme.interfaces import LanguageModel

SAMPLE = 1 << 16


class Kind(NamedTuple):
    """A kind of file, and the module of what it is measured by.

    A kind that is recognised by its lines has ``fits_NAME(lines)``, asked with the beginning of a file; every kind has
    ``evaluate_NAME(model, path, settings)``.
    """

    name: str
    chinese: str
    module: str

    def fits(self, lines: list[str]) -> bool:
        """Whether a file that begins with these lines is of this kind."""
        fits: bool = self._function("fits")(lines)
        return fits

    def evaluate(self, model: Any, path: Path, settings: EvaluationSettings) -> Report:
        """How well the model does on a file of this kind."""
        report: Report = self._function("evaluate")(model, path, settings)
        return report

    def _function(self, verb: str) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(import_module(self.module), f"{verb}_{self.name.replace('-', '_')}")
        return function


KINDS = (
    Kind("word-in-context", "语境词义", "polyseme.evaluate.sentence_pairs"),
    Kind("analogy", "词类比", "polyseme.evaluate.word_pairs"),
    Kind("sts", "句子相似度", "polyseme.evaluate.sentence_pairs"),
    Kind("similarity", "词相似度", "polyseme.evaluate.word_pairs"),
)
STS = KINDS[2]  # what a folder is too: sets of sentence pairs
RETRIEVAL = Kind("retrieval", "检索", "polyseme.evaluate.retrieval")  # where texts to search are named
TRANSFER = Kind("transfer", "迁移", "polyseme.evaluate.transfer")  # other labelled texts and pairs, or where requested
PROBING = Kind("probing", "探测", "polyseme.evaluate.probing")  # any text, where tasks are requested
TRANSLATION = Kind("translation", "翻译", "polyseme.evaluate.retrieval")  # parallel text
# What any other text is good for, where the model is a language model.
TEXT = Kind("perplexity", "困惑度", "polyseme.evaluate.retrieval")


def evaluate_file(model: Any, path: str | Path, settings: EvaluationSettings | None = None) -> Report:
    """How well the model does on a file of any kind in the table."""
    path = Path(path)
    settings = settings or EvaluationSettings()
    kind = _asked_for(settings) or recognise_kind(path, model)
    if kind == STS and settings.dev is not None:  # cosines have nothing to be chosen
        kind = TRANSFER
    report = kind.evaluate(model, path, settings)
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
        if lines and kind.fits(lines):
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
