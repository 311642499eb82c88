"""InferSent (自然语言推断句编码器): sentence vectors trained on natural language inference (whether A entails B).

Conneau et al., "Supervised Learning of Universal Sentence Representations from Natural Language Inference Data", EMNLP
2017. One encoder encodes both sentences of a labelled pair:

    p(label) = softmax(W_3 W_2 W_1 [u; v; |u - v|; u ⊙ v])

The option ``encoder`` selects one of the paper's seven encoders. As in the authors' program, the classifier is linear
unless ``nonlinear`` is set. What differs: Adam with early stopping instead of SGD with its own schedule, and padding is
never included in a maximum (as it was in their first version).

InferSent as its authors published it (已发布的 InferSent): infersent1.pkl with GloVe, infersent2.pkl with fastText.

    u = max_t BiLSTM(x_<s>, x_1 … x_n, x_</s>)

Words without a vector are omitted, and boundary words are added around the text if they have a vector: ``<s> </s>`` in
the first version, ``<p> </p>`` in the second. What differs from the authors' program: padding is never included in the
maximum (in their first version this made a vector depend on its batch), and raw text is tokenized by ``segment``, not
by NLTK, which has "do n't" (give lists of words for another tokenization).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.arrays import FloatArray
from polyseme.data.examples import Examples
from polyseme.errors import OptionError, TrainingError
from polyseme.interfaces import Progress, Sentence, WordVectorsInterface, silent
from polyseme.learn.inputs import PreparedTexts
from polyseme.learn.modules import Encoding, TextModule, TextTokens
from polyseme.learn.token_vectors import Ints
from polyseme.neural.layers import max_over, mean_over, softmax_over
from polyseme.neural.recurrent import Recurrent
from polyseme.options import part_of
from polyseme.sentences.encoders import BiLstmMaxModule, RnnModule
from polyseme.sentences.learned import (
    HELD_OUT,
    ClassLoss,
    EncoderNet,
    ExampleTask,
    LearnedEncoder,
    check_classes,
    targets_of,
)
from polyseme.sentences.options import InferSentFileOptions, InferSentOptions, LabelOptions, PairOptions
from polyseme.store.model import About
from polyseme.training.loop import fit
from polyseme.training.run import Run
from polyseme.training.task import Score

if TYPE_CHECKING:
    from typing_extensions import Self

VIEWS = 4  # of inner attention, and layers of the hierarchical convolution
WIDTH = 3


class MeanModule(TextModule):
    """The mean of all hidden states."""

    def __init__(self, states: Recurrent) -> None:
        super().__init__()
        self.states, self.dim = states, states.dim

    def forward(self, tokens: TextTokens) -> Encoding:
        return Encoding(mean_over(self.states(tokens.x, tokens.mask)[0], tokens.mask))


class InnerAttentionModule(TextModule):
    """For each of several learned queries, a weighted sum of projected states:  α = softmax(tanh(W h)·q),  Σ α W'h."""

    attends = True

    def __init__(self, states: Recurrent) -> None:
        super().__init__()
        self.states, self.dim = states, VIEWS * states.dim
        self.keys = nn.Linear(states.dim, states.dim, bias=False)
        self.values = nn.Linear(states.dim, states.dim, bias=False)
        self.queries = nn.Linear(states.dim, VIEWS, bias=False)

    def forward(self, tokens: TextTokens) -> Encoding:
        states = self.states(tokens.x, tokens.mask)[0]
        scores = self.queries(torch.tanh(self.keys(states))).transpose(1, 2)  # (B, views, T)
        weights = softmax_over(scores, tokens.mask[:, None])
        return Encoding((weights @ self.values(states)).flatten(1), weights.mean(dim=1))


