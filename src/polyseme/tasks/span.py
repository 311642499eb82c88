"""Span 阅读理解: the answer to a question as a stretch of a passage, from any encoder (tasks/readers.py).

The answer is the best start_i + end_j with i <= j < i + ``longest_answer``. Where training has questions without an
answer, one more place stands for "none". Passages longer than a window are read in windows that overlap.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.data.examples import Examples, Passage
from polyseme.errors import TrainingError
from polyseme.interfaces import Progress
from polyseme.learn.inputs import segmentation_of
from polyseme.learn.metrics import PRIMARY, answers, check_metric
from polyseme.learn.token_vectors import Ints
from polyseme.sentences.learned import ExampleTask
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.tasks.model import TaskModel, TaskReport, several
from polyseme.tasks.odd_labels import with_dev
from polyseme.tasks.options import ReaderOptions, SpanCrossOptions, SpanOptions, TaskOptions, head_options
from polyseme.tasks.span_networks import CrossReader, PassageReader, Passages, PlaceNet, TokenReader
from polyseme.tasks.span_windows import PassageWindow
from polyseme.training.loop import fit
from polyseme.training.run import Run
from polyseme.training.task import Score

if TYPE_CHECKING:
    from typing_extensions import Self

log = logging.getLogger(__name__)

AT_ONCE = 256  # questions of a file that are answered together
TOGETHER = 16  # windows in a batch when no gradients are wanted


class SpanAnswer(NamedTuple):
    """An answer, where it begins in the passage, and its probability; "" and -1 if there is none."""

    text: str
    start: int
    probability: float


class Span(TaskModel):
    """A reader of passages."""

    method: ClassVar[str] = "span"
    kind: ClassVar[str] = "spans"
    Options: ClassVar[type] = SpanOptions

    def __init__(self, options: TaskOptions, reader: PassageReader, about: About) -> None:
        self.options, self.reader, self.about, self.labels = options, reader, about, []
        self.own: ReaderOptions | SpanCrossOptions = head_options(self.method, options)
        self.net = reader.net.eval()

    @classmethod
    def fit(
        cls, train: Examples, dev: Examples | None, encoders: Sequence[Any], options: TaskOptions, run: Run
    ) -> Self:
        own = head_options(cls.method, options, len(train))
        train, dev = with_dev(train, dev, options, own)
        about = About(segmentation_of(encoders, train.segmentation), train.facts, run.curve)
        rows: list[Any] = list(train)
        no_answer = any(not row.answers for row in rows)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(own.seed)
            reader: PassageReader = (
                CrossReader.of(encoders, own, no_answer=no_answer)
                if isinstance(own, SpanCrossOptions)
                else TokenReader.of(rows, encoders, about, own, no_answer=no_answer)
            )
        model = cls(options, reader, about)
        passages = reader.read(rows, run.progress)
        _tell_unplaced(train, passages)
        fit(SpanTask(model, passages, dev, own, run.progress), own, run)
        return model

    # ---- answers

    def predict(self, rows: Sequence[Any]) -> list[SpanAnswer]:
        """The answer to each ``(passage, question)``."""
        given = [Passage(row[0], row[1], []) for row in several(rows)]
        return self.answers(self.net, self.reader.read(given))

    def answers(self, net: PlaceNet, passages: Passages) -> list[SpanAnswer]:
        """The best answer of each question over its windows."""
        device = next(net.parameters()).device
        best: list[_Found] = [_Found() for _ in passages.rows]
        order = np.argsort([-len(window.spans) for window in passages.windows], kind="stable")
        for start in range(0, len(order), TOGETHER):
            windows = [passages.windows[place] for place in order[start : start + TOGETHER]]
            with torch.inference_mode():
                outputs = net(passages.batch(windows, device)).cpu().numpy()
            for window, scores in zip(windows, outputs, strict=True):
                best[window.example].see(window, scores, self.own.longest_answer)
        return [found.answer(row.passage) for found, row in zip(best, passages.rows, strict=True)]

    def records(self, rows: Sequence[Any], *, attention: bool = False) -> Iterator[dict[str, Any]]:
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            for row, found in zip(some, self.predict(some), strict=True):
                name = {"id": row.id} if getattr(row, "id", "") else {}
                yield {**name, "question": row[1], **found._asdict()}

    def rows_to_predict(self, path: str | Path, **reading: Any) -> list[Any]:
        return list(Examples.read(path, kind="spans", unlabelled=True, **reading))

    def score(self, examples: Examples) -> TaskReport:
        """Exact match and F1."""
        rows: list[Any] = list(self.check(examples))
        found = [answer.text for answer in self.predict(rows)]
        figures = answers([[answer.text for answer in row.answers] for row in rows], found)
        metric = self.options.metric or PRIMARY["spans"]
        return TaskReport(self.method, str(examples.path), len(rows), metric, figures)

    # ---- on disk

    def parts(self) -> Parts:
        below = self.reader.parts()
        own = {"no_answer": np.array([self.net.no_answer], dtype=np.int64)}
        return Parts({**below.tensors, **own}, below.tables, below.files, below.models)

    @classmethod
    def from_parts(cls, options: TaskOptions, parts: Parts, about: About) -> Self:
        own, no_answer = head_options(cls.method, options), bool(parts.tensors.get("no_answer", np.zeros(1)).any())
        if isinstance(own, SpanCrossOptions):
            return cls(options, CrossReader.from_parts(parts, own, no_answer=no_answer), about)
        return cls(options, TokenReader.from_parts(parts, about, own, no_answer=no_answer), about)


class _Found:
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


class SpanTask(ExampleTask):
    """Questions through a reader."""

    module: PlaceNet
    unit = "questions"

    def __init__(self, model: Span, passages: Passages, dev: Examples | None, own: Any, progress: Progress) -> None:
        # A window without its question's answer teaches something only where "no answer" is an answer, and not if the
        # answer is in no window at all.
        unplaced = {*passages.unplaced}
        self.windows = [
            window for window in passages.windows
            if window.start >= 0 or (model.net.no_answer and window.example not in unplaced)
        ]  # fmt: skip
        if not self.windows:
            raise TrainingError("no question has an answer in its passage: there is nothing to learn")
        self.model, self.passages = model, passages
        sizes = np.array([len(window.spans) for window in self.windows], dtype=np.int64)
        super().__init__(model.net, sizes, own)
        self.metric = model.options.metric or PRIMARY["spans"]
        check_metric(self.metric, answers([], []))
        held: list[Any] = list(dev) if dev is not None else []
        self.dev = model.reader.read(held, progress) if held else None

    def loss_of(self, rows: Ints) -> Tensor:
        windows = [self.windows[row] for row in rows]
        outputs = self.module(self.passages.batch(windows, self.device))
        last = outputs.shape[1] - 1
        wanted = [
            [window.start if window.start >= 0 else last, window.end if window.end >= 0 else last] for window in windows
        ]
        targets = torch.tensor(wanted, device=self.device)
        starts, ends = (F.cross_entropy(outputs[:, :, side], targets[:, side], reduction="sum") for side in (0, 1))
        return (starts + ends) / 2 + len(rows) * self.module.penalty()

    def evaluate(self, module: nn.Module) -> Score | None:
        if self.dev is None:
            return None
        assert isinstance(module, PlaceNet)
        found = [answer.text for answer in self.model.answers(module, self.dev)]
        figures = answers([[answer.text for answer in row.answers] for row in self.dev.rows], found)
        return Score(figures[self.metric], figures, higher_is_better=True)


def _tell_unplaced(train: Examples, passages: Passages) -> None:
    if passages.unplaced:
        log.warning(
            "%s: %d questions have no answer that fits in a window of their passage (first: "
            "question %d): they are skipped", train.path, len(passages.unplaced), passages.unplaced[0] + 1,
        )  # fmt: skip
