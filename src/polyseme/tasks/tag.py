"""Tag 序列标注: one tag per word or character, from any encoder.

Huang, Xu and Yu, "Bidirectional LSTM-CRF Models for Sequence Tagging", 2015; Peters et al., "Semi-supervised sequence
tagging with bidirectional language models" (TagLM), ACL 2017.

    bilstm-crf  h = biLSTM(x),  emissions = W [h; ELMo] + b,  CRF        linear  emissions = W x + b
    taglm       h = biLSTM₂([biLSTM₁(x); LM])  under the CRF: a language model's top layer between the two layers

Tags that mark stretches (BIO, BIOES, BMES) are decoded within their scheme, whatever the emissions say, unless the
training sentences break it too (IOB1, as in CoNLL-2003).
"""

from __future__ import annotations

import copy
import dataclasses
import logging
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import Ints
from polyseme.contexts.fine_tuning import transformer_of
from polyseme.data.detect import SAYS
from polyseme.data.examples import Examples, texts_of
from polyseme.data.schemes import allowed, kept_to, scheme_of, stretches
from polyseme.errors import OptionError, TextError, TrainingError, altered_model
from polyseme.interfaces import Sentence
from polyseme.learn.goals import Goal
from polyseme.learn.inputs import InputBatch, InputModule, Inputs
from polyseme.learn.metrics import PRIMARY, Figures, per_label, per_type, tagging
from polyseme.learn.modules import fill, weights, with_beside
from polyseme.learn.options import BIGRAMS, LETTERS
from polyseme.learn.prepared import PreparedInputs, run
from polyseme.learn.token_vectors import Flat, offsets_of
from polyseme.neural.crf import CRF
from polyseme.neural.layers import Dropout
from polyseme.neural.recurrent import Recurrent
from polyseme.sentences.options import RnnOptions
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.tasks.model import TaskModel, TaskReport, several
from polyseme.tasks.options import TagLmOptions, TagOptions, TaskOptions, head_options
from polyseme.text.segment import Segmentation
from polyseme.text.spacing import join_words
from polyseme.training.run import Run

if TYPE_CHECKING:
    from typing_extensions import Self

log = logging.getLogger(__name__)


class Entity(NamedTuple):
    """A marked stretch: tokens ``start`` … ``end`` (exclusive), and how likely its tags are, the least of them."""

    type: str
    text: str
    start: int
    end: int
    probability: float


class TaggedText(NamedTuple):
    """Tokens with their tags and the tags' probabilities, and what they mark."""

    tokens: list[str]
    tags: list[str]
    probabilities: list[float]
    entities: list[Entity]


class Tagger(nn.Module):
    """The network under the CRF, and the CRF."""

    def __init__(self, inputs: InputModule, labels: Sequence[str], options: Any, *, free: bool = False) -> None:
        """``free``: tags may follow each other in any order."""
        super().__init__()
        self.inputs, self.dropout, self.free = inputs, Dropout(options.dropout), free
        self.below: Recurrent | None = None
        self.above: Recurrent | None = None
        dim = inputs.dim
        if isinstance(options, RnnOptions):
            between = isinstance(options, TagLmOptions)
            self.below = _recurrent(dim, options, 1 if between else options.n_layers)
            dim = self.below.dim + inputs.beside
            if between:
                self.above = _recurrent(dim, options, options.n_layers - 1)
                dim = self.above.dim
        elif inputs.beside:
            raise OptionError("the head linear has no hidden states to add an encoder to: use elmo_at=input")
        self.output = nn.Linear(dim, len(labels))
        first, follow, last = (torch.from_numpy(rule) for rule in allowed(labels))
        self.crf = CRF(len(labels)) if free else CRF(len(labels), first=first, follow=follow, last=last)
        self.chained = self.below is not None
        if not self.chained:  # each tag by itself: the chain only keeps to the scheme
            for parameter in self.crf.parameters():
                nn.init.zeros_(parameter).requires_grad_(False)

    def forward(self, batch: InputBatch) -> tuple[Emissions, None]:
        tokens = self.inputs(batch)
        states = tokens.x
        if self.below is not None:
            states = with_beside(self.below(states, tokens.mask)[0], tokens.beside)
        if self.above is not None:
            states = self.above(self.dropout(states), tokens.mask)[0]
        return Emissions(self.output(self.dropout(states)), batch.mask), None


class Emissions(NamedTuple):
    """What a tagger says of each token by itself."""

    scores: Tensor  # (B, T, K)
    mask: Tensor  # (B, T)


