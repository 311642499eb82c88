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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.data.detect import SAYS
from polyseme.data.examples import Examples
from polyseme.data.schemes import allowed, kept_to, scheme_of, stretches
from polyseme.errors import FormatError, OptionError, TextError, TrainingError
from polyseme.interfaces import Sentence
from polyseme.learn.inputs import InputBatch, InputModule, Inputs, PreparedTexts, fill, segmentation_of
from polyseme.learn.metrics import PRIMARY, Figures, check_metric, per_label, per_type, tagging
from polyseme.learn.modules import with_beside
from polyseme.learn.token_vectors import Flat, Ints, offsets_of
from polyseme.neural.batches import BudgetBatches
from polyseme.neural.crf import CRF
from polyseme.neural.layers import Dropout
from polyseme.neural.recurrent import Recurrent
from polyseme.sentences.learned import BATCH_TOKENS, ExampleTask
from polyseme.sentences.options import BIGRAMS, LETTERS, RnnOptions
from polyseme.sentences.transformer import SentenceTransformer
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.tasks.model import TaskModel, TaskReport, several
from polyseme.tasks.odd_labels import with_dev
from polyseme.tasks.options import TagLmOptions, TagOptions, TaskOptions, head_options
from polyseme.text.segment import Segmentation
from polyseme.text.spacing import join_words
from polyseme.training.loop import fit
from polyseme.training.run import Run
from polyseme.training.task import Score

if TYPE_CHECKING:
    from typing_extensions import Self

log = logging.getLogger(__name__)

AT_ONCE = 512  # sentences of a file that are predicted together


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

    def forward(self, batch: InputBatch) -> Tensor:
        """Emissions ``(B, T, K)``."""
        tokens = self.inputs(batch)
        states = tokens.x
        if self.below is not None:
            states = with_beside(self.below(states, tokens.mask)[0], tokens.beside)
        if self.above is not None:
            states = self.above(self.dropout(states), tokens.mask)[0]
        emissions: Tensor = self.output(self.dropout(states))
        return emissions

    def loss(self, batch: InputBatch, tags: Tensor) -> Tensor:
        """The sum of the losses of a batch of sentences with ``tags (B, T)``."""
        emissions = self(batch)
        real = batch.mask.any(dim=1)
        if self.chained:
            total = self.crf.loss(emissions[real], tags[real], batch.mask[real]).sum()
        else:
            total = F.cross_entropy(emissions[batch.mask], tags[batch.mask], reduction="sum")
        penalty = len(tags) * self.inputs.penalty()
        return total + penalty


def _recurrent(dim: int, options: RnnOptions, n_layers: int) -> Recurrent:
    return Recurrent(
        dim, options.hidden, kind=options.cell, n_layers=n_layers, bidirectional=options.bidirectional,
        dropout=options.dropout,
    )  # fmt: skip


