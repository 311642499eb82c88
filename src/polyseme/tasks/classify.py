"""Classify 文本分类: one label per text, from any encoder.

    p(label) = softmax(W · f(text) + b)

``f`` is a sentence encoder learned with the task (textcnn, dan, han …), the vector of a frozen encoder (linear, mlp),
fastText's mean of hashed n-grams, or the pooled states of a language model that learns with it (ulmfit).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.arrays import FloatArray
from polyseme.data.examples import Examples
from polyseme.data.labels import cut_label
from polyseme.errors import FormatError, OptionError
from polyseme.interfaces import Progress, Sentence, SentenceEncoder
from polyseme.learn.inputs import fill, segmentation_of
from polyseme.learn.metrics import PRIMARY, classification, confusion, per_label
from polyseme.learn.token_vectors import Ints
from polyseme.options import make_options
from polyseme.sentences.learned import (
    ClassifyTask,
    ClassLoss,
    ExampleTask,
    LearnedEncoder,
    check_classes,
    output_layer,
    softmax,
    texts_of,
)
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.tasks.encoders import Standardised, encoded_once, frozen_encoder, new_encoder, tuned_texts
from polyseme.tasks.model import Prediction, TaskModel, TaskReport, several
from polyseme.tasks.odd_labels import class_scorer, tell_odd_labels, tell_unknown_labels, with_dev
from polyseme.tasks.options import ClassifyOptions, MlpOptions, TaskOptions, head_options
from polyseme.tasks.ulmfit import fit_ulmfit, new_layers
from polyseme.training.loop import fit
from polyseme.training.run import Run
from polyseme.training.task import Score
from polyseme.words.fasttext_classifier import Supervised, train_supervised
from polyseme.words.files.models import PublishedFastText

if TYPE_CHECKING:
    from typing_extensions import Self


AT_ONCE = 1024  # texts of a file that are predicted together


class Classify(TaskModel):
    """An encoder and the layer over it; fastText's classifier brings its own."""

    method: ClassVar[str] = "classify"
    kind: ClassVar[str] = "texts"
    Options: ClassVar[type] = ClassifyOptions

    def __init__(
        self,
        options: TaskOptions,
        encoder: Any,
        output: nn.Module | None,
        labels: list[str],
        about: About,
        beside: Classify | None = None,
    ) -> None:
        """``labels`` are those of the layer; ``beside`` is another classifier of them, and the mean of both counts.

        Labels in parts (DESC:manner) are answered with as many parts as ``about`` says, their probabilities summed.
        """
        self.options, self.encoder, self.learned, self.about, self.beside = options, encoder, labels, about, beside
        self.labels = list(dict.fromkeys(cut_label(label, self.cut_labels().get("label_parts")) for label in labels))
        self.output = None if output is None else output.eval()
        self.fasttext = Supervised(encoder) if isinstance(encoder, PublishedFastText) else None

    @classmethod
    def fit(
        cls, train: Examples, dev: Examples | None, encoders: Sequence[Any], options: TaskOptions, run: Run
    ) -> Self:
        check_classes(train)
        own = head_options(cls.method, options, len(train))
        tell_odd_labels(train, dev)
        if options.head == "fasttext":
            return cls._fit_fasttext(train, encoders, options, own, run)
        train, dev = with_dev(train, dev, options, own)
        about = About(segmentation_of(encoders, train.segmentation), train.facts, run.curve)
        score = class_scorer(options, train.labels, dev)
        if options.head == "ulmfit":
            return cls._fit_ulmfit(train, dev, encoders, options, own, score, run)
        encoder: Any = frozen_encoder(encoders, own)
        if encoder is not None:
            output = new_output(encoder, own, len(train.labels), frozen=True)
            task: ExampleTask = VectorTask(encoder, output, train, dev, own, score, run.progress)
        else:
            tuned = tuned_texts(encoders, about, own)
            learner = tuned or new_encoder(options.head, texts_of(train), encoders, about, own)
            encoder = tuned.encoder if tuned else learner
            output = new_output(encoder, own, len(train.labels))
            task = ClassifyTask(learner, output, train, dev, run.progress, score)
        fit(task, own, run)  # which leaves the module ready to answer
        return cls(options, encoder, output, train.labels, about)

    @classmethod
    def _fit_fasttext(cls, train: Examples, encoders: Sequence[Any], options: TaskOptions, own: Any, run: Run) -> Self:
        if encoders:
            raise OptionError("the head fasttext learns its own vectors: leave the encoder out")
        gold = [train.labels[int(target)] for target in train.targets]
        lists = train.segmentation.token_lists(texts_of(train))
        model = train_supervised(lists, gold, own, run, train.segmentation)
        return cls(options, model, None, train.labels, About(train.segmentation, train.facts, run.curve))

    @classmethod
    def _fit_ulmfit(
        cls,
        train: Examples,
        dev: Examples | None,
        encoders: Sequence[Any],
        options: TaskOptions,
        own: Any,
        score: Any,
        run: Run,
    ) -> Self:
        """One classifier, or one over each of two language models. Of two, neither is kept half done."""
        if len(encoders) > 2:
            raise OptionError("the head ulmfit takes one language model, or a forward and a backward one")
        beside: Self | None = None
        for encoder in encoders or [None]:
            kept = run if len(encoders) < 2 else Run(progress=run.progress, curve=run.curve)
            pooled, output = fit_ulmfit(train, dev, encoder, own, score, kept)
            beside = cls(options, pooled, output, train.labels, pooled.about, beside)
        assert beside is not None
        return beside

    # ---- answers

    def probabilities(self, texts: Iterable[Sentence]) -> FloatArray:
        """p(label) of each text, ``(n, labels)``."""
        learned = self._learned_probabilities(several(texts))
        if len(self.labels) == len(self.learned):
            return learned
        parts = self.cut_labels()["label_parts"]
        place = np.array([self.labels.index(cut_label(label, parts)) for label in self.learned])
        found: FloatArray = learned @ (place[:, None] == np.arange(len(self.labels))).astype(np.float32)
        return found

    def _learned_probabilities(self, given: list[Sentence]) -> FloatArray:
        """p(label) of the labels of the layer."""
        if self.fasttext is not None:
            place = [self.fasttext.labels.index(label) for label in self.learned]
            return self.fasttext.probabilities(given)[:, place]
        found = softmax(self._logits(self.encoder.encode_silently(given)))
        return found if self.beside is None else (found + self.beside._learned_probabilities(given)) / np.float32(2)

    def with_label_parts(self, label_parts: int | None) -> Classify:
        """The same classifier with labels of at most so many parts; None: as many as it learned."""
        if label_parts is None:
            return self
        about = dataclasses.replace(self.about, corpus={**self.about.corpus, "label_parts": label_parts})
        return Classify(self.options, self.encoder, self.output, self.learned, about, self.beside)

    def predict(self, rows: Sequence[Sentence]) -> list[Prediction]:
        """The likeliest label of each text, with all probabilities."""
        found = []
        for row in self.probabilities(rows):
            ranked = np.argsort(-row, kind="stable").tolist()
            named = {self.labels[place]: float(row[place]) for place in ranked}
            found.append(Prediction(self.labels[ranked[0]], float(row[ranked[0]]), named))
        return found

    def records(self, rows: Sequence[Sentence], *, attention: bool = False) -> Iterator[dict[str, Any]]:
        for start in range(0, len(rows), AT_ONCE):
            texts = rows[start : start + AT_ONCE]
            weights: Sequence[Any] = self.attention(texts) if attention else [None] * len(texts)
            for text, prediction, weight in zip(texts, self.predict(texts), weights, strict=True):
                more = {} if weight is None else {"attention": [*zip(weight[0], weight[1].tolist(), strict=True)]}
                yield {"text": text, **prediction._asdict(), **more}

    def rows_to_predict(self, path: str | Path, **reading: Any) -> list[str]:
        return texts_of(Examples.read(path, kind="texts", unlabelled=True, like=self.about.corpus, **reading))

    def attention(self, texts: Iterable[Sentence]) -> list[tuple[list[str], FloatArray]]:
        """Tokens of each text and how much each counted, where the encoder attends."""
        if not self.attends:
            raise OptionError(f"the head {self.options.head} has no word weights: self-attention and han do")
        found: list[tuple[list[str], FloatArray]] = self.encoder.attention(several(texts))
        return found

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
        gold = [examples.labels[int(target)] for target in examples.targets]
        predicted = [self.labels[place] for place in self.probabilities(texts).argmax(axis=1)]
        figures = classification(gold, predicted, self.labels)
        labels = sorted({*gold, *predicted}, key=[*self.labels, *examples.labels].index)
        table = confusion(gold, predicted, labels).tolist()
        metric = self.options.metric or PRIMARY["texts"]
        return TaskReport(
            self.method, str(examples.path), len(texts), metric, figures, per_label(gold, predicted), labels, table
        )

    @torch.inference_mode()
    def _logits(self, vectors: FloatArray) -> FloatArray:
        assert self.output is not None
        logits: FloatArray = self.output(torch.from_numpy(vectors)).numpy()
        return logits

    # ---- on disk

    def parts(self) -> Parts:
        tensors = {}
        if self.output is not None:
            tensors = {f"output.{name}": t.detach().cpu().numpy() for name, t in self.output.state_dict().items()}
        beside = {} if self.beside is None else {"beside": self.beside}
        return Parts(tensors, {"labels": self.learned}, {}, {"encoder": self.encoder, **beside})

    @classmethod
    def from_parts(cls, options: TaskOptions, parts: Parts, about: About) -> Self:
        encoder, labels = parts.models.get("encoder"), parts.tables.get("labels", [])
        if not isinstance(encoder, (SentenceEncoder, PublishedFastText)) or not labels:
            raise FormatError("the model folder was altered: its encoder or its labels are missing")
        if isinstance(encoder, PublishedFastText):
            return cls(options, encoder, None, labels, about)
        beside = parts.models.get("beside")
        if beside is not None and not (isinstance(beside, cls) and beside.learned == labels):
            raise FormatError("the model folder was altered: its classifier has different labels")
        own = head_options(cls.method, options)
        if options.head == "ulmfit":
            output = new_layers(encoder.dim, own, len(labels))
        else:
            output = new_output(encoder, own, len(labels), frozen="output.0.mean" in parts.tensors)
        fill(output, parts, "output.")
        return cls(options, encoder, output, labels, about, beside)


