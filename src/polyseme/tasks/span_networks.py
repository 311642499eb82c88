"""Networks that read a passage with a question 阅读理解网络: where its answer may start and end.

reader    a small network over token vectors, after Chen et al., "Reading Wikipedia to Answer Open-Domain Questions"
          (2017), with the attention of Seo et al., "Bidirectional Attention Flow" (2017) from passage to question:

    q_j = biLSTM(y)_j,  p_i = biLSTM([x_i; what x_i shares with the question; Σ_j a_ij y_j])_i
    g_i = [p_i; c_i; p_i∗c_i],  c_i = Σ_j softmax_j(p_i W q_j) q_j;   m = biLSTM(g);   start_i, end_i = U [g_i; m_i]

cross     a Transformer that reads question and passage as one input and is fine-tuned, as in Devlin et al., "BERT"
          (2018): start_i, end_i = U h_i; where questions may have no answer, the first token stands for "none"
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.arrays import Ints
from polyseme.contexts.transformer.encode import Runner
from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.contexts.transformer.network import Network
from polyseme.contexts.transformer.tuning import PairReader, filled, padded_pieces
from polyseme.data.rows import Passage
from polyseme.errors import OptionError
from polyseme.interfaces import Progress, silent
from polyseme.learn.inputs import InputBatch, InputModule, Inputs, PreparedTexts
from polyseme.learn.modules import fill, weights
from polyseme.learn.pieces import PieceBatch, PieceNet
from polyseme.learn.prepared import PreparedInputs
from polyseme.neural.layers import softmax_over
from polyseme.neural.recurrent import Recurrent
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.tasks.options import ReaderOptions, SpanCrossOptions
from polyseme.tasks.span_windows import (
    N_FEATURES,
    PassageWindow,
    Readings,
    TokenWindow,
    answer_in,
    answer_tokens,
    window_starts,
)
from polyseme.text.segment import Segmentation
from polyseme.text.spacing import token_spans

if TYPE_CHECKING:
    from typing_extensions import Self

NEVER = -1e30


class Passages(PreparedInputs):
    """Passages and their questions in windows, which are the rows of batches."""

    most = 16  # windows of a batch when no gradients are needed

    def __init__(self, rows: Sequence[Passage], windows: Sequence[Any], unplaced: Sequence[int]) -> None:
        """``unplaced`` are the questions whose answers are in no window."""
        self.rows, self.windows, self.unplaced = rows, windows, unplaced
        self.sizes = np.array([len(window.spans) for window in windows], dtype=np.int64)
        self.budget = self.most * max(int(self.sizes.max(initial=0)), 1)

    def to_learn_from(self, *, no_answer: bool) -> Self:
        """With only those windows that teach something.

        One without its question's answer does so where "no answer" is an answer, and not if the answer is in no window.
        """
        unplaced = {*self.unplaced}
        part = copy.copy(self)
        windows = [w for w in self.windows if w.start >= 0 or (no_answer and w.example not in unplaced)]
        Passages.__init__(part, self.rows, windows, self.unplaced)
        return part


class PassageReader(ABC):
    """A network with what turns passages into its batches.

    From a batch of windows the network gives the start and end of every place, ``(B, T + 1, 2)``; the last is "no
    answer".
    """

    net: nn.Module
    no_answer: bool

    @abstractmethod
    def prepare(self, rows: Sequence[Passage], progress: Progress = silent) -> Passages:
        """Look at passages and questions once."""

    @abstractmethod
    def parts(self) -> Parts:
        """What the model's folder keeps."""


# ---- reader: token vectors


class ReadingBatch(NamedTuple):
    """Windows, their questions, and what they share."""

    passage: InputBatch
    question: InputBatch
    features: Tensor  # (B, T, N_FEATURES)


class TokenNet(nn.Module):
    """The network over token vectors."""

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

    def forward(self, batch: ReadingBatch) -> tuple[Tensor, None]:
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
        none = self.none((weights.unsqueeze(1) @ q).squeeze(1))
        return _with_none(places, here, none, no_answer=self.no_answer), None