class Tag(TaskModel):
    """Inputs and a tagger over them."""

    method: ClassVar[str] = "tag"
    kind: ClassVar[str] = "tags"
    Options: ClassVar[type] = TagOptions

    def __init__(self, options: TaskOptions, inputs: Inputs, net: Tagger, labels: list[str], about: About) -> None:
        self.options, self.inputs, self.net, self.labels, self.about = options, inputs, net.eval(), labels, about

    @classmethod
    def fit(
        cls, train: Examples, dev: Examples | None, encoders: Sequence[Any], options: TaskOptions, run: Run
    ) -> Self:
        if len(train.labels) < 2:
            raise TrainingError(f"all words of {train.path} have one tag: there is nothing to learn")
        options = _settled(options, train)
        own = head_options(cls.method, options, len(train))
        if isinstance(own, TagLmOptions) and not encoders:
            raise OptionError("the head taglm takes a language model: give an encoder")
        _tell_unknown_tags(train, dev)
        train, dev = with_dev(train, dev, options, own)
        about = About(segmentation_of([], train.segmentation), train.facts, run.curve)
        rows: list[Any] = list(train)
        given = [_by_first_pieces(one) for one in encoders] if own.encoder_mode == "finetune" else encoders
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(own.seed)
            inputs = Inputs.of([row.tokens for row in rows], given, train.segmentation, own)
            free = not kept_to(train.labels, [row.tags for row in rows])
            net = Tagger(inputs.module, train.labels, own, free=free)
        fit(TagTask(inputs, net, train, dev, options, own, run), own, run)
        return cls(options, inputs, net, train.labels, about)

    # ---- answers

    def predict(self, rows: Sequence[Sentence]) -> list[TaggedText]:
        """The tags of each sentence: raw text is cut as the training sentences were, lists of tokens stay."""
        lists = self.inputs.token_lists(several(rows))
        prepared = self.inputs.prepare(lists)
        found: list[Any] = [None] * len(lists)
        for numbers, emissions, mask in run_emissions(self.net, prepared):
            paths, sure = self.net.crf.decode(emissions, mask), self.net.crf.marginals(emissions, mask)
            for place, number in enumerate(numbers):
                found[number] = self._tagged(lists[number], paths[place], sure[place])
        return found

    def _tagged(self, tokens: list[str], path: list[int], sure: Tensor) -> TaggedText:
        tags = [self.labels[tag] for tag in path]
        probabilities = [float(sure[place, tag]) for place, tag in enumerate(path)]
        written = "".join if all(len(token) == 1 for token in tokens) else join_words
        entities = [
            Entity(kind, written(tokens[start:end]), start, end, min(probabilities[start:end]))
            for kind, start, end in (stretches(tags) if scheme_of(self.labels) else ())
        ]
        return TaggedText(tokens, tags, probabilities, entities)

    def records(self, rows: Sequence[Sentence], *, attention: bool = False) -> Iterator[dict[str, Any]]:
        for start in range(0, len(rows), AT_ONCE):
            for found in self.predict(rows[start : start + AT_ONCE]):
                yield {**found._asdict(), "entities": [entity._asdict() for entity in found.entities]}

    def rows_to_predict(self, path: str | Path, **reading: Any) -> Sequence[Sentence]:
        try:
            found = Examples.read(path, unlabelled=True, like=self.about.corpus, **reading)
        except TextError:  # a table, but none of labelled texts
            found = Examples.read(path, kind="texts", unlabelled=True, format="lines", **reading)
        rows: Iterable[Any] = found
        if found.kind == "tags":
            return [row.tokens for row in rows]
        if found.kind == "texts":
            return [row.text for row in rows]
        raise OptionError(f"{path} holds {SAYS[found.kind]}; tag takes {SAYS['tags']}, or a sentence a line")

    def score(self, examples: Examples) -> TaskReport:
        """Entity F1 where the tags mark stretches, and accuracy."""
        rows: list[Any] = list(self.check(examples))
        gold = [row.tags for row in rows]
        predicted = [found.tags for found in self.predict([row.tokens for row in rows])]
        marks = scheme_of({*self.labels, *examples.labels}) is not None
        flat = [[tag for sentence in some for tag in sentence] for some in (gold, predicted)]
        each = per_type(gold, predicted) if marks else per_label(*flat)
        figures = figures_of(gold, predicted, marks=marks)
        return TaskReport(self.method, str(examples.path), len(rows), _metric(self.options, marks), figures, each)

    # ---- on disk

    def parts(self) -> Parts:
        below = self.inputs.parts()
        own = {
            name: t.detach().cpu().numpy()
            for name, t in self.net.state_dict().items()
            if not name.startswith("inputs.")
        }
        tensors = {**below.tensors, **{f"net.{name}": array for name, array in own.items()}}
        if self.net.free:
            tensors["free"] = np.ones(1, dtype=np.int64)
        return Parts(tensors, {**below.tables, "labels": self.labels}, {}, below.models)

    @classmethod
    def from_parts(cls, options: TaskOptions, parts: Parts, about: About) -> Self:
        labels, own = parts.tables.get("labels", []), head_options(cls.method, options)
        if len(labels) < 2:
            raise FormatError("the model folder was altered: its table of labels is missing")
        inputs = Inputs.from_parts(own, parts, about.segmentation or Segmentation())
        net = Tagger(inputs.module, labels, own, free="free" in parts.tensors)
        fill(net, parts, "net.", but="inputs.")
        return cls(options, inputs, net, labels, about)


