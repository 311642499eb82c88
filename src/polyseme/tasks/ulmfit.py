"""ULMFiT's classifier 通用语言模型微调分类器: stages 2 and 3 of ``contexts/ulmfit``.

    p(label) = softmax(W₂ · relu(W₁ · norm([h_T; max_t h_t; mean_t h_t])))        h: the language model's top layer

Howard and Ruder 2018. The language model first continues with the texts (``lm_epochs``), then learns with the
classifier, the rates along a slanted triangle. With ``unfreezing=gradual layer_rates=2.6``, as in the paper, the added
layers learn first, each epoch one layer more from the top, a layer 2.6 times as fast as the one below it. With a
forward and a backward model, the probabilities of their two classifiers are averaged. What differs from the paper:
states are pooled over words, at each word's last unit, and all layers learn at once, which serves small language models
better.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.contexts.ulmfit.model import Ulmfit, UlmfitLayers, UnitReader
from polyseme.contexts.ulmfit.options import UlmfitOptions
from polyseme.data.examples import Examples
from polyseme.errors import OptionError
from polyseme.interfaces import Sentence
from polyseme.learn.inputs import copied, segmentation_of
from polyseme.learn.token_vectors import Ints
from polyseme.neural.layers import max_over, mean_over
from polyseme.options import make_options
from polyseme.sentences.learned import ClassLoss, ExampleTask, run_batches, texts_of
from polyseme.sentences.pooled import Pooled
from polyseme.store.model import About
from polyseme.tasks.options import UlmfitHeadOptions
from polyseme.text.corpus import Corpus
from polyseme.text.segment import Segmentation
from polyseme.training.loop import fit
from polyseme.training.optimisers import ParameterGroup
from polyseme.training.run import Run
from polyseme.training.task import Score

BETAS = (0.7, 0.99)


def fit_ulmfit(
    train: Examples, dev: Examples | None, encoder: Any, options: UlmfitHeadOptions, score: Any, run: Run
) -> tuple[Pooled, nn.Sequential]:
    """The language model, pooled, and the layers over it, both learned; the model that was given stays as it is."""
    if encoder is not None and not isinstance(encoder, Ulmfit):
        name = getattr(encoder, "method", type(encoder).__name__)
        raise OptionError(f"the head ulmfit needs an ulmfit model, not {name}: see polyseme train ulmfit")
    language_model = _language_model(train, encoder, options, run)
    output = new_layers(3 * language_model.dim, options, len(train.labels))
    task = UlmfitTask(language_model, output, train, dev, options, score)
    fit(task, options, run)
    pool = "last-max-mean" if language_model.options.direction == "forward" else "first-max-mean"
    about = About(language_model.about.segmentation, train.facts, run.curve)
    return Pooled(language_model, pool, layers="top", about=about), output


def _language_model(train: Examples, given: Ulmfit | None, options: UlmfitHeadOptions, run: Run) -> Ulmfit:
    """Stage 2, but where the classifier is half done already: its checkpoint holds the weights."""
    done = run.checkpoint is not None and run.resume and run.checkpoint.load() is not None
    epochs = 0 if done else options.lm_epochs
    segmentation: Segmentation = segmentation_of([] if given is None else [given], train.segmentation)
    corpus = Corpus.from_sentences(texts_of(train), segment=segmentation, documents="line")
    shared = {"threads": options.threads, "device": options.device, "seed": options.seed}
    made: Any = make_options(
        UlmfitOptions,
        {"epochs": epochs, "lr": options.lm_lr, "units": given.options.units if given else options.units, **shared},
    )
    if not options.lm_epochs:
        return copied(given) if given else Ulmfit.untrained(corpus, made)
    return Ulmfit.train(corpus, made, Run(start=given, progress=run.progress))


class SteadyNorm(nn.BatchNorm1d):
    """Normalises over a batch; a single text, which has no deviation, as when it is not learning."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and len(x) < 2:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        return super().forward(x)


