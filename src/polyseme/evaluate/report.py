"""What every evaluation returns, and how it may be asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyseme.disk.files import open_for_reading
from polyseme.interfaces import LayerChoice, SentenceEncoder
from polyseme.sentences.lift import lift
from polyseme.text import encoding as encodings


def _lifted(model: Any) -> SentenceEncoder:
    return lift(model, "sentences")


@dataclass(frozen=True)
class EvaluationSettings:
    """How a model is evaluated; each kind of file uses the settings that apply to it."""

    restrict: int | None = 300_000  # only the most frequent words take part, as in gensim
    case: str = "ignore"  # ignore: "Athens" may be answered by "athens"; keep
    method: str = "add"  # of analogies: add (3CosAdd) or mul (3CosMul)
    unseen: str = "skip"  # of similarity: skip pairs with a word outside the vocabulary, or make it of subwords
    as_texts: Callable[[Any], SentenceEncoder] = _lifted  # how a model becomes an encoder of texts
    layers: LayerChoice = "mean"  # of a context encoder, where words in their context are compared
    dev: str | Path | None = None  # that the threshold (word-in-context) or penalty (transfer) is chosen on
    texts: str | Path | None = None  # of retrieval: the texts that are searched, one per line
    gold: str | Path | None = None  # of retrieval: the numbers of the right texts, a line for each query
    depths: tuple[int, ...] = (1, 5, 10)  # of retrieval: how many answers are looked at
    transfer: bool = False  # take labelled examples for transfer, whatever other kind they might be
    test: str | Path | None = None  # of transfer: the file that is predicted; without one, folds of the first
    folds: int = 10
    columns: Mapping[str, Any] | None = None  # of labelled examples, as for ``Examples.read``
    label_parts: int | None = None
    probe: tuple[str, ...] = ()  # take the file as text to make probing tasks from, these of them
    at_most: int = 6000  # of probing: sentences that are taken


@dataclass
class Report:
    """A table of results: one row for each section and one for the whole, all with the same columns.

    ``used`` and ``total`` say how many items of the file the model could be scored on, and how many there are.
    """

    kind: str
    rows: list[dict[str, Any]]
    file: str = ""

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {"file": self.file, "kind": self.kind, "rows": self.rows}

    @property
    def whole(self) -> dict[str, Any]:
        """The row of the whole file."""
        return self.rows[-1]


def correlations(people: Sequence[float], ours: Sequence[float]) -> dict[str, float | None]:
    """Spearman's ρ and Pearson's r; None if one side is constant, and they are not defined."""
    from scipy import stats

    if len(set(people)) < 2 or len(set(ours)) < 2:
        return {"spearman": None, "pearson": None}
    return {
        "spearman": float(stats.spearmanr(people, ours).statistic),
        "pearson": float(stats.pearsonr(people, ours).statistic),
    }


def read_lines(path: str | Path, at_most: int | None = None) -> list[str]:
    """The lines of an evaluation file that hold something, of its first ``at_most`` bytes; in any usual encoding."""
    return [line for line in every_line(path, at_most) if line.strip()]


def every_line(path: str | Path, at_most: int | None = None) -> list[str]:
    """The same with empty lines, so that lines can be counted."""
    with open_for_reading(Path(path)) as (file, _):
        data = file.read(-1 if at_most is None else at_most)
    whole = at_most is None or len(data) < at_most
    mark = encodings.mark_of(data)
    text = encodings.decoder(mark[0] if mark else _encoding(data, whole), "replace").decode(data, final=whole)
    if not whole and "\n" in text:  # a file may also be one long line of JSON
        text = text[: text.rfind("\n") + 1]
    # Not splitlines(): texts may contain other characters that count as line breaks.
    return re.split(r"\r\n?|\n", text.removeprefix("\ufeff"))


def _encoding(data: bytes, whole: bool) -> str:
    """The encoding of a table of words, which has few characters to tell it by."""
    try:
        encodings.decoder("utf-8").decode(data, final=whole)
    except UnicodeDecodeError:
        detected = encodings.detect(data, whole=whole)
        wide = detected in ("utf-16-le", "utf-16-be") and b"\0" in data  # which numbers and separators have
        return detected if detected and (wide or detected in ("big5", encodings.WESTERN)) else "gb18030"
    return "utf-8" if b"\0" not in data else encodings.detect(data, whole=whole) or "utf-8"
