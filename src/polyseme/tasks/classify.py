"""Classify 文本分类: one label per text, from any encoder.

    p(label) = softmax(W · f(text) + b)

``f`` is a sentence encoder learned with the task (textcnn, dan, han …), the vector of a frozen encoder (linear, mlp),
fastText's mean of hashed n-grams, or the pooled states of a language model that learns with it (ulmfit).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import nn

from polyseme.arrays import FloatArray
from polyseme.data.examples import Examples, tell_odd_labels, tell_unknown_labels, texts_of
from polyseme.data.labels import cut_label
from polyseme.errors import OptionError, altered_model
from polyseme.interfaces import Progress, Sentence, SentenceEncoder
from polyseme.learn.frozen import FrozenTexts, StandardisedVectors
from polyseme.learn.goals import Classes, check_classes, gold_labels, softmax
from polyseme.learn.learning import HeadedNetwork, Learning, output_layer
from polyseme.learn.metrics import classification, confusion, per_label
from polyseme.learn.modules import fill, weights
from polyseme.learn.prepared import Reader
from polyseme.options import make_options
from polyseme.sentences.learned import LearnedEncoder
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.tasks.heads import restored_texts, text_reader
from polyseme.tasks.model import Prediction, TaskModel, TaskReport, predictions, several
from polyseme.tasks.options import ClassifyOptions, MlpOptions, TaskOptions, UlmfitHeadOptions, head_options
from polyseme.tasks.ulmfit import UlmfitReader, new_layers, ulmfit_learning
from polyseme.training.run import Run
from polyseme.words.fasttext_classifier import FastTextClassifier, train_supervised
from polyseme.words.files.models import PublishedFastText

if TYPE_CHECKING:
    from typing_extensions import Self


class Classify(TaskModel):
    """An encoder and the layers over it; fastText's classifier brings its own."""

    method: ClassVar[str] = "classify"
    kind: ClassVar[str] = "texts"
    at_once: ClassVar[int] = 1024
    Options: ClassVar[type] = ClassifyOptions

    def __init__(
        self,
        options: TaskOptions,
        encoder: Any,
        labels: list[str],
        about: About,
        *,
        reader: Reader | None = None,
        output: nn.Module | None = None,
        goal: Classes | None = None,
        partner: Classify | None = None,
    ) -> None:
        """``labels`` are those of the output layer; ``partner`` is another classifier of them: the mean of both counts.

        Labels in parts (DESC:manner) are answered with as many parts as ``about`` says, their probabilities summed.
        """
        self.options, self.encoder, self.learned, self.about, self.partner = options, encoder, labels, about, partner
        self.labels = list(dict.fromkeys(cut_label(label, self.cut_labels().get("label_parts")) for label in labels))
        self.goal, self.output = goal or Classes(labels), output
        self.fasttext = FastTextClassifier(encoder) if isinstance(encoder, PublishedFastText) else None
        if reader is not None and output is not None:
            self.reader, self.net = reader, HeadedNetwork(reader.net, output).eval()

    # ---- fitting

    @classmethod
    def goal_of(cls, train: Examples, settings: Any) -> Classes:
        return Classes.of(train, settings)

    @classmethod
    def tell_odd(cls, train: Examples, dev: Examples | None) -> None:
        tell_odd_labels(train, dev)

    @classmethod
    def fit(
        cls, train: Examples, dev: Examples | None, encoders: Sequence[Any], options: TaskOptions, run: Run
    ) -> Self:
        if options.head != "fasttext":
            return super().fit(train, dev, encoders, options, run)
        if encoders:
            raise OptionError("the head fasttext learns its own vectors: leave the encoder out")
        check_classes(train)
        tell_odd_labels(train, dev)
        lists, settings = train.segmentation.token_lists(texts_of(train)), head_options(cls.method, options, len(train))
        model = train_supervised(lists, gold_labels(train), settings, run, train.segmentation)
        return cls(options, model, train.labels, About(train.segmentation, train.facts, run.curve))

    @classmethod
    def fitted(
        cls, train: Examples, dev: Examples | None, encoders: Sequence[Any], options: TaskOptions, settings: Any,
        goal: Any, run: Run,
    ) -> Self:  # fmt: skip
        if options.head != "ulmfit" or len(encoders) < 2:
            return super().fitted(train, dev, encoders, options, settings, goal, run)
        if len(encoders) > 2:
            raise OptionError("the head ulmfit takes one language model, or a forward and a backward one")
        models = []
        for encoder in encoders:  # of two, neither is kept half done
            alone = Run(progress=run.progress, curve=run.curve)
            models.append(super().fitted(train, dev, [encoder], options, settings, goal, alone))
        models[1].partner = models[0]
        return models[1]

    @classmethod
    def new(
        cls, train: Examples, encoders: Sequence[Any], options: TaskOptions, settings: Any, goal: Any, about: About,
        run: Run,
    ) -> Self:  # fmt: skip
        if isinstance(settings, UlmfitHeadOptions):
            ulmfit = UlmfitReader.of(train, encoders[0] if encoders else None, settings, run)
            output = new_layers(ulmfit.dim, settings, goal.n_outputs)
            about = ulmfit.encoder.about
            return cls(options, ulmfit.encoder, train.labels, about, reader=ulmfit, output=output, goal=goal)
        reader: Any = text_reader(options.head, texts_of(train), encoders, about, settings)
        output = new_output(reader.dim, settings, goal.n_outputs, frozen=isinstance(reader, FrozenTexts))
        return cls(options, reader.encoder, train.labels, about, reader=reader, output=output, goal=goal)

    def learning(self, train: Examples, dev: Examples | None, settings: Any, progress: Progress) -> Learning:
        task = super().learning(train, dev, settings, progress)
        return ulmfit_learning(task, settings) if isinstance(settings, UlmfitHeadOptions) else task

    @classmethod
    def inputs_of(cls, examples: Any) -> list[str]:
        return texts_of(examples)

    # ---- answers

    def probabilities(self, texts: Iterable[Sentence]) -> FloatArray:
        """p(label) of each text, ``(n, labels)``."""
        learned = self._learned_probabilities(several(texts))
        if len(self.labels) == len(self.learned):
            return learned
        parts = self.cut_labels()["label_parts"]
        place = np.array([self.labels.index(cut_label(label, parts)) for label in self.learned])
        summed: FloatArray = learned @ (place[:, None] == np.arange(len(self.labels))).astype(np.float32)
        return summed

    def _learned_probabilities(self, texts: list[Sentence]) -> FloatArray:
        """p(label) of the labels of the output layer."""
        if self.fasttext is not None:
            place = [self.fasttext.labels.index(label) for label in self.learned]
            return self.fasttext.probabilities(texts)[:, place]
        probabilities = softmax(self._logits(self.encoder.encode_silently(texts)))
        if self.partner is None:
            return probabilities
        return (probabilities + self.partner._learned_probabilities(texts)) / np.float32(2)

    def with_label_parts(self, label_parts: int | None) -> Classify:
        """The same classifier with labels of at most so many parts; None: as many as it learned."""
        if label_parts is None:
            return self
        about = dataclasses.replace(self.about, corpus={**self.about.corpus, "label_parts": label_parts})
        return Classify(self.options, self.encoder, self.learned, about, output=self.output, partner=self.partner)

    def predict(self, rows: Sequence[Sentence]) -> list[Prediction]:
        """The likeliest label of each text, with all probabilities."""
        return predictions(self.probabilities(rows), self.labels)

    def records(self, rows: Sequence[Sentence], *, attention: bool = False) -> Iterator[dict[str, Any]]:
        if not attention:
            yield from super().records(rows)
            return
        for start in range(0, len(rows), self.at_once):
            part = rows[start : start + self.at_once]
            for record, (tokens, shares) in zip(super().records(part), self.attention(part), strict=True):
                yield {**record, "attention": [*zip(tokens, shares.tolist(), strict=True)]}

    def record(self, row: Sentence, answer: Prediction) -> dict[str, Any]:
        return {"text": row, **answer._asdict()}

    def attention(self, texts: Iterable[Sentence]) -> list[tuple[list[str], FloatArray]]:
        """Tokens of each text and how much each counted, where the encoder attends."""
        if not self.attends:
            raise OptionError(f"the head {self.options.head} has no word weights: self-attention and han do")
        shares: list[tuple[list[str], FloatArray]] = self.encoder.attention(several(texts))
        return shares

    @property
    def attends(self) -> bool:
        """Whether ``attention`` has an answer."""
        return isinstance(self.encoder, LearnedEncoder) and self.encoder.attends

    def score(self, examples: Examples) -> TaskReport:
        """Figures over labelled texts; a label the model does not know counts as a miss."""
        parts = examples.facts.get("label_parts")
        if parts is not None and parts != self.cut_labels().get("label_parts"):
            return self.with_label_parts(parts).score(examples)
        texts = texts_of(self.check(examples))
        tell_unknown_labels(self.labels, examples)
        predicted = [self.labels[place] for place in self.probabilities(texts).argmax(axis=1)]
        figures = classification(gold_labels(examples), predicted, self.labels)
        return class_report(self, examples, predicted, figures)

    @torch.inference_mode()
    def _logits(self, vectors: FloatArray) -> FloatArray:
        assert self.output is not None
        logits: FloatArray = self.output(torch.from_numpy(vectors)).numpy()
        return logits

    # ---- on disk

    def parts(self) -> Parts:
        tensors = {} if self.output is None else weights(self.output, "output.")
        partner = {} if self.partner is None else {"beside": self.partner}
        return Parts(tensors, {"labels": self.learned}, {}, {"encoder": self.encoder, **partner})

    @classmethod
    def from_parts(cls, options: TaskOptions, parts: Parts, about: About) -> Self:
        encoder, labels = parts.models.get("encoder"), parts.tables.get("labels", [])
        if not isinstance(encoder, (SentenceEncoder, PublishedFastText)) or not labels:
            raise altered_model("its encoder or its labels are missing")
        if isinstance(encoder, PublishedFastText):
            return cls(options, encoder, labels, about)
        partner = parts.models.get("beside")
        if partner is not None and not (isinstance(partner, cls) and partner.learned == labels):
            raise altered_model("its classifier has different labels")
        settings, frozen = head_options(cls.method, options), "output.0.mean" in parts.tensors
        if options.head == "ulmfit":
            output = new_layers(encoder.dim, settings, len(labels))
        else:
            output = new_output(encoder.dim, settings, len(labels), frozen=frozen)
        fill(output, parts, "output.")
        reader = restored_texts(encoder, settings, frozen=frozen or options.head == "ulmfit")
        return cls(options, encoder, labels, about, reader=reader, output=output.eval(), partner=partner)


def class_report(model: TaskModel, examples: Examples, predicted: list[str], figures: dict[str, float]) -> TaskReport:
    """The report of predicted labels, with the table of what was taken for what."""
    gold = gold_labels(examples)
    labels = sorted({*gold, *predicted}, key=[*model.labels, *examples.labels].index)
    return TaskReport(
        model.method, str(examples.path), len(examples), model.options.metric or model.goal.primary, figures,
        per_label(gold, predicted), labels, confusion(gold, predicted, labels).tolist(),
    )  # fmt: skip


def new_output(dim: int, settings: Any, n_classes: int, *, frozen: bool = False) -> nn.Sequential:
    """The layer over an encoder: one, or two for mlp; over a frozen encoder's vectors standardised."""
    hidden = settings.hidden if isinstance(settings, MlpOptions) else 0
    layers = output_layer(dim, n_classes, settings, hidden)
    return nn.Sequential(StandardisedVectors(dim), *layers) if frozen else layers


def published_classifier(model: PublishedFastText) -> Classify:
    """A supervised fastText file as a model of this task."""
    options = make_options(ClassifyOptions, {"head": "fasttext"})
    return Classify(options, model, FastTextClassifier(model).labels, model.about)