def _with_none(places: Tensor, here: Tensor, none: Tensor, *, no_answer: bool) -> Tensor:
    """Scores ``(B, T, 2)`` of real places, and after them that of "no answer" ``(B, 2)``."""
    last = none if no_answer else torch.full_like(none, NEVER)
    return torch.cat([places.masked_fill(~here.unsqueeze(2), NEVER), last.unsqueeze(1)], dim=1)


class TokenPassages(Passages):
    """Passages as lists of tokens with their vectors."""

    windows: Sequence[TokenWindow]

    def __init__(self, readings: Readings, texts: PreparedTexts) -> None:
        super().__init__(readings.rows, readings.windows, readings.unplaced)
        self.texts = texts

    def batch(self, rows: Ints, *, learning: bool = False) -> ReadingBatch:
        windows = [self.windows[row] for row in rows.tolist()]
        passage = self.texts.batch(np.array([window.text for window in windows]))
        question = self.texts.batch(np.array([window.question for window in windows]))
        features = np.zeros((*passage.mask.shape, N_FEATURES), dtype=np.float32)
        for row, window in enumerate(windows):
            features[row, : len(window.features)] = window.features
        return ReadingBatch(passage, question, torch.from_numpy(features))


class TokenReader(PassageReader):
    """Inputs and a network over them."""

    def __init__(self, inputs: Inputs, options: ReaderOptions, *, no_answer: bool) -> None:
        self.inputs, self.options, self.no_answer = inputs, options, no_answer
        self.net = TokenNet(inputs.module, options, no_answer)

    @classmethod
    def of(
        cls, rows: Sequence[Passage], encoders: Sequence[Any], about: About, options: ReaderOptions, *, no_answer: bool
    ) -> TokenReader:
        """A reader with new weights for these passages."""
        if options.stride > options.window:
            raise OptionError(
                f"stride {options.stride} is more than window {options.window}: tokens between would not be read"
            )
        segmentation = about.segmentation or Segmentation()
        lists = Readings(rows, segmentation, options.window, options.stride).lists
        inputs = Inputs.of(lists, encoders, segmentation, options)
        if inputs.module.beside:
            raise OptionError("the reader has its own attention between its layers: elmo_at=input")
        return cls(inputs, options, no_answer=no_answer)

    def prepare(self, rows: Sequence[Passage], progress: Progress = silent) -> TokenPassages:
        readings = Readings(rows, self.inputs.segmentation, self.options.window, self.options.stride)
        return TokenPassages(readings, self.inputs.prepare(readings.lists, progress))

    def parts(self) -> Parts:
        below = self.inputs.parts()
        return Parts({**below.tensors, **weights(self.net, "net.", but="inputs.")}, below.tables, {}, below.models)

    @classmethod
    def from_parts(cls, parts: Parts, about: About, options: ReaderOptions, *, no_answer: bool) -> TokenReader:
        """The reader that ``parts`` kept."""
        inputs = Inputs.from_parts(options, parts, about.segmentation or Segmentation())
        reader = cls(inputs, options, no_answer=no_answer)
        fill(reader.net, parts, "net.", but="inputs.")
        return reader


# ---- cross: question and passage as one input


@dataclass(frozen=True)
class PieceWindow(PassageWindow):
    """A window and its question as one input; the passage's pieces follow each other from ``first`` on."""

    ids: list[int]
    types: list[int]
    first: int


class PlaceBatch(NamedTuple):
    """Inputs, and where the tokens of the passages are in them."""

    tokens: PieceBatch
    places: Tensor  # (B, T)
    here: Tensor  # (B, T) which of the places are real


