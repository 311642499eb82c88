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

import torch
from torch import nn

from polyseme.data.examples import Examples
from polyseme.errors import OptionError, TrainingError
from polyseme.interfaces import Progress, Sentence, WordVectorsInterface, silent
from polyseme.learn.goals import Classes, check_classes
from polyseme.learn.inputs import PreparedTexts
from polyseme.learn.learning import HELD_OUT, HeadedNetwork, Held, Learning
from polyseme.learn.modules import Encoding, TextModule, TextTokens
from polyseme.learn.options import LabelOptions
from polyseme.learn.pairs import Siamese, pairs_of
from polyseme.learn.prepared import LearningTexts
from polyseme.neural.layers import max_over, mean_over, softmax_over
from polyseme.neural.recurrent import Recurrent
from polyseme.options import part_of
from polyseme.sentences.encoders import BiLstmMaxModule, RnnModule
from polyseme.sentences.learned import LearnedEncoder
from polyseme.sentences.options import InferSentFileOptions, InferSentOptions, PairClassifierOptions
from polyseme.store.model import About
from polyseme.training.loop import fit
from polyseme.training.run import Run

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
        x, maxima = tokens.x, []
        for layer in self.layers:
            real = x * tokens.mask.unsqueeze(-1)
            x = torch.relu(layer(real.transpose(1, 2))).transpose(1, 2)  # (B, T, hidden)
            maxima.append(max_over(x, tokens.mask))
        return Encoding(torch.cat(maxima, dim=1))


def classifier(dim: int, n_classes: int, options: PairClassifierOptions) -> nn.Sequential:
    """The layers above the features of a pair."""
    between = [nn.Tanh(), nn.Dropout(options.dropout)] if options.nonlinear else []
    size = options.classifier
    return nn.Sequential(nn.Linear(dim, size), *between, nn.Linear(size, size), *between, nn.Linear(size, n_classes))


def inference_task(
    encoder: LearnedEncoder, training: Examples, dev: Examples, options: Any, progress: Progress = silent
) -> Learning:
    """The training of an encoder, and of layers above [u; v; |u - v|; u∗v], on the labels of pairs."""
    pairs, goal = Siamese(LearningTexts(encoder)), Classes.of(training, part_of(options, LabelOptions))
    net = HeadedNetwork(pairs.net, classifier(pairs.dim, goal.n_outputs, options))
    prepared, held = (pairs.prepare(pairs_of(part), progress) for part in (training, dev))
    return Learning(
        net, goal, prepared, goal.wanted(training), options, held=Held(dev, held) if len(dev) else None, unit="pairs"
    )


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
        if not len(training) or not len(dev):
            raise TrainingError(f"{data.path} has too few pairs to learn from: {len(data)}")
        about = About(data.segmentation, data.facts, run.curve)
        encoder = cls.of(texts_of_pairs(training), given_vectors(run, options.word_vectors), about, options)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(options.seed)
            task = inference_task(encoder, training, dev, options, run.progress)
        fit(task, options, run)
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


def texts_of_pairs(examples: Examples) -> list[str]:
    """The first texts of all pairs, then the second ones."""
    return [text for side in zip(*pairs_of(examples), strict=True) for text in side]


class PublishedInferSent(InferSent):
    """A BiLSTM with max-pooling that omits unknown words and adds boundary words around a text."""

    method: ClassVar[str] = "infersent-file"
    Options: ClassVar[type] = InferSentFileOptions
    options: InferSentFileOptions

    @property
    def vectors(self) -> WordVectorsInterface:
        """The word vectors at its input."""
        vectors: WordVectorsInterface = self.inputs.encoders[0]
        return vectors

    def prepare(self, texts: Sequence[Sentence], progress: Progress = silent) -> PreparedTexts:
        first, last = self.options.boundaries.split()
        known = self.vectors
        lists = [
            [word for word in (first, *tokens, last) if word in known] for tokens in self.inputs.token_lists(texts)
        ]
        return self.inputs.prepare(lists, progress)