def figures_of(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, marks: bool) -> Figures:
    """Figures of tags; of those that mark nothing, the accuracy alone."""
    figures = tagging(gold, predicted)
    return figures if marks else {"accuracy": figures["accuracy"]}


def _metric(options: TaskOptions, marks: bool) -> str:
    return options.metric or (PRIMARY["tags"] if marks else "accuracy")


def run_emissions(net: Tagger, prepared: PreparedTexts) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Emissions and masks of all sentences, those of about one length together, with their numbers."""
    device = net.output.weight.device
    for rows in BudgetBatches(prepared.sizes, tokens=BATCH_TOKENS, seed=0, padded=True).in_order():
        with torch.inference_mode():
            batch = prepared.batch(rows).to(device)
            emissions = net(batch)
        yield rows.tolist(), emissions.cpu().clone(), batch.mask.cpu().clone()


class TagTask(ExampleTask):
    """Tagged sentences through a tagger."""

    module: Tagger
    unit = "sentences"
    pace = 2.0  # every word has something to say of what is to be learned

    def __init__(
        self,
        inputs: Inputs,
        net: Tagger,
        train: Examples,
        dev: Examples | None,
        options: TaskOptions,
        own: Any,
        run: Run,
    ) -> None:
        held: list[Any] = list(dev) if dev is not None else []
        self.gold = [row.tags for row in held]
        self.marks = scheme_of(train.labels) is not None
        self.metric = _metric(options, self.marks)
        check_metric(self.metric, figures_of(self.gold, self.gold, marks=self.marks))
        rows: list[Any] = list(train)
        lists = [row.tokens for row in rows]
        self.prepared = inputs.prepare(lists, progress=run.progress)
        super().__init__(net, self.prepared.sizes, own)
        place = {label: number for number, label in enumerate(train.labels)}
        numbers = np.array([place[tag] for row in rows for tag in row.tags], dtype=np.int64)
        self.tags = Flat(numbers, offsets_of(lists))
        self.labels = train.labels
        self.dev = inputs.prepare([row.tokens for row in held], progress=run.progress) if held else None

    def loss_of(self, rows: Ints) -> Tensor:
        batch = self.prepared.batch(rows).to(self.device)
        tags = torch.from_numpy(self.tags.padded(rows, batch.mask.shape[1])).to(self.device)
        return self.module.loss(batch, tags)

    def evaluate(self, module: nn.Module) -> Score | None:
        if self.dev is None:
            return None
        assert isinstance(module, Tagger)
        predicted: list[list[str]] = [[] for _ in self.gold]
        crf = copy.deepcopy(module.crf).cpu()  # where decoding is fast; the one that is learning stays on its device
        for numbers, emissions, mask in run_emissions(module, self.dev):
            for number, path in zip(numbers, crf.decode(emissions, mask), strict=True):
                predicted[number] = [self.labels[tag] for tag in path]
        figures = figures_of(self.gold, predicted, marks=self.marks)
        facts = {name: figures[name] for name in dict.fromkeys((self.metric, "accuracy"))}
        return Score(figures[self.metric], facts, higher_is_better=True)


def _by_first_pieces(encoder: Any) -> Any:
    """A Transformer that learns to tag a word by its first subword (Devlin et al., "BERT", 2018)."""
    inner = encoder.encoder if isinstance(encoder, SentenceTransformer) else encoder
    return inner.pooled_by("first") if isinstance(inner, TransformerEncoder) else encoder


def _settled(options: TaskOptions, train: Examples) -> TaskOptions:
    """The options with bigrams and letters decided: the first for characters, the second for words.

    A layer over an encoder that learns has neither: it sees the neighbours and the pieces of a word itself.
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


def _tell_unknown_tags(train: Examples, dev: Examples | None) -> None:
    for name in dev.labels if dev is not None else ():
        if name not in train.labels:
            assert dev is not None
            rows: Iterable[Any] = dev
            first = next((n + 1 for n, row in enumerate(rows) if name in row.tags), 0)
            log.warning("%s: the tag %r is not in the training sentences (first in sentence %d)", dev.path, name, first)
