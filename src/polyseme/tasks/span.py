"""Span 阅读理解: the answer to a question as a stretch of a passage, from any encoder (tasks/span_networks.py).

The answer is the best start_i + end_j with i <= j < i + ``longest_answer``. Where training has questions without an
answer, one more place stands for "none". Passages longer than a window are read in windows that overlap.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import Ints
from polyseme.data.examples import Examples
from polyseme.data.rows import Passage
from polyseme.errors import TrainingError
from polyseme.interfaces import Progress
from polyseme.learn.goals import Goal
from polyseme.learn.learning import Held, Learning, answers_of
from polyseme.learn.metrics import PRIMARY, Figures
from polyseme.learn.metrics import answers as answer_figures
from polyseme.learn.prepared import PreparedInputs
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.tasks.heads import one_transformer
from polyseme.tasks.model import TaskModel, TaskReport, several
from polyseme.tasks.options import SpanCrossOptions, SpanOptions, TaskOptions, head_options
from polyseme.tasks.span_networks import CrossReader, PassageReader, Passages, TokenReader
from polyseme.tasks.span_windows import PassageWindow
from polyseme.training.run import Run

if TYPE_CHECKING:
    from typing_extensions import Self

log = logging.getLogger(__name__)


class SpanAnswer(NamedTuple):
    """An answer, where it begins in the passage, and its probability; "" and -1 if there is none."""

    text: str
    start: int
    probability: float


class Span(TaskModel):
    """A reader of passages."""

    method: ClassVar[str] = "span"
    kind: ClassVar[str] = "spans"
    at_once: ClassVar[int] = 256
    reader: PassageReader
    Options: ClassVar[type] = SpanOptions

    def __init__(self, options: TaskOptions, reader: PassageReader, about: About) -> None:
        self.options, self.reader, self.about, self.labels = options, reader, about, []
        self.goal, self.net = AnswerSpans(head_options(self.method, options).longest_answer), reader.net.eval()

    # ---- fitting

    @classmethod
    def goal_of(cls, train: Examples, settings: Any) -> AnswerSpans:
        return AnswerSpans(settings.longest_answer)

    @classmethod
    def new(
        cls, train: Examples, encoders: Sequence[Any], options: TaskOptions, settings: Any, goal: Any, about: About,
        run: Run,
    ) -> Self:  # fmt: skip
        rows = cls.inputs_of(train)
        no_answer = any(not row.answers for row in rows)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            reader: PassageReader = (
                CrossReader(one_transformer(encoders, "cross", "question and passage"), settings, no_answer=no_answer)
                if isinstance(settings, SpanCrossOptions)
                else TokenReader.of(rows, encoders, about, settings, no_answer=no_answer)
            )
        return cls(options, reader, about)

    def learning(self, train: Examples, dev: Examples | None, settings: Any, progress: Progress) -> Learning:
        passages = self.reader.prepare(self.inputs_of(train), progress)
        _tell_unplaced(train, passages)
        passages = passages.to_learn_from(no_answer=self.reader.no_answer)
        if not passages.windows:
            raise TrainingError("no question has an answer in its passage: there is nothing to learn")
        held = Held(dev, self.prepare(dev, progress)) if dev is not None and len(dev) else None
        wanted = np.array([[window.start, window.end] for window in passages.windows], dtype=np.int64)
        return Learning(
            self.net, self.goal, passages, wanted, settings, held=held, metric=self.options.metric, unit="questions"
        )

    @classmethod
    def inputs_of(cls, examples: Any) -> list[Any]:
        return list(examples)

    # ---- answers

    def predict(self, rows: Sequence[Any]) -> list[SpanAnswer]:
        """The answer to each ``(passage, question)``."""
        given = [Passage(row[0], row[1], []) for row in several(rows)]
        answers: list[SpanAnswer] = answers_of(self.net, self.goal, self.reader.prepare(given))
        return answers

    def record(self, row: Any, answer: SpanAnswer) -> dict[str, Any]:
        name = {"id": row.id} if getattr(row, "id", "") else {}
        return {**name, "question": row[1], **answer._asdict()}

    def rows_to_predict(self, path: str | Path, **reading: Any) -> list[Any]:
        return list(Examples.read(path, kind="spans", unlabelled=True, **reading))

    def score(self, examples: Examples) -> TaskReport:
        """Exact match and F1."""
        answers = self.predict(self.inputs_of(self.check(examples)))
        metric = self.options.metric or self.goal.primary
        figures = self.goal.figures(answers, examples)
        return TaskReport(self.method, str(examples.path), len(answers), metric, figures)

    # ---- on disk

    def parts(self) -> Parts:
        below = self.reader.parts()
        no_answer = np.array([self.reader.no_answer], dtype=np.int64)
        return Parts({**below.tensors, "no_answer": no_answer}, below.tables, below.files, below.models)

    @classmethod
    def from_parts(cls, options: TaskOptions, parts: Parts, about: About) -> Self:
        settings, no_answer = head_options(cls.method, options), bool(parts.tensors.get("no_answer", np.zeros(1)).any())
        if isinstance(settings, SpanCrossOptions):
            return cls(options, CrossReader.from_parts(parts, settings, no_answer=no_answer), about)
        return cls(options, TokenReader.from_parts(parts, about, settings, no_answer=no_answer), about)


class AnswerSpans(Goal):
    """Where the answer starts and ends; outputs ``(B, T + 1, 2)``, the last place is "no answer"."""

    primary = PRIMARY["spans"]
    shown = ("exact_match", "f1")
    n_outputs = 2

    def __init__(self, longest_answer: int) -> None:
        self.longest_answer = longest_answer

    def wanted(self, examples: Examples) -> None:
        """Nothing by example: the rows of batches are windows, which hold their answers."""

    def loss(self, outputs: Tensor, wanted: Ints) -> Tensor:
        last = outputs.shape[1] - 1
        targets = torch.from_numpy(np.where(wanted >= 0, wanted, last)).to(outputs.device)
        starts, ends = (F.cross_entropy(outputs[:, :, side], targets[:, side], reduction="sum") for side in (0, 1))
        return (starts + ends) / 2

    def answers(
        self, outputs: Iterable[tuple[Ints, Tensor]], prepared: PreparedInputs, net: nn.Module
    ) -> list[SpanAnswer]:
        """The best answer of each question over its windows."""
        assert isinstance(prepared, Passages)
        best = [BestSpan() for _ in prepared.rows]
        for rows, places in outputs:
            for row, scores in zip(rows.tolist(), places.numpy(), strict=True):
                window = prepared.windows[row]
                best[window.example].see(window, scores, self.longest_answer)
        return [span.answer(row.passage) for span, row in zip(best, prepared.rows, strict=True)]

    def figures(self, answers: list[SpanAnswer], examples: Examples) -> Figures:
        rows: list[Any] = list(examples)
        gold = [[answer.text for answer in row.answers] for row in rows]
        return answer_figures(gold, [answer.text for answer in answers])

    def figure_names(self, examples: Examples) -> Collection[str]:
        return answer_figures([], [])


class BestSpan:
    """The best answer so far of a question, and what all answers weigh together.

    Windows without the answer say "none" with good reason, so it counts as in the window that says it least (as in
    Devlin et al.'s program for SQuAD 2.0).
    """

    def __init__(self) -> None:
        self.score, self.none, self.total = -np.inf, np.inf, -np.inf
        self.span: tuple[int, int] | None = None

    def see(self, window: PassageWindow, scores: Any, longest: int) -> None:
        """``scores (T + 1, 2)`` of one of its windows."""
        n = len(window.spans)
        self.none = min(self.none, float(scores[-1].sum()))
        start, end = scores[:n, 0], scores[:n, 1]
        pairs = start[:, None] + end[None, :]
        near = np.subtract.outer(np.arange(n), np.arange(n))
        pairs = np.where((near <= 0) & (near > -longest), pairs, -np.inf)
        if not n:
            return
        self.total = float(np.logaddexp(self.total, np.logaddexp.reduce(pairs.ravel())))
        first, last = np.unravel_index(int(pairs.argmax()), pairs.shape)
        if pairs[first, last] > self.score:
            self.score = float(pairs[first, last])
            self.span = (window.spans[first][0], window.spans[last][1])

    def answer(self, passage: str) -> SpanAnswer:
        whole = float(np.logaddexp(self.total, self.none))
        if self.span is None or self.none > self.score:
            return SpanAnswer("", -1, float(np.exp(self.none - whole)) if np.isfinite(whole) else 1.0)
        return SpanAnswer(passage[slice(*self.span)], self.span[0], float(np.exp(self.score - whole)))


def _tell_unplaced(train: Examples, passages: Passages) -> None:
    if passages.unplaced:
        log.warning(
            "%s: %d questions have no answer that fits in a window of their passage (first: "
            "question %d): they are skipped", train.path, len(passages.unplaced), passages.unplaced[0] + 1,
        )  # fmt: skip
