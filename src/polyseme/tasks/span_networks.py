"""Networks that read a passage with a question 阅读理解网络: where its answer may start and end.

reader    a small network over token vectors, after Chen et al., "Reading Wikipedia to Answer Open-Domain Questions"
          (2017), with the attention of Seo et al., "Bidirectional Attention Flow" (2017) from passage to question:

    q_j = biLSTM(y)_j,  p_i = biLSTM([x_i; what x_i shares with the question; Σ_j a_ij y_j])_i
    g_i = [p_i; c_i; p_i∗c_i],  c_i = Σ_j softmax_j(p_i W q_j) q_j;   m = biLSTM(g);   start_i, end_i = U [g_i; m_i]

cross     a Transformer that reads question and passage as one input and is fine-tuned, as in Devlin et al., "BERT"
          (2018): start_i, end_i = U h_i; where questions may have no answer, the first token stands for "none"
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.contexts.fine_tuning import Given
from polyseme.contexts.transformer.encode import Runner
from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.contexts.transformer.network import Network, TokenBatch
from polyseme.contexts.transformer.tuning import PairReader, filled, padded_pieces
from polyseme.data.examples import Passage
from polyseme.errors import FormatError, OptionError
from polyseme.interfaces import Progress, silent
from polyseme.learn.inputs import InputBatch, InputModule, Inputs, PreparedTexts, copied, fill
from polyseme.neural.layers import softmax_over
from polyseme.neural.recurrent import Recurrent
from polyseme.sentences.transformer import SentenceTransformer
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
from polyseme.text.align import token_spans
from polyseme.text.segment import Segmentation

NEVER = -1e30


class Passages(ABC):
    """Passages and their questions in windows."""

    rows: Sequence[Passage]
    windows: Sequence[PassageWindow]
    unplaced: Sequence[int]  # questions whose answers are in no window

    @abstractmethod
    def batch(self, windows: Sequence[Any], device: torch.device) -> Any:
        """What the network takes of these windows."""


class PlaceNet(nn.Module, ABC):
    """From a batch of windows to the start and end of every place, ``(B, T + 1, 2)``; the last is "no answer"."""

    no_answer: bool

    def penalty(self) -> Tensor | float:
        """What each question adds to the loss."""
        return 0.0


class PassageReader(ABC):
    """A network with what turns passages into its batches."""

    net: PlaceNet

    @abstractmethod
    def read(self, rows: Sequence[Passage], progress: Progress = silent) -> Passages:
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


class TokenNet(PlaceNet):
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

    def forward(self, batch: ReadingBatch) -> Tensor:
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
        return _with_none(places, here, none, no_answer=self.no_answer)

    def penalty(self) -> Tensor | float:
        return self.inputs.penalty()


def _with_none(places: Tensor, here: Tensor, none: Tensor, *, no_answer: bool) -> Tensor:
    """Scores ``(B, T, 2)`` of real places, and after them that of "no answer" ``(B, 2)``."""
    last = none if no_answer else torch.full_like(none, NEVER)
    return torch.cat([places.masked_fill(~here.unsqueeze(2), NEVER), last.unsqueeze(1)], dim=1)


class TokenPassages(Passages):
    """Passages as lists of tokens with their vectors."""

    def __init__(self, readings: Readings, prepared: PreparedTexts) -> None:
        self.rows, self.windows, self.unplaced = readings.rows, readings.windows, readings.unplaced
        self.prepared = prepared

    def batch(self, windows: Sequence[TokenWindow], device: torch.device) -> ReadingBatch:
        passage = self.prepared.batch(np.array([window.text for window in windows]))
        question = self.prepared.batch(np.array([window.question for window in windows]))
        features = np.zeros((*passage.mask.shape, N_FEATURES), dtype=np.float32)
        for row, window in enumerate(windows):
            features[row, : len(window.features)] = window.features
        return ReadingBatch(passage.to(device), question.to(device), torch.from_numpy(features).to(device))


class TokenReader(PassageReader):
    """Inputs and a network over them."""

    def __init__(self, inputs: Inputs, options: ReaderOptions, *, no_answer: bool) -> None:
        self.inputs, self.options = inputs, options
        self.net: TokenNet = TokenNet(inputs.module, options, no_answer)

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

    def read(self, rows: Sequence[Passage], progress: Progress = silent) -> TokenPassages:
        readings = Readings(rows, self.inputs.segmentation, self.options.window, self.options.stride)
        return TokenPassages(readings, self.inputs.prepare(readings.lists, progress=progress))

    def parts(self) -> Parts:
        below, state = self.inputs.parts(), self.net.state_dict()
        own = {f"net.{n}": t.detach().cpu().numpy() for n, t in state.items() if not n.startswith("inputs.")}
        return Parts({**below.tensors, **own}, below.tables, {}, below.models)

    @classmethod
    def from_parts(cls, parts: Parts, about: About, options: ReaderOptions, *, no_answer: bool) -> TokenReader:
        """The reader that ``parts`` kept."""
        inputs = Inputs.from_parts(options, parts, about.segmentation or Segmentation())
        found = cls(inputs, options, no_answer=no_answer)
        fill(found.net, parts, "net.", but="inputs.")
        return found


# ---- cross: question and passage as one input


@dataclass(frozen=True)
class PieceWindow(PassageWindow):
    """A window and its question as one input; the passage's pieces follow each other from ``first`` on."""

    ids: list[int]
    types: list[int]
    first: int