class HierarchicalConvModule(TextModule):
    """Four stacked convolutions; the maxima over time of all layers, concatenated."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.dim = VIEWS * hidden
        widths = [dim, *[hidden] * (VIEWS - 1)]
        self.layers = nn.ModuleList(nn.Conv1d(n, hidden, WIDTH, padding=WIDTH // 2) for n in widths)

    def forward(self, tokens: TextTokens) -> Encoding:
        x, found = tokens.x, []
        for layer in self.layers:
            real = x * tokens.mask.unsqueeze(-1)
            x = torch.relu(layer(real.transpose(1, 2))).transpose(1, 2)  # (B, T, hidden)
            found.append(max_over(x, tokens.mask))
        return Encoding(torch.cat(found, dim=1))


def pair_features(u: Tensor, v: Tensor) -> Tensor:
    """``[u; v; |u - v|; u ⊙ v]``, ``(B, D), (B, D) -> (B, 4D)``."""
    return torch.cat([u, v, (u - v).abs(), u * v], dim=1)


class InferenceNet(nn.Module):
    """One encoder for both texts of a pair, and the classifier above it."""

    def __init__(self, net: EncoderNet, dim: int, n_classes: int, options: PairOptions) -> None:
        super().__init__()
        self.net = net
        between = [nn.Tanh(), nn.Dropout(options.dropout)] if options.nonlinear else []
        size = options.classifier
        self.output = nn.Sequential(
            nn.Linear(4 * dim, size), *between, nn.Linear(size, size), *between, nn.Linear(size, n_classes)
        )

    def forward(self, batch: tuple[Any, Any]) -> tuple[Tensor, list[Encoding]]:
        """Logits ``(B, classes)``, and the encodings of both texts."""
        sides = [self.net(side) for side in batch]
        return self.output(pair_features(sides[0].vectors, sides[1].vectors)), sides


class InferenceTask(ExampleTask):
    """Training on labelled pairs with one encoder for both texts."""

    module: InferenceNet

    def __init__(
        self,
        encoder: LearnedEncoder,
        module: InferenceNet,
        training: Examples,
        dev: Examples,
        progress: Progress = silent,
    ) -> None:
        self.sides = [encoder.prepare(side, progress) for side in sides_of(training)]
        super().__init__(module, self.sides[0].sizes + self.sides[1].sizes, encoder.options)
        self.targets = np.asarray(training.targets, dtype=np.int64)
        self.class_loss = ClassLoss(self.targets, len(training.labels), part_of(encoder.options, LabelOptions))
        self.dev_sides = [encoder.prepare(side, progress) for side in sides_of(dev)]
        self.dev_targets = targets_of(dev, training.labels)

    def loss_of(self, rows: Ints) -> Tensor:
        left, right = (side.batch(rows).to(self.device) for side in self.sides)
        logits, sides = self.module((left, right))
        total = self.class_loss(logits, self.targets[rows])
        for encoding in sides:
            if encoding.penalty is not None:
                total = total + encoding.penalty.sum()
        return total + len(rows) * self.module.net.inputs.penalty()

    def evaluate(self, module: nn.Module) -> Score | None:
        right, n = 0, len(self.dev_targets)
        with torch.inference_mode():
            for start in range(0, n, self.options.batch_size):
                rows = np.arange(start, min(start + self.options.batch_size, n))
                batch = tuple(side.batch(rows).to(self.device) for side in self.dev_sides)
                found: FloatArray = module(batch)[0].argmax(dim=1).cpu().numpy()
                right += int((found == self.dev_targets[rows]).sum())
        return Score(right / n, {"accuracy": right / n}, higher_is_better=True) if n else None


class InferSent(LearnedEncoder):
    """One of the paper's seven encoders, trained on labelled pairs."""

    method: ClassVar[str] = "infersent"
    Options: ClassVar[type] = InferSentOptions

    @classmethod
    def make_module(cls, options: InferSentOptions, dim: int, beside: int) -> TextModule:
        if options.encoder == "hierarchical-conv":
            return HierarchicalConvModule(dim, options.hidden)
        kind = "gru" if "gru" in options.encoder else "lstm"
        states = Recurrent(dim, options.hidden, kind=kind, bidirectional=options.encoder not in ("lstm", "gru"))
        if options.encoder == "bilstm-max":
            return BiLstmMaxModule(states)
        if options.encoder == "bilstm-mean":
            return MeanModule(states)
        return InnerAttentionModule(states) if options.encoder == "self-attentive" else RnnModule(states)

    @classmethod
    def train(cls, data: Examples, options: InferSentOptions, run: Run) -> Self:
        """Train on the labels of pairs; the encoder is kept, the classifier is not."""
        check_classes(data)
        training, dev = data.split(HELD_OUT, options.seed)
        first, second = sides_of(training)
        if not first or not len(dev):
            raise TrainingError(f"{data.path} has too few pairs to learn from: {len(data)}")
        about = About(data.segmentation, data.facts, run.curve)
        encoder = cls.of([*first, *second], given_vectors(run, options.word_vectors), about, options)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(options.seed)
            module = InferenceNet(encoder.net, encoder.dim, len(data.labels), options)
        fit(InferenceTask(encoder, module, training, dev, run.progress), options, run)
        encoder.net.eval()
        return encoder


def given_vectors(run: Run, path: str | None) -> list[WordVectorsInterface]:
    """The word vectors that the option ``word_vectors`` names, if any."""
    given = run.models.get("word_vectors")
    if given is None:
        return []
    if not isinstance(given, WordVectorsInterface):
        raise OptionError(f"option 'word_vectors' must name word vectors, but {path} has method {given.method}")
    return [given]


def sides_of(examples: Examples) -> tuple[list[str], list[str]]:
    """The first and the second texts of pairs."""
    rows: list[Any] = list(examples)
    return [row.first for row in rows], [row.second for row in rows]


class PublishedInferSent(InferSent):
    """A BiLSTM with max-pooling that omits unknown words and adds boundary words around a text."""

    method: ClassVar[str] = "infersent-file"
    Options: ClassVar[type] = InferSentFileOptions
    options: InferSentFileOptions

    @property
    def vectors(self) -> WordVectorsInterface:
        """The word vectors at its input."""
        found: WordVectorsInterface = self.inputs.encoders[0]
        return found

    def prepare(self, texts: Sequence[Sentence], progress: Progress = silent) -> PreparedTexts:
        first, last = self.options.boundaries.split()
        known = self.vectors
        lists = [
            [word for word in (first, *tokens, last) if word in known] for tokens in self.inputs.token_lists(texts)
        ]
        return self.inputs.prepare(lists, progress=progress)
