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

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.contexts.ulmfit.model import Ulmfit
from polyseme.contexts.ulmfit.options import UlmfitOptions
from polyseme.data.examples import Examples, texts_of
from polyseme.errors import OptionError
from polyseme.interfaces import Progress, Sentence, silent
from polyseme.learn.context_layers import TunedLayers
from polyseme.learn.inputs import Inputs, PreparedTexts
from polyseme.learn.learning import Learning
from polyseme.learn.modules import Encoding, TextModule, TextTokens, copied, segmentation_of
from polyseme.learn.options import InputOptions, TuningOptions
from polyseme.learn.prepared import Reader
from polyseme.neural.layers import max_over, mean_over
from polyseme.options import make_options
from polyseme.sentences.learned import EncoderNet
from polyseme.sentences.pooled import Pooled
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.tasks.options import UlmfitHeadOptions
from polyseme.text.corpus import Corpus
from polyseme.text.segment import Segmentation
from polyseme.training.run import Run

BETAS = (0.7, 0.99)


class UlmfitReader(Reader):
    """A language model that learns with the task, pooled."""

    def __init__(self, language_model: Ulmfit, about: About) -> None:
        self.language_model, backward = language_model, language_model.options.direction == "backward"
        pool = "first-max-mean" if backward else "last-max-mean"
        self.encoder = Pooled(language_model, pool, layers="top", about=about)
        layers = TunedLayers(language_model, "top", "input")
        self.inputs = Inputs([layers], [language_model], language_model.segmentation, InputOptions(input_dropout=0.0))
        pooling = EndMaxMean(language_model.dim, backward=backward)
        self.dim, self.net = pooling.dim, EncoderNet(self.inputs.module, pooling)

    @classmethod
    def of(cls, train: Examples, encoder: Any, settings: UlmfitHeadOptions, run: Run) -> UlmfitReader:
        """A language model that has read the texts (stage 2); the one that was given stays as it is."""
        if encoder is not None and not isinstance(encoder, Ulmfit):
            name = getattr(encoder, "method", type(encoder).__name__)
            raise OptionError(f"the head ulmfit needs an ulmfit model, not {name}: see polyseme train ulmfit")
        language_model = _language_model(train, encoder, settings, run)
        return cls(language_model, About(language_model.about.segmentation, train.facts, run.curve))

    def prepare(self, inputs: Sequence[Sentence], progress: Progress = silent) -> PreparedTexts:
        return self.inputs.prepare(self.language_model.tokenize_all(inputs), progress)

    def parts(self) -> Parts:
        return Parts({}, {}, {}, {"encoder": self.encoder})


class EndMaxMean(TextModule):
    """[h_T; max_t h_t; mean_t h_t]; of a backward language model h_1 instead of h_T."""

    def __init__(self, dim: int, *, backward: bool) -> None:
        super().__init__()
        self.dim, self.backward = 3 * dim, backward

    def forward(self, tokens: TextTokens) -> Encoding:
        x, mask = tokens.x, tokens.mask  # (B, T, D)
        ends = mask.sum(dim=1).clamp_min(1) - 1
        at_end = x[torch.arange(len(x)), 0 if self.backward else ends] * mask.any(dim=1, keepdim=True)
        return Encoding(torch.cat([at_end, max_over(x, mask), mean_over(x, mask)], dim=1))


def ulmfit_learning(task: Learning, settings: UlmfitHeadOptions) -> Learning:
    """Stage 3: the rates of the paper, and its AdamW."""
    task.tuning = TuningOptions(
        encoder_lr=1 / settings.layer_rates, layer_rates=settings.layer_rates, unfreezing=settings.unfreezing
    )
    task.betas = BETAS
    return task


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