def new_layers(width: int, options: UlmfitHeadOptions, n_classes: int) -> nn.Sequential:
    """The layers over the pooled states."""
    hidden = options.hidden
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        return nn.Sequential(
            SteadyNorm(width), nn.Dropout(options.dropout), nn.Linear(width, hidden), nn.ReLU(),
            SteadyNorm(hidden), nn.Dropout(options.dropout / 2), nn.Linear(hidden, n_classes),
        )  # fmt: skip


class UlmfitClassifier(nn.Module):
    """The language model's top layer, pooled, under the layers over it."""

    def __init__(self, network: UlmfitLayers, output: nn.Module, direction: str) -> None:
        super().__init__()
        self.network, self.output, self.backward = network, output, direction == "backward"

    def forward(self, batch: _Batch) -> Tensor:
        """Logits ``(B, classes)``."""
        states = self.network(*batch.units)[:, :, 0]  # (B, T, D)
        ends = batch.mask.sum(dim=1).clamp_min(1) - 1
        at_end = states[torch.arange(len(states)), 0 if self.backward else ends] * batch.mask.any(dim=1, keepdim=True)
        pooled = torch.cat([at_end, max_over(states, batch.mask), mean_over(states, batch.mask)], dim=1)
        logits: Tensor = self.output(pooled)
        return logits


class _Batch:
    def __init__(self, units: tuple[Tensor, ...], mask: Tensor) -> None:
        self.units, self.mask = units, mask

    def to(self, device: torch.device) -> _Batch:
        return _Batch(tuple(tensor.to(device) for tensor in self.units), self.mask.to(device))


class _Texts:
    """Texts segmented into words once."""

    def __init__(self, encoder: Ulmfit, texts: Sequence[Sentence]) -> None:
        self.lists = encoder.tokenize_all(texts)
        self.read = UnitReader(encoder.units, encoder.options.direction)
        self.words = np.array([len(words) for words in self.lists], dtype=np.int64)
        self.sizes: Ints = np.array([len(encoder.units.numbers(words)[0]) for words in self.lists], dtype=np.int64)

    def batch(self, rows: Ints) -> _Batch:
        words = self.words[rows]
        mask = torch.from_numpy(np.arange(max(int(words.max()), 1)) < words[:, None])
        return _Batch(self.read([self.lists[row] for row in rows.tolist()]), mask)


class UlmfitTask(ExampleTask):
    """Stage 3."""

    module: UlmfitClassifier
    betas = BETAS

    def __init__(
        self,
        encoder: Ulmfit,
        output: nn.Module,
        train: Examples,
        dev: Examples | None,
        options: UlmfitHeadOptions,
        score: Any,
    ) -> None:
        network = encoder.tuned([encoder.n_layers - 1]).network
        assert isinstance(network, UlmfitLayers)
        self.texts = _Texts(encoder, texts_of(train))
        self.shape = encoder.options
        super().__init__(UlmfitClassifier(network, output, self.shape.direction), self.texts.sizes, options)
        self.targets = np.asarray(train.targets, dtype=np.int64)
        self.class_loss = ClassLoss(self.targets, len(train.labels), options)
        self.dev_texts = _Texts(encoder, texts_of(dev)) if dev is not None else None
        self.score = score

    def groups(self, epoch: int) -> dict[str, ParameterGroup]:
        """In epoch k the added layers and the k layers below them learn; the table is the lowest of all."""
        n, gradual = self.shape.n_layers, self.options.unfreezing == "gradual"
        depths = {"network.": n + 1, **{f"network.awd.layers.{layer}.": n - layer for layer in range(n)}}
        return {
            name: ParameterGroup(lr_factor=self.options.layer_rates**-depth, frozen=gradual and depth > epoch)
            for name, depth in depths.items()
        }

    def loss_of(self, rows: Ints) -> Tensor:
        logits = self.module(self.texts.batch(rows).to(self.device))
        return self.class_loss(logits, self.targets[rows])

    def evaluate(self, module: nn.Module) -> Score | None:
        if self.dev_texts is None:
            return None
        scored: Score = self.score(run_batches(module, self.dev_texts, lambda logits: logits))
        return scored
