"""What one example is, and many of them in little memory. 样本"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyseme.text.strings import Strings

Label = str | float
Numbers = NDArray[np.int64] | NDArray[np.float64]
_BETWEEN = "\0"  # the parts of a row; texts hold no NUL


class LabelledText(NamedTuple):
    """A text and its class, or its score."""

    text: str
    label: Label


class Pair(NamedTuple):
    """Two texts and the class or score of the two."""

    first: str
    second: str
    label: Label


class Tagged(NamedTuple):
    """The words of a sentence and a tag for each."""

    tokens: list[str]
    tags: list[str]


class Answer(NamedTuple):
    """An answer and where it occurs in the passage."""

    text: str
    start: int


class Passage(NamedTuple):
    """A question on a passage; without answers where the passage has none."""

    passage: str
    question: str
    answers: list[Answer]
    id: str = ""


Row = LabelledText | Pair | Tagged | Passage


class Rows(ABC):
    """Rows of one kind, as they were read: strings packed together, labels by number."""

    def __init__(self) -> None:
        self._parts = Strings()

    def __len__(self) -> int:
        return len(self._parts)

    def parts(self, i: int) -> list[str]:
        """The strings of row ``i``."""
        return self._parts[i].split(_BETWEEN)

    def _append(self, parts: Iterable[str]) -> None:
        self._parts.append(_BETWEEN.join(parts))

    @abstractmethod
    def row(self, i: int) -> Row:
        """Row ``i``."""

    def groups(self) -> Sequence[int] | None:
        """A number for each row, equal where rows belong together; None if each is alone."""
        return None

    def digest(self, order: NDArray[np.int64]) -> str:
        """A hash of the rows in this order."""
        digest = hashlib.sha256()
        for i in order.tolist():
            for piece in self._hashed(i):
                digest.update(len(piece).to_bytes(8, "little"))
                digest.update(piece)
        return digest.hexdigest()

    @abstractmethod
    def _hashed(self, i: int) -> Iterable[bytes]: ...


class LabelledRows(Rows):
    """Labelled texts or pairs. ``finish`` says which label a number is, or which score."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.targets: Numbers = np.zeros(0, dtype=np.int64)
        self.names: list[str] | None = []  # of the classes; None for scores

    def append(self, texts: Sequence[str]) -> None:
        """One more row; ``finish`` gives it its label."""
        self._append(texts)

    def finish(self, values: Sequence[str] | Sequence[float], of_row: NDArray[np.int64]) -> None:
        """The label of every row, by its number in ``values``: names become classes, sorted, and numbers scores."""
        if len(values) and isinstance(values[0], float):
            self.targets, self.names = np.array(values, dtype=np.float64)[of_row], None
            return
        self.names = sorted_labels({str(value) for value in values})
        place = {name: i for i, name in enumerate(self.names)}
        self.targets = np.array([place[str(value)] for value in values], dtype=np.int64)[of_row] if values else of_row

    def label(self, i: int) -> Label:
        """The class or score of row ``i``; "" where there are no labels."""
        if self.names is None:
            return float(self.targets[i])
        return self.names[int(self.targets[i])] if self.names else ""

    def row(self, i: int) -> LabelledText | Pair:
        parts = self.parts(i)
        return (
            LabelledText(parts[0], self.label(i)) if self.kind == "texts" else Pair(parts[0], parts[1], self.label(i))
        )

    def _hashed(self, i: int) -> Iterable[bytes]:
        return self._parts.raw(i), repr(self.label(i)).encode()


class TaggedRows(Rows):
    """Tagged sentences."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []  # of the tags, by first appearance
        self._numbers: dict[str, int] = {}
        self._tags = array("i")
        self._ends = array("q")

    def append(self, tokens: Sequence[str], tags: Sequence[str]) -> None:
        """One more sentence."""
        self._append(tokens)
        for tag in tags:
            if tag not in self._numbers:
                self._numbers[tag] = len(self.names)
                self.names.append(tag)
            self._tags.append(self._numbers[tag])
        self._ends.append(len(self._tags))

    def tag_numbers(self, i: int) -> array[int]:
        """The tags of sentence ``i`` by number."""
        return self._tags[self._ends[i - 1] if i else 0 : self._ends[i]]

    def row(self, i: int) -> Tagged:
        return Tagged(self.parts(i), [self.names[tag] for tag in self.tag_numbers(i)])

    def _hashed(self, i: int) -> Iterable[bytes]:
        return self._parts.raw(i), _BETWEEN.join(self.row(i).tags).encode()


class PassageRows(Rows):
    """Questions on passages; a passage of several questions is kept once."""

    def __init__(self) -> None:
        super().__init__()
        self.passages = Strings()
        self._passage_of = array("i")

    def append(self, row: Passage) -> None:
        """One more question; those on one passage come one after the other."""
        if not self._passage_of or self.passages[self._passage_of[-1]] != row.passage:
            self.passages.append(row.passage)
        self._passage_of.append(len(self.passages) - 1)
        answers = (part for answer in row.answers for part in (answer.text, str(answer.start)))
        self._append([row.question, row.id, *answers])

    def row(self, i: int) -> Passage:
        question, name, *answers = self.parts(i)
        found = [Answer(text, int(start)) for text, start in zip(answers[::2], answers[1::2], strict=True)]
        return Passage(self.passages[self._passage_of[i]], question, found, name)

    def groups(self) -> Sequence[int]:
        return self._passage_of

    def _hashed(self, i: int) -> Iterable[bytes]:
        return self.passages.raw(self._passage_of[i]), self._parts.raw(i)


def sorted_labels(names: Iterable[str]) -> list[str]:
    """Class names in order; numbers by their size."""
    found = sorted(names)
    try:
        return sorted(found, key=float)
    except ValueError:
        return found
