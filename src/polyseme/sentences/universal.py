"""Encoders trained on several tasks at once 通用句编码器: GenSen and the universal sentence encoder.

GenSen (Subramanian et al., "Learning General Purpose Distributed Sentence Representations via Large Scale Multi-task
Learning", ICLR 2018): from the last state c of one (bi)GRU, the neighbours of a sentence and its translation are
generated, and the labels of pairs and of texts are predicted. Every batch has one task, drawn in proportion to the
shares; the sentences before and after are always generated together.

USE (Cer et al., "Universal Sentence Encoder", 2018): a Transformer or a DAN picks the next sentence of a text and the
answer to a turn among those of the batch, and predicts the labels of pairs.

    transformer  v = Σ_t h_t / √T          dan  v = layers([mean of word vectors; mean of bigram vectors])

What differs from GenSen's paper: no constituency trees; labelled texts if they are given. From USE's: neighbours are
picked, not generated; words and bigrams have separate means, not one; a Transformer reads texts longer than 512 words
in segments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import Ints
from polyseme.data.examples import Examples, texts_of
from polyseme.data.parallel import Parallel
from polyseme.interfaces import Progress, Sentence, WordVectorsInterface
from polyseme.learn.goals import check_classes
from polyseme.learn.inputs import PreparedTexts, token_lists
from polyseme.learn.learning import HELD_OUT, Learning
from polyseme.learn.modules import Encoding, TextModule, TextTokens
from polyseme.learn.options import DIM
from polyseme.learn.prepared import on
from polyseme.learn.token_vectors import EmbeddingTable, TokenLists
from polyseme.neural.layers import Transformer
from polyseme.sentences.conversation import AnswerNet, AnswerTask, Turns, turns_of
from polyseme.sentences.encoders import DanModule
from polyseme.sentences.infersent import given_vectors, inference_task, texts_of_pairs
from polyseme.sentences.learned import EncoderNet, LearnedEncoder, label_task
from polyseme.sentences.options import GenSenOptions, UseOptions
from polyseme.sentences.sentence_order import (
    MOST_HELD_OUT,
    SkipNet,
    SkipTask,
    SkipThoughtModule,
    Stories,
    TargetWords,
    WordDecoder,
    WordOutput,
    WritingNet,
    WritingTask,
    expand,
    vectors_to_expand,
    words_in_both,
)
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.segment import Segmentation
from polyseme.training.loop import fit
from polyseme.training.run import Run
from polyseme.training.task import BatchTask, MixedTask, read_shares

if TYPE_CHECKING:
    from typing_extensions import Self

USUAL_SHARES = {"nli": 1.0, "texts": 1.0, "corpus": 4.5, "parallel": 4.5}  # GenSen: about every tenth batch has pairs
STRETCH = 512  # words that a Transformer reads at once


class Signal(ABC):
    """One training signal: its texts, and the task to train the encoder with."""

    texts: list[Any]

    @abstractmethod
    def __init__(self, data: Any, segmentation: Segmentation, options: Any) -> None:
        """Read the data; raw texts are segmented like those of the encoder."""

    @abstractmethod
    def task(self, encoder: LearnedEncoder, progress: Progress) -> BatchTask:
        """The training task for this encoder."""


class Inference(Signal):
    """Predict the labels of pairs."""

    def __init__(self, data: Examples, segmentation: Segmentation, options: Any) -> None:
        check_classes(data)
        self.data, self.options = data, options
        self.texts = texts_of_pairs(data)

    def task(self, encoder: LearnedEncoder, progress: Progress) -> Learning:
        return inference_task(encoder, *self.data.split(HELD_OUT, self.options.seed), self.options, progress)


class LabelSignal(Signal):
    """Predict the labels of texts."""

    def __init__(self, data: Examples, segmentation: Segmentation, options: Any) -> None:
        check_classes(data)
        self.data, self.options, self.texts = data, options, texts_of(data)

    def task(self, encoder: LearnedEncoder, progress: Progress) -> Learning:
        return label_task(encoder, *self.data.split(HELD_OUT, self.options.seed), self.options, progress)


class Writing(Signal):
    """Generate the sentences before and after."""

    def __init__(self, data: Corpus, segmentation: Segmentation, options: GenSenOptions) -> None:
        self.stories, self.options = Stories.of(data, options.max_sentences, options.longest), options
        self.texts = self.stories.texts

    def task(self, encoder: LearnedEncoder, progress: Progress) -> SkipTask:
        words = TargetWords.of(self.stories.texts, self.options.min_count)
        module = SkipNet(encoder.net, words, self.options)
        return SkipTask(module, encoder.prepare(self.texts, progress), self.stories, words, self.options)


class TranslationSignal(Signal):
    """Generate the same sentence in another language."""

    def __init__(self, data: Parallel, segmentation: Segmentation, options: GenSenOptions) -> None:
        parts = data.split(min(options.hold_out, MOST_HELD_OUT / max(len(data), 1)), options.seed)
        self.n_held_out, self.options = len(parts[1]), options
        cut = [token_lists(way, [pair[side] for part in parts for pair in part])
               for side, way in enumerate((segmentation, data.segmentations[1]))]  # fmt: skip
        self.texts, self.targets = ([tokens[: options.longest] for tokens in lists] for lists in cut)

    def task(self, encoder: LearnedEncoder, progress: Progress) -> TranslateTask:
        words = TargetWords.of(self.targets, self.options.min_count)
        module = TranslateNet(encoder.net, words, self.options)
        prepared = encoder.prepare(self.texts, progress)
        return TranslateTask(module, prepared, self.targets, words, self.n_held_out, self.options)


class Answers(Signal):
    """Pick the answer to a turn of a dialogue."""

    def __init__(self, data: Corpus, segmentation: Segmentation, options: UseOptions) -> None:
        self.turns, self.options = self._turns(data, options), options
        self.texts = self.turns.texts

    def _turns(self, data: Corpus, options: UseOptions) -> Turns:
        return turns_of(data)

    def task(self, encoder: LearnedEncoder, progress: Progress) -> AnswerTask:
        module = AnswerNet(encoder.net, encoder.dim, self.options.n_layers)
        return AnswerTask(module, encoder.prepare(self.texts, progress), self.turns, self.options)


class Following(Answers):
    """Pick the sentence that follows."""

    def _turns(self, data: Corpus, options: UseOptions) -> Turns:
        stories = Stories.of(data, options.max_sentences, options.longest)
        return Turns(stories.texts, np.flatnonzero(stories.documents[1:] == stories.documents[:-1]))


class TranslateNet(WritingNet):
    """An encoder, and a decoder with its own word vectors."""

    def __init__(self, net: EncoderNet, words: TargetWords, options: GenSenOptions) -> None:
        super().__init__(net, WordOutput(options.hidden, words.counts, options.negative))
        self.words = EmbeddingTable(len(words) - 2, net.inputs.dim)
        self.decoder = WordDecoder(net.inputs.dim, options.hidden, every_step=options.condition == "every-step")


class TranslateTask(WritingTask):
    """Training: generate the translations of sentences."""

    def __init__(
        self, module: TranslateNet, texts: PreparedTexts, targets: TokenLists, words: TargetWords, n_held_out: int,
        options: GenSenOptions,
    ) -> None:  # fmt: skip
        super().__init__(module, texts, n_held_out, options)
        self.targets, self.sizes = words.ids(targets), np.array([len(tokens) for tokens in targets], dtype=np.int64)

    def written(self, module: nn.Module, rows: Ints, end: int) -> list[tuple[Tensor, Tensor]]:
        assert isinstance(module, TranslateNet)
        vectors = module.net(on(self.device, self.texts.batch(rows))).vectors
        sizes = self.sizes[rows]
        words = torch.from_numpy(self.targets.padded(rows, int(sizes.max()) + 1)).to(self.device)
        return [module.decoder(module.words.rows(words[:, :-1]), sizes, vectors, words)]


def learn(
    cls: type[LearnedEncoder], signals: Mapping[str, type[Signal]], data: Mapping[str, Any],
    usual: Mapping[str, float], options: Any, run: Run, expanded: WordVectorsInterface | None = None,
) -> Any:  # fmt: skip
    """An encoder of class ``cls``, trained on every signal for which ``data`` is given; with more words, if given."""
    chosen = [data[name] for name in signals if name in data]
    ways = (one.segmentations[0] if isinstance(one, Parallel) else one.segmentation for one in chosen)
    segmentation = next(ways)
    made = {name: signal(data[name], segmentation, options) for name, signal in signals.items() if name in data}
    shares = read_shares(options.shares, made, usual)
    texts: list[Sentence] = [text for one in made.values() for text in one.texts]
    about = About(segmentation, chosen[0].facts, run.curve)
    encoder = cls.of(texts, given_vectors(run, getattr(options, "word_vectors", None)), about, options)
    if expanded is not None:
        words_in_both(encoder, expanded)  # checked before a long training, not after it
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        tasks = {name: one.task(encoder, run.progress) for name, one in made.items()}
    fit(MixedTask(tasks, shares, options.seed), options, run)
    encoder.net.eval()
    if expanded is not None:
        expand(encoder, expanded, options.most_expanded)
    return encoder


class GenSen(LearnedEncoder):
    """A GRU trained on neighbours, translations and labels."""

    method: ClassVar[str] = "gensen"
    Options: ClassVar[type] = GenSenOptions

    @classmethod
    def make_module(cls, options: GenSenOptions, dim: int, beside: int) -> SkipThoughtModule:
        return SkipThoughtModule(dim, options.hidden, options.directions)

    @classmethod
    def train(cls, data: Mapping[str, Any], options: GenSenOptions, run: Run) -> Self:
        """Train on any of ``corpus``, ``parallel``, ``nli`` (labelled pairs) and ``texts`` (labelled)."""
        given = vectors_to_expand(run, options)
        signals: dict[str, type[Signal]] = {
            "corpus": Writing, "parallel": TranslationSignal, "nli": Inference, "texts": LabelSignal,
        }  # fmt: skip
        encoder: Self = learn(cls, signals, data, USUAL_SHARES, options, run, expanded=given)
        return encoder


class StateSumModule(TextModule):
    """The states of a Transformer, summed over the text and divided by the square root of its length."""

    def __init__(self, dim: int, options: UseOptions) -> None:
        super().__init__()
        self.dim = options.hidden
        self.enter = nn.Linear(dim, options.hidden, bias=False)
        self.layers = Transformer(
            options.hidden,
            n_layers=options.depth,
            n_heads=options.n_heads,
            inner=options.inner,
            dropout=options.dropout,
        )

    def forward(self, tokens: TextTokens) -> Encoding:
        x, mask = self.enter(tokens.x), tokens.mask
        n_texts, longest = mask.shape
        if longest > STRETCH:  # the cost of attention grows with the square of the length read at once
            more = -longest % STRETCH
            x, mask = F.pad(x, (0, 0, 0, more)), F.pad(mask, (0, more))
            x, mask = x.reshape(-1, STRETCH, self.dim), mask.reshape(-1, STRETCH)
        states = self.layers(x, mask)[-1].sum(dim=1).view(n_texts, -1, self.dim).sum(dim=1)
        return Encoding(states / tokens.mask.sum(dim=1, keepdim=True).clamp_min(1).sqrt())


class UniversalEncoder(LearnedEncoder):
    """A DAN or a Transformer trained on neighbours, answers and labels."""

    method: ClassVar[str] = "use"
    Options: ClassVar[type] = UseOptions

    @classmethod
    def make_module(cls, options: UseOptions, dim: int, beside: int) -> TextModule:
        if options.encoder == "dan":
            return DanModule(dim, options.depth, options.hidden, 0.1, options.dropout)
        return StateSumModule(dim, options)

    @classmethod
    def train(cls, data: Mapping[str, Any], options: UseOptions, run: Run) -> Self:
        """Train on any of ``corpus``, ``dialogues`` (documents with one turn per line) and ``nli`` (labelled pairs)."""
        if options.encoder == "dan" and options.bigrams is None:
            options = replace(options, bigrams=DIM if options.dim is None else options.dim)
        signals: dict[str, type[Signal]] = {"corpus": Following, "dialogues": Answers, "nli": Inference}
        encoder: Self = learn(cls, signals, data, {}, options, run)
        return encoder