class Tags(Goal):
    """One tag per token."""

    shown = ("accuracy",)

    def __init__(self, labels: list[str]) -> None:
        self.labels, self.n_outputs = labels, len(labels)
        self.marks = scheme_of(labels) is not None
        self.primary = PRIMARY["tags"] if self.marks else "accuracy"
        self.tagger: Tagger | None = None  # whose chain learns

    def wanted(self, examples: Examples) -> PaddedTags:
        rows: list[Any] = list(examples)
        place = {label: number for number, label in enumerate(self.labels)}
        numbers = np.array([place.get(tag, -1) for row in rows for tag in row.tags], dtype=np.int64)
        return PaddedTags(Flat(numbers, offsets_of([row.tags for row in rows])))

    def loss(self, outputs: Emissions, wanted: Ints) -> Tensor:
        assert self.tagger is not None
        scores, mask = outputs
        tags, real = torch.from_numpy(wanted).to(scores.device), mask.any(dim=1)
        if self.tagger.chained:
            return self.tagger.crf.loss(scores[real], tags[real], mask[real]).sum()
        return F.cross_entropy(scores[mask], tags[mask], reduction="sum")

    def answers(
        self, outputs: Iterable[tuple[Ints, Emissions]], prepared: PreparedInputs, net: nn.Module
    ) -> list[list[str]]:
        assert isinstance(net, Tagger)
        answers: list[list[str]] = [[] for _ in prepared.sizes]
        crf = copy.deepcopy(net.crf).cpu()  # where decoding is fast; the one that is learning stays on its device
        for rows, emissions in outputs:
            for row, path in zip(rows.tolist(), crf.decode(*emissions), strict=True):
                answers[row] = [self.labels[tag] for tag in path]
        return answers

    def figures(self, answers: list[list[str]], examples: Examples) -> Figures:
        rows: list[Any] = list(examples)
        return figures_of([row.tags for row in rows], answers, marks=self.marks)

    def figure_names(self, examples: Examples) -> Collection[str]:
        return figures_of([], [], marks=self.marks)


class PaddedTags:
    """The numbers of all tags; of some rows as an array."""

    def __init__(self, flat: Flat) -> None:
        self.flat, self.sizes = flat, np.diff(flat.offsets)

    def __getitem__(self, rows: Ints) -> Ints:
        """``(B, T)``, padded with zeros."""
        return self.flat.padded(rows, max(int(self.sizes[rows].max()), 1))


def _recurrent(dim: int, options: RnnOptions, n_layers: int) -> Recurrent:
    return Recurrent(
        dim, options.hidden, kind=options.cell, n_layers=n_layers, bidirectional=options.bidirectional,
        dropout=options.dropout,
    )  # fmt: skip


