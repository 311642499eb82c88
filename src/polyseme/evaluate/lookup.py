"""Which words of an evaluation file a model knows."""

from __future__ import annotations

from collections.abc import Iterable

from polyseme.errors import OptionError
from polyseme.evaluate.report import EvaluationSettings
from polyseme.words.vectors import WordVectors


class Lookup:
    """Rows of words among the frequent part of a vocabulary; of spellings that differ in case, the most frequent."""

    def __init__(self, model: object, settings: EvaluationSettings) -> None:
        if not isinstance(model, WordVectors):
            raise OptionError("this file needs word vectors, and the model has none: choose a word-vector model")
        if settings.case not in ("ignore", "keep"):
            raise OptionError(f"case is ignore or keep, not {settings.case!r}")
        self.model = model
        self.fold = str.upper if settings.case == "ignore" else str
        self.n_rows = len(model) if settings.restrict is None else max(0, min(settings.restrict, len(model)))
        self.folded = [self.fold(word) for word in model.index_to_key[: self.n_rows]]
        self._rows: dict[str, int] = {}
        for row, word in enumerate(self.folded):
            self._rows.setdefault(word, row)

    def rows(self, words: Iterable[str]) -> list[int] | None:
        """Their rows; None if one of them is unknown."""
        found = [self._rows.get(self.fold(word), -1) for word in words]
        return None if -1 in found else found
