"""Span 阅读理解: the answer to a question as a stretch of a passage, from any encoder.

A small reader after Chen et al., "Reading Wikipedia to Answer Open-Domain Questions" (2017), with the attention of
Seo et al., "Bidirectional Attention Flow" (2017) from passage to question:

    q_j = biLSTM(y)_j,  p_i = biLSTM([x_i; what x_i shares with the question; Σ_j a_ij y_j])_i
    g_i = [p_i; c_i; p_i∗c_i],  c_i = Σ_j softmax_j(p_i W q_j) q_j;   m = biLSTM(g);   start_i, end_i = U [g_i; m_i]

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

from polyseme.errors import OptionError, TrainingError
from polyseme.neural.pooling import softmax_over
from polyseme.neural.recurrent import Recurrent
from polyseme.nouns import Progress
from polyseme.sentences.inputs import InputBatch, InputModule, Inputs, PreparedTexts, fill, segmentation_of
from polyseme.sentences.learned import ExampleTask
from polyseme.sentences.sources import Ints
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.tasks.labels import with_dev
from polyseme.tasks.metrics import PRIMARY, answers, check_metric
from polyseme.tasks.model import Report, TaskModel, several
from polyseme.tasks.options import ReaderOptions, SpanOptions, TaskOptions, head_options
from polyseme.tasks.reading import N_FEATURES, Readings, Window
from polyseme.text.examples import Examples, Passage
from polyseme.text.segment import Segmentation
from polyseme.training.loop import fit
from polyseme.training.run import Run
from polyseme.training.task import Score

if TYPE_CHECKING:
    from typing_extensions import Self

log = logging.getLogger(__name__)

AT_ONCE = 256  # questions of a file that are answered together
TOGETHER = 16  # windows in a batch when no gradients are wanted
_NEVER = -1e30


class SpanAnswer(NamedTuple):
    """An answer, where it begins in the passage, and its probability; "" and -1 if there is none."""

    text: str
    start: int
    probability: float


class ReadingBatch(NamedTuple):
    """Windows, their questions, and what they share."""

    passage: InputBatch
    question: InputBatch
    features: Tensor  # (B, T, N_FEATURES)


class Reader(nn.Module):
    """The network: start and end of every place, and of "no answer" after the last."""

    def __init__(self, inputs: InputModule, options: ReaderOptions, no_answer: bool) -> None:
        super().__init__()
        self.inputs, self.dropout, self.no_answer = inputs, nn.Dropout(options.dropout), no_answer
        self.aligned = nn.Linear(inputs.dim, inputs.dim)
        self.of_question = Recurrent(inputs.dim, options.hidden, kind=options.cell)
        self.of_passage = Recurrent(2 * inputs.dim + N_FEATURES, options.hidden, kind=options.cell)
        width = self.of_passage.dim
        self.attention = nn.Linear(width, width, bias=False)
        self.joined = Recurrent(3 * width, options.hidden, kind=options.cell)
        self.weigh = nn.Linear(width, 1)
        self.output = nn.Linear(4 * width + N_FEATURES, 2)
        self.none = nn.Linear(width, 2)

    def forward(self, batch: ReadingBatch) -> Tensor:
        """``(B, T + 1, 2)``; the last place is "no answer"."""
        passage, question = self.inputs(batch.passage), self.inputs(batch.question)
        x, y, here, there = passage.x, question.x, passage.mask, question.mask
        scores = torch.relu(self.aligned(x)) @ torch.relu(self.aligned(y)).transpose(1, 2)
        aligned = softmax_over(scores, there.unsqueeze(1)) @ y  # (B, T, D)
        q = self.dropout(self.of_question(y, there)[0])
        p = self.dropout(self.of_passage(torch.cat([x, aligned, batch.features], dim=2), here)[0])
        context = softmax_over(self.attention(p) @ q.transpose(1, 2), there.unsqueeze(1)) @ q
        g = torch.cat([p, context, p * context], dim=2)
        m = self.joined(self.dropout(g), here)[0]
        places = self.output(torch.cat([self.dropout(g), self.dropout(m), batch.features], dim=2))
        weights = softmax_over(self.weigh(q).squeeze(2), there)
        none = (
            self.none((weights.unsqueeze(1) @ q).squeeze(1)) if self.no_answer else places.new_full((len(x), 2), _NEVER)
        )
        return torch.cat([places.masked_fill(~here.unsqueeze(2), _NEVER), none.unsqueeze(1)], dim=1)


class Span(TaskModel):
    """Inputs and a reader over them."""

    method: ClassVar[str] = "span"
    kind: ClassVar[str] = "spans"
    Options: ClassVar[type] = SpanOptions

    def __init__(self, options: TaskOptions, inputs: Inputs, net: Reader, about: About) -> None:
        self.options, self.inputs, self.net, self.about, self.labels = options, inputs, net.eval(), about, []
        self.own: ReaderOptions = head_options(self.method, options)

    @classmethod
    def fit(
        cls, train: Examples, dev: Examples | None, encoders: Sequence[Any], options: TaskOptions, run: Run
    ) -> Self:
        own = head_options(cls.method, options, len(train))
        if own.stride > own.window:
            raise OptionError(f"stride {own.stride} is more than window {own.window}: tokens between would not be read")
        train, dev = with_dev(train, dev, options, own)
        about = About(segmentation_of(encoders, train.segmentation), train.facts, run.curve)
        rows: list[Any] = list(train)
        readings = Readings(rows, about.segmentation or Segmentation(), own.window, own.stride)
        _tell_unplaced(train, readings)
        no_answer = any(not row.answers for row in rows)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(own.seed)
            inputs = Inputs.of(readings.lists, encoders, about.segmentation or Segmentation(), own)
            if inputs.module.beside:
                raise OptionError("the reader has its own attention between its layers: elmo_at=input")
            net = Reader(inputs.module, own, no_answer)
        model = cls(options, inputs, net, about)
        fit(SpanTask(model, readings, dev, run.progress), own, run)
        return model

    # ---- answers

    def predict(self, rows: Sequence[Any]) -> list[SpanAnswer]:
        """The answer to each ``(passage, question)``."""
        given = [Passage(row[0], row[1], []) for row in several(rows)]
        return self.answers(self.net, self.read(given))

    def read(self, rows: Sequence[Passage]) -> Readings:
        """Windows of passages with their questions."""
        return Readings(rows, self.inputs.segmentation, self.own.window, self.own.stride)

    def answers(self, net: Reader, readings: Readings, prepared: PreparedTexts | None = None) -> list[SpanAnswer]:
        """The best answer of each question over its windows."""
        prepared = prepared or self.inputs.prepare(readings.lists)
        device = net.output.weight.device
        best: list[_Found] = [_Found() for _ in readings.rows]
        order = np.argsort([-len(window.spans) for window in readings.windows], kind="stable")
        for start in range(0, len(order), TOGETHER):
            windows = [readings.windows[place] for place in order[start : start + TOGETHER]]
            with torch.inference_mode():
                outputs = net(reading_batch(windows, prepared, device)).cpu().numpy()
            for window, scores in zip(windows, outputs, strict=True):
                best[window.example].see(window, scores, self.own.longest_answer)
        return [found.answer(row.passage) for found, row in zip(best, readings.rows, strict=True)]

    def records(self, rows: Sequence[Any], *, attention: bool = False) -> Iterator[dict[str, Any]]:
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            for row, found in zip(some, self.predict(some), strict=True):
                name = {"id": row.id} if getattr(row, "id", "") else {}
                yield {**name, "question": row[1], **found._asdict()}

    def rows_to_predict(self, path: str | Path, **reading: Any) -> list[Any]:
        return list(Examples.read(path, kind="spans", unlabelled=True, **reading))

    def score(self, examples: Examples) -> Report:
        """Exact match and F1."""
        rows: list[Any] = list(self.check(examples))
        found = [answer.text for answer in self.predict(rows)]
        figures = answers([[answer.text for answer in row.answers] for row in rows], found)
        metric = self.options.metric or PRIMARY["spans"]
        return Report(self.method, str(examples.path), len(rows), metric, figures)

    # ---- on disk

    def parts(self) -> Parts:
        below = self.inputs.parts()
        own = {f"net.{name}": tensor.detach().cpu().numpy() for name, tensor in self.net.state_dict().items()}
        own = {name: array for name, array in own.items() if not name.startswith("net.inputs.")}
        own["no_answer"] = np.array([self.net.no_answer], dtype=np.int64)
        return Parts({**below.tensors, **own}, below.tables, {}, below.models)

    @classmethod
    def from_parts(cls, options: TaskOptions, parts: Parts, about: About) -> Self:
        own = head_options(cls.method, options)
        inputs = Inputs.from_parts(own, parts, about.segmentation or Segmentation())
        net = Reader(inputs.module, own, bool(parts.tensors.get("no_answer", np.zeros(1)).any()))
        fill(net, parts, "net.", but="inputs.")
        return cls(options, inputs, net, about)


class _Found:
    """The best answer so far of a question, and what all answers weigh together."""

    def __init__(self) -> None:
        self.score, self.none, self.total = -np.inf, -np.inf, -np.inf
        self.span: tuple[int, int] | None = None

    def see(self, window: Window, scores: Any, longest: int) -> None:
        """``scores (T + 1, 2)`` of one of its windows."""
        n = len(window.spans)
        self.none = max(self.none, float(scores[-1].sum()))
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


def reading_batch(windows: Sequence[Window], prepared: PreparedTexts, device: torch.device) -> ReadingBatch:
    """Windows as the reader takes them."""
    passage = prepared.batch(np.array([window.text for window in windows]))
    question = prepared.batch(np.array([window.question for window in windows]))
    features = np.zeros((*passage.mask.shape, N_FEATURES), dtype=np.float32)
    for row, window in enumerate(windows):
        features[row, : len(window.features)] = window.features
    return ReadingBatch(passage.to(device), question.to(device), torch.from_numpy(features).to(device))


class SpanTask(ExampleTask):
    """Questions through a reader."""

    module: Reader
    unit = "questions"

    def __init__(self, model: Span, readings: Readings, dev: Examples | None, progress: Progress) -> None:
        # A window without its question's answer teaches something only where "no answer" is an answer.
        self.windows = [window for window in readings.windows if window.start >= 0 or model.net.no_answer]
        if not self.windows:
            raise TrainingError("no question has an answer in its passage: there is nothing to learn")
        self.model, self.prepared = model, model.inputs.prepare(readings.lists, progress=progress)
        sizes = np.array([len(window.spans) for window in self.windows], dtype=np.int64)
        super().__init__(model.net, sizes, model.own)
        self.metric = model.options.metric or PRIMARY["spans"]
        check_metric(self.metric, answers([], []))
        held: list[Any] = list(dev) if dev is not None else []
        self.dev = model.read(held) if held else None
        self.dev_prepared = model.inputs.prepare(self.dev.lists, progress=progress) if self.dev else None

    def loss_of(self, rows: Ints) -> Tensor:
        windows = [self.windows[row] for row in rows]
        outputs = self.module(reading_batch(windows, self.prepared, self.device))
        last = outputs.shape[1] - 1
        wanted = [
            [window.start if window.start >= 0 else last, window.end if window.end >= 0 else last] for window in windows
        ]
        targets = torch.tensor(wanted, device=self.device)
        starts, ends = (F.cross_entropy(outputs[:, :, side], targets[:, side], reduction="sum") for side in (0, 1))
        return (starts + ends) / 2 + len(rows) * self.module.inputs.penalty()

    def evaluate(self, module: nn.Module) -> Score | None:
        if self.dev is None:
            return None
        assert isinstance(module, Reader)
        found = [answer.text for answer in self.model.answers(module, self.dev, self.dev_prepared)]
        figures = answers([[answer.text for answer in row.answers] for row in self.dev.rows], found)
        return Score(figures[self.metric], figures, higher_is_better=True)


def _tell_unplaced(train: Examples, readings: Readings) -> None:
    if readings.unplaced:
        log.warning(
            "%s: %d questions have no answer that fits in a window of their passage (first: "
            "question %d): they are skipped", train.path, len(readings.unplaced), readings.unplaced[0] + 1,
        )  # fmt: skip