class Tag(TaskModel):
    """Inputs and a tagger over them."""

    method: ClassVar[str] = "tag"
    kind: ClassVar[str] = "tags"
    unit: ClassVar[str] = "sentences"
    net: Tagger
    pace: ClassVar[float] = 2.0  # every word has something to say of what is to be learned
    Options: ClassVar[type] = TagOptions

    def __init__(self, options: TaskOptions, inputs: Inputs, net: Tagger, goal: Tags, about: About) -> None:
        self.options, self.inputs, self.goal, self.about = options, inputs, goal, about
        self.reader, self.net = inputs, net.eval()
        self.labels, goal.tagger = goal.labels, net

    # ---- fitting

    @classmethod
    def settled(cls, options: TaskOptions, train: Examples) -> TaskOptions:
        """Bigrams are for characters, letters for words.

        A layer over an encoder that learns has neither: it sees the neighbours and the tokens of a word itself.
        """
        rows: list[Any] = [train[number] for number in range(min(len(train), 1000))]
        tokens = [token for row in rows for token in row.tokens]
        characters = sum(len(token) == 1 for token in tokens) > 0.9 * len(tokens)
        known: Any = options
        wanted = not (known.head == "linear" and known.encoder_mode == "finetune")
        chosen = {
            "bigrams": known.bigrams if known.bigrams is not None else BIGRAMS * (wanted and characters),
            "letters": known.letters if known.letters is not None else LETTERS * (wanted and not characters),
        }
        return dataclasses.replace(options, **chosen)  # type: ignore[arg-type]

    @classmethod
    def goal_of(cls, train: Examples, settings: Any) -> Tags:
        if len(train.labels) < 2:
            raise TrainingError(f"all words of {train.path} have one tag: there is nothing to learn")
        return Tags(train.labels)

    @classmethod
    def tell_odd(cls, train: Examples, dev: Examples | None) -> None:
        if dev is None:
            return
        rows: list[Any] = list(dev)
        for name in dev.labels:
            if name not in train.labels:
                first = next((n + 1 for n, row in enumerate(rows) if name in row.tags), 0)
                log.warning(
                    "%s: the tag %r is not in the training sentences (first in sentence %d)", dev.path, name, first
                )

    @classmethod
    def new(
        cls, train: Examples, encoders: Sequence[Any], options: TaskOptions, settings: Any, goal: Any, about: About,
        run: Run,
    ) -> Self:  # fmt: skip
        if isinstance(settings, TagLmOptions) and not encoders:
            raise OptionError("the head taglm takes a language model: give an encoder")
        rows: list[Any] = list(train)
        given = [_by_first_tokens(encoder) for encoder in encoders] if settings.encoder_mode == "finetune" else encoders
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            inputs = Inputs.of([row.tokens for row in rows], given, train.segmentation, settings)
            free = not kept_to(train.labels, [row.tags for row in rows])
            net = Tagger(inputs.module, train.labels, settings, free=free)
        # Its tokens are cut as those of the training sentences, whatever the encoders were trained on.
        about = dataclasses.replace(about, segmentation=train.segmentation)
        return cls(options, inputs, net, goal, about)

    @classmethod
    def inputs_of(cls, examples: Any) -> list[Any]:
        return [row.tokens for row in examples]

    # ---- answers

    def predict(self, rows: Sequence[Sentence]) -> list[TaggedText]:
        """The tags of each sentence: raw text is cut as the training sentences were, lists of tokens stay."""
        lists = self.inputs.token_lists(several(rows))
        answers: list[Any] = [None] * len(lists)
        for numbers, (emissions, _) in run(self.net, self.inputs.prepare(lists)):
            paths, marginals = self.net.crf.decode(*emissions), self.net.crf.marginals(*emissions)
            for row, path, shares in zip(numbers.tolist(), paths, marginals, strict=True):
                answers[row] = self._tagged(lists[row], path, shares)
        return answers

    def _tagged(self, tokens: list[str], path: list[int], shares: Tensor) -> TaggedText:
        tags = [self.labels[tag] for tag in path]
        probabilities = [float(shares[place, tag]) for place, tag in enumerate(path)]
        written = "".join if all(len(token) == 1 for token in tokens) else join_words
        entities = [
            Entity(kind, written(tokens[start:end]), start, end, min(probabilities[start:end]))
            for kind, start, end in (stretches(tags) if scheme_of(self.labels) else ())
        ]
        return TaggedText(tokens, tags, probabilities, entities)

    def record(self, row: Sentence, answer: TaggedText) -> dict[str, Any]:
        return {**answer._asdict(), "entities": [entity._asdict() for entity in answer.entities]}

    def rows_to_predict(self, path: str | Path, **reading: Any) -> Sequence[Sentence]:
        try:
            examples = Examples.read(path, unlabelled=True, like=self.about.corpus, **reading)
        except TextError:  # a table, but none of labelled texts
            examples = Examples.read(path, kind="texts", unlabelled=True, format="lines", **reading)
        if examples.kind == "tags":
            return self.inputs_of(examples)
        if examples.kind == "texts":
            return texts_of(examples)
        raise OptionError(f"{path} holds {SAYS[examples.kind]}; tag takes {SAYS['tags']}, or a sentence a line")

    def score(self, examples: Examples) -> TaskReport:
        """Entity F1 where the tags mark stretches, and accuracy."""
        rows: list[Any] = list(self.check(examples))
        gold = [row.tags for row in rows]
        predicted = [answer.tags for answer in self.predict([row.tokens for row in rows])]
        marks = scheme_of({*self.labels, *examples.labels}) is not None
        flat = [[tag for sentence in sentences for tag in sentence] for sentences in (gold, predicted)]
        table = per_type(gold, predicted) if marks else per_label(*flat)
        figures = figures_of(gold, predicted, marks=marks)
        metric = self.options.metric or (PRIMARY["tags"] if marks else "accuracy")
        return TaskReport(self.method, str(examples.path), len(rows), metric, figures, table)

    # ---- on disk

    def parts(self) -> Parts:
        below = self.inputs.parts()
        tensors = {**below.tensors, **weights(self.net, "net.", but="inputs.")}
        if self.net.free:
            tensors["free"] = np.ones(1, dtype=np.int64)
        return Parts(tensors, {**below.tables, "labels": self.labels}, {}, below.models)

    @classmethod
    def from_parts(cls, options: TaskOptions, parts: Parts, about: About) -> Self:
        labels, settings = parts.tables.get("labels", []), head_options(cls.method, options)
        if len(labels) < 2:
            raise altered_model("its table of labels is missing")
        inputs = Inputs.from_parts(settings, parts, about.segmentation or Segmentation())
        net = Tagger(inputs.module, labels, settings, free="free" in parts.tensors)
        fill(net, parts, "net.", but="inputs.")
        return cls(options, inputs, net, Tags(labels), about)


def figures_of(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, marks: bool) -> Figures:
    """Figures of tags; of those that mark nothing, the accuracy alone."""
    figures = tagging(gold, predicted)
    return figures if marks else {"accuracy": figures["accuracy"]}


def _by_first_tokens(encoder: Any) -> Any:
    """A Transformer that learns to tag a word by its first token (Devlin et al., "BERT", 2018)."""
    transformer = transformer_of(encoder)
    return encoder if transformer is None else transformer.pooled_by("first")