class PieceBatch(NamedTuple):
    """Inputs ``(B, P)``, and where the pieces of the passages are in them ``(B, T)``."""

    ids: Tensor
    mask: Tensor
    types: Tensor
    places: Tensor
    here: Tensor  # which of the places are real


class CrossPassageNet(Given, PlaceNet):
    """A Transformer that learns with the task, and a layer above it."""

    network: Network

    def __init__(self, network: Network, dropout: float, no_answer: bool) -> None:
        super().__init__(network, network.layer_names)
        self.dropout, self.no_answer = nn.Dropout(dropout), no_answer
        self.output = nn.Linear(network.dim, 2)

    def forward(self, batch: PieceBatch) -> Tensor:
        padded = None if bool(batch.mask.all()) else batch.mask
        top = self.network(TokenBatch(batch.ids, padded, batch.types if bool(batch.types.any()) else None))[
            -1
        ]  # (B, P, D)
        scores = self.output(self.dropout(top))  # (B, P, 2)
        rows = torch.arange(len(scores), device=scores.device)
        none = scores[rows, batch.mask.sum(dim=1) - 1 if self.network.causal else 0]
        return _with_none(scores[rows[:, None], batch.places], batch.here, none, no_answer=self.no_answer)


class PiecePassages(Passages):
    """Passages and questions cut into pieces."""

    def __init__(self, reader: CrossReader, rows: Sequence[Passage]) -> None:
        self.reader, self.rows = reader, rows
        self.windows: list[PieceWindow] = []
        self.unplaced: list[int] = []
        for number, row in enumerate(rows):
            own = list(reader.windows(number, row))
            if row.answers and all(window.start < 0 for window in own):
                self.unplaced.append(number)
            self.windows += own

    def batch(self, windows: Sequence[PieceWindow], device: torch.device) -> PieceBatch:
        ids, mask = padded_pieces([window.ids for window in windows], self.reader.runner.padding)
        types = filled([window.types for window in windows], 0)
        lengths = torch.tensor([len(window.spans) for window in windows])
        here = torch.arange(int(lengths.max())) < lengths[:, None]  # (B, T)
        firsts = torch.tensor([window.first for window in windows])[:, None]
        places = (firsts + torch.arange(here.shape[1])).masked_fill(~here, 0)
        return PieceBatch(*(tensor.to(device) for tensor in (ids, mask, types, places, here)))


class CrossReader(PassageReader):
    """A Transformer over question and passage."""

    def __init__(self, encoder: TransformerEncoder, options: SpanCrossOptions, *, no_answer: bool) -> None:
        self.encoder, self.options = encoder, options
        self.runner = Runner(encoder.network, encoder.pieces, limit=options.max_pieces)
        self.pairs = PairReader(self.runner)
        self.net: CrossPassageNet = CrossPassageNet(encoder.network, options.dropout, no_answer)

    @classmethod
    def of(cls, encoders: Sequence[Any], options: SpanCrossOptions, *, no_answer: bool) -> CrossReader:
        """A reader with a copy of the given encoder."""
        given = [one.encoder if isinstance(one, SentenceTransformer) else one for one in encoders]
        if len(given) != 1 or not isinstance(given[0], TransformerEncoder):
            raise OptionError(
                "the head cross fine-tunes a Transformer that reads question and passage at once: give one encoder"
            )
        return cls(copied(given[0]), options, no_answer=no_answer)

    def read(self, rows: Sequence[Passage], progress: Progress = silent) -> PiecePassages:
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
        found = []
        for first in window_starts(len(inside), room, min(self.options.stride, max(room // 2, 1))):
            last = min(first + room, len(inside))
            one = [*before, *inside[first:last], *behind] or [(self.runner.padding, 0)]
            known = number, spans[first:last], *answer_in(answer, first, last)
            found.append(PieceWindow(*known, [n for n, _ in one], [kind for _, kind in one], len(before)))
        return found

    def parts(self) -> Parts:
        own = {f"net.output.{name}": t.detach().cpu().numpy() for name, t in self.net.output.state_dict().items()}
        return Parts(own, {}, {}, {"encoder": self.encoder})

    @classmethod
    def from_parts(cls, parts: Parts, options: SpanCrossOptions, *, no_answer: bool) -> CrossReader:
        """The reader that ``parts`` kept."""
        encoder = parts.models.get("encoder")
        if not isinstance(encoder, TransformerEncoder):
            raise FormatError("the model folder was altered: it has no Transformer in encoder/")
        found = cls(encoder, options, no_answer=no_answer)
        fill(found.net.output, parts, "net.output.")
        return found