def new_output(encoder: Any, options: Any, n_classes: int, *, frozen: bool = False) -> nn.Sequential:
    """The layer over an encoder: one, or two for mlp; over a frozen encoder's vectors standardised."""
    hidden = options.hidden if isinstance(options, MlpOptions) else 0
    layers = output_layer(encoder.dim, n_classes, options, hidden)
    return nn.Sequential(Standardised(encoder.dim), *layers) if frozen else layers


# ---- fitting


class VectorTask(ExampleTask):
    """A layer over the vectors of a frozen encoder, which runs once."""

    def __init__(
        self,
        encoder: SentenceEncoder,
        output: nn.Sequential,
        train: Examples,
        dev: Examples | None,
        options: Any,
        score: Any,
        progress: Progress,
    ) -> None:
        self.vectors = encoded_once(encoder, texts_of(train), progress)
        super().__init__(output, np.ones(len(train), dtype=np.int64), options)
        standardised = output[0]
        assert isinstance(standardised, Standardised)
        standardised.measure(self.vectors)
        self.targets = np.asarray(train.targets, dtype=np.int64)
        self.class_loss = ClassLoss(self.targets, len(train.labels), options)
        self.dev_vectors = encoded_once(encoder, texts_of(dev), progress) if dev is not None else None
        self.score = score

    def loss_of(self, rows: Ints) -> Tensor:
        logits = self.module(torch.from_numpy(self.vectors[rows]).to(self.device))
        return self.class_loss(logits, self.targets[rows])

    @torch.inference_mode()
    def evaluate(self, module: nn.Module) -> Score | None:
        if self.dev_vectors is None:
            return None
        scored: Score = self.score(module(torch.from_numpy(self.dev_vectors).to(self.device)).cpu().numpy())
        return scored


def published_classifier(model: PublishedFastText) -> Classify:
    """A supervised fastText file as a model of this task."""
    labels = Supervised(model).labels
    return Classify(make_options(ClassifyOptions, {"head": "fasttext"}), model, None, labels, model.about)
