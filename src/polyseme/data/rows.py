"""The types of labelled examples, and compact storage for many of them. 样本"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Ints
from polyseme.text.strings import Strings

Label = str | float
Numbers = Ints | NDArray[np.float64]
_BETWEEN = "\0"  # separates the parts of a row; texts contain no NUL


class LabelledText(NamedTuple):
    """A text and its class or score."""

    text: str
    label: Label


class Pair(NamedTuple):
    """Two texts and the class or score of the pair."""

    first: str
    second: str
    label: Label


class Tagged(NamedTuple):
    """The words of a sentence and a tag for each."""

    tokens: list[str]
    tags: list[str]


class Answer(NamedTuple):
    """An answer and the offset of its first character in the passage."""

    text: str
    start: int


class Passage(NamedTuple):
    """A passage, a question about it, and the answers; none if the passage does not answer the question."""

    passage: str
    question: str
    answers: list[Answer]
    id: str = ""


class Choice(NamedTuple):
    """A context, the alternatives that may follow it, and the number of the right one from 0; -1 if it is not known."""

    context: str
    alternatives: list[str]
    right: int = -1


Row = LabelledText | Pair | Tagged | Passage | Choice


class Rows(ABC):
    """Rows of one kind in the order they were read: packed strings, and labels as numbers."""

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
        """A group number for each row, such as the number of its passage; None if every row is its own group."""
        return None

    def digest(self, order: Ints) -> str:
        """The SHA-256 of the rows in this order."""
        digest = hashlib.sha256()
        for i in order.tolist():
            for piece in self._hashed(i):
                digest.update(len(piece).to_bytes(8, "little"))
                digest.update(piece)
        return digest.hexdigest()

    @abstractmethod
    def _hashed(self, i: int) -> Iterable[bytes]: ...


class LabelledRows(Rows):
    """Labelled texts or pairs. ``append`` adds the texts; ``finish`` sets the labels of all rows at the end."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.targets: Numbers = np.zeros(0, dtype=np.int64)
        self.names: list[str] | None = []  # of the classes; None for scores

    def append(self, texts: Sequence[str]) -> None:
        """Add a row; ``finish`` sets its label later."""
        self._append(texts)

    def finish(self, values: Sequence[str] | Sequence[float], of_row: Ints) -> None:
        """Set every row's label; ``of_row`` indexes ``values``. Strings become sorted classes, floats scores."""
        if len(values) and isinstance(values[0], float):
            self.targets, self.names = np.array(values, dtype=np.float64)[of_row], None
            return
        self.names = sorted_labels({str(value) for value in values})
        place = {name: i for i, name in enumerate(self.names)}
        self.targets = np.array([place[str(value)] for value in values], dtype=np.int64)[of_row] if values else of_row

    def label(self, i: int) -> Label:
        """The class or score of row ``i``; "" if the rows are unlabelled."""
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
        self.names: list[str] = []  # of the tags, in order of first appearance
        self._numbers: dict[str, int] = {}
        self._tags = array("i")
        self._ends = array("q")

    def append(self, tokens: Sequence[str], tags: Sequence[str]) -> None:
        """Add a sentence."""
        self._append(tokens)
        for tag in tags:
            if tag not in self._numbers:
                self._numbers[tag] = len(self.names)
                self.names.append(tag)
            self._tags.append(self._numbers[tag])
        self._ends.append(len(self._tags))

    def tag_numbers(self, i: int) -> array[int]:
        """The tag numbers of sentence ``i``."""
        return self._tags[self._ends[i - 1] if i else 0 : self._ends[i]]

    def row(self, i: int) -> Tagged:
        return Tagged(self.parts(i), [self.names[tag] for tag in self.tag_numbers(i)])

    def _hashed(self, i: int) -> Iterable[bytes]:
        return self._parts.raw(i), _BETWEEN.join(self.row(i).tags).encode()


class PassageRows(Rows):
    """Questions about passages; a passage with several questions is stored once."""

    def __init__(self) -> None:
        super().__init__()
        self.passages = Strings()
        self._passage_of = array("i")

    def append(self, row: Passage) -> None:
        """Add a question. Questions about the same passage must follow each other for it to be stored once."""
        if not self._passage_of or self.passages[self._passage_of[-1]] != row.passage:
            self.passages.append(row.passage)
        self._passage_of.append(len(self.passages) - 1)
        answers = (part for answer in row.answers for part in (answer.text, str(answer.start)))
        self._append([row.question, row.id, *answers])

    def row(self, i: int) -> Passage:
        question, name, *answers = self.parts(i)
        spans = [Answer(text, int(start)) for text, start in zip(answers[::2], answers[1::2], strict=True)]
        return Passage(self.passages[self._passage_of[i]], question, spans, name)

    def groups(self) -> Sequence[int]:
        return self._passage_of

    def _hashed(self, i: int) -> Iterable[bytes]:
        return self.passages.raw(self._passage_of[i]), self._parts.raw(i)


class ChoiceRows(Rows):
    """Contexts with alternatives; a passage with several questions is stored once."""

    def __init__(self) -> None:
        super().__init__()
        self.passages = Strings()
        self._passage_of = array("i")
        self._rights = array("i")

    def append(self, passage: str, question: str, alternatives: Sequence[str], right: int) -> None:
        """Add a row. Its context is the passage and the question; those about one passage must follow each other."""
        passage, question = (passage, question) if passage else (question, "")
        if not self._passage_of or self.passages[self._passage_of[-1]] != passage:
            self.passages.append(passage)
        self._passage_of.append(len(self.passages) - 1)
        self._rights.append(right)
        self._append([question, *alternatives])

    @property
    def rights(self) -> Ints:
        """The number of the right alternative of each row; -1 if it is not known."""
        return np.array(self._rights, dtype=np.int64)

    def row(self, i: int) -> Choice:
        question, *alternatives = self.parts(i)
        context = " ".join(part for part in (self.passages[self._passage_of[i]], question) if part)
        return Choice(context, alternatives, self._rights[i])

    def groups(self) -> Sequence[int]:
        return self._passage_of

    def _hashed(self, i: int) -> Iterable[bytes]:
        context, alternatives, right = self.row(i)
        return context.encode(), _BETWEEN.join(alternatives).encode(), str(right).encode()


def sorted_labels(names: Iterable[str]) -> list[str]:
    """Class names in alphabetical order, or in numerical order if all of them are numbers."""
    labels = sorted(names)
    try:
        return sorted(labels, key=float)
    except ValueError:
        return labels