class CrossPassageNet(PieceNet):
    """A Transformer that learns with the task, and a layer above it."""

    def __init__(self, network: Network, dropout: float, no_answer: bool) -> None:
        super().__init__(network)
        self.dropout, self.no_answer = nn.Dropout(dropout), no_answer
        self.output = nn.Linear(network.dim, 2)

    def forward(self, batch: PlaceBatch) -> tuple[Tensor, None]:
        top, lengths, *_ = self.states(batch.tokens)
        scores = self.output(self.dropout(top))  # (B, P, 2)
        rows = torch.arange(len(scores), device=scores.device)
        none = scores[rows, lengths - 1 if self.network.causal else 0]
        return _with_none(scores[rows[:, None], batch.places], batch.here, none, no_answer=self.no_answer), None


class PiecePassages(Passages):
    """Passages and questions cut into tokens."""

    windows: Sequence[PieceWindow]

    def __init__(self, reader: CrossReader, rows: Sequence[Passage]) -> None:
        windows: list[PieceWindow] = []
        unplaced: list[int] = []
        for number, row in enumerate(rows):
            of_question = reader.windows(number, row)
            if row.answers and all(window.start < 0 for window in of_question):
                unplaced.append(number)
            windows += of_question
        super().__init__(rows, windows, unplaced)
        self.padding = reader.runner.padding

    def batch(self, rows: Ints, *, learning: bool = False) -> PlaceBatch:
        windows = [self.windows[row] for row in rows.tolist()]
        ids, mask = padded_pieces([window.ids for window in windows], self.padding)
        types = filled([window.types for window in windows], 0)
        lengths = torch.tensor([len(window.spans) for window in windows])
        here = torch.arange(int(lengths.max())) < lengths[:, None]  # (B, T)
        firsts = torch.tensor([window.first for window in windows])[:, None]
        places = (firsts + torch.arange(here.shape[1])).masked_fill(~here, 0)
        return PlaceBatch(PieceBatch(ids, mask, types), places, here)


class CrossReader(PassageReader):
    """A Transformer over question and passage."""

    net: CrossPassageNet

    def __init__(self, encoder: TransformerEncoder, options: SpanCrossOptions, *, no_answer: bool) -> None:
        self.encoder, self.options, self.no_answer = encoder, options, no_answer
        self.runner = Runner(encoder.network, encoder.pieces, limit=options.max_pieces)
        self.pairs = PairReader(self.runner)
        self.net = CrossPassageNet(encoder.network, options.dropout, no_answer)

    def prepare(self, rows: Sequence[Passage], progress: Progress = silent) -> PiecePassages:
        return PiecePassages(self, rows)

    def windows(self, number: int, row: Passage) -> list[PieceWindow]:
        """The windows of a passage, each after the question, which is cut where it is too long; they overlap."""
        segmentation, pieces = self.encoder.segmentation, self.encoder.pieces
        passage, question = segmentation.normalised(row.passage), segmentation.normalised(row.question)
        asked = pieces.cut([question])[0]
        most = max(min(self.options.longest_question, self.runner.limit // 2), 1)
        if len(asked.ids) > most:
            question = question[: asked.ends[most - 1]]
        before, inside, behind, spans = self.pairs.parted(question, passage)
        if passage != row.passage:
            spans = token_spans(row.passage, [passage[start:end] for start, end in spans], segmentation)
        room = max(self.runner.limit - len(before) - len(behind), 1)
        answer = answer_tokens(row, spans)
        windows = []
        for first in window_starts(len(inside), room, min(self.options.stride, max(room // 2, 1))):
            last = min(first + room, len(inside))
            tokens = [*before, *inside[first:last], *behind] or [(self.runner.padding, 0)]
            ids, types = [number for number, _ in tokens], [kind for _, kind in tokens]
            place = answer_in(answer, first, last)
            windows.append(PieceWindow(number, spans[first:last], *place, ids, types, len(before)))
        return windows

    def parts(self) -> Parts:
        return Parts(weights(self.net.output, "net.output."), {}, {}, {"encoder": self.encoder})

    @classmethod
    def from_parts(cls, parts: Parts, options: SpanCrossOptions, *, no_answer: bool) -> CrossReader:
        """The reader that ``parts`` kept."""
        reader = cls(parts.model("encoder", TransformerEncoder), options, no_answer=no_answer)
        fill(reader.net.output, parts, "net.output.")
        return reader
