"""Sentence encoders that are trained with a task (有监督句编码器), and their training on labelled texts.

    p(label) = softmax(W · dropout(encoder(text)) + b),   loss = -log p(label) + the encoder's own penalty

``train textcnn DATA`` saves the encoder trained this way, ``fit classify --head textcnn`` the classifier.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import FloatArray, Ints
from polyseme.data.examples import Examples, texts_of
from polyseme.errors import OptionError
from polyseme.interfaces import Progress, Sentence, SentenceEncoder, silent
from polyseme.learn.goals import Classes, check_classes
from polyseme.learn.inputs import InputBatch, InputModule, Inputs, PreparedTexts, token_lists
from polyseme.learn.learning import HELD_OUT, HeadedNetwork, Held, Learning, output_layer
from polyseme.learn.modules import Encoding, TextModule, fill, weights
from polyseme.learn.options import TextOptions
from polyseme.learn.prepared import in_order, run
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.segment import Segmentation
from polyseme.training.loop import fit
from polyseme.training.run import Run, Trainable

if TYPE_CHECKING:
    from typing_extensions import Self


class LearnedEncoder(Trainable, SentenceEncoder):
    """Inputs and a module above them. A subclass says which module to make from its options."""

    options: TextOptions
    numbered = False  # whether the module uses sentence numbers
    trains_further = False

    def __init__(self, options: TextOptions, inputs: Inputs, module: TextModule, about: About) -> None:
        self.options, self.inputs, self.module, self.about = options, inputs, module, about
        self.dim = module.dim
        self.net = EncoderNet(inputs.module, module).eval()

    @classmethod
    @abstractmethod
    def make_module(cls, options: Any, dim: int, beside: int) -> TextModule:
        """A new module for token vectors of ``dim`` numbers, with ``beside`` numbers added to its hidden states."""

    @classmethod
    def of(cls, texts: Sequence[Sentence], encoders: Sequence[Any], about: About, options: Any) -> Self:
        """A new, untrained encoder for these texts."""
        segmentation = about.segmentation or Segmentation()
        lists = token_lists(segmentation, texts)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(options.seed)
            inputs = Inputs.of(lists, encoders, segmentation, options)
            return cls(options, inputs, cls.made(options, inputs), about)

    @classmethod
    def made(cls, options: Any, inputs: Inputs) -> TextModule:
        """A new module for these inputs, checked to support them."""
        module = cls.make_module(options, inputs.module.dim, inputs.module.beside)
        if inputs.module.beside and not module.has_states:
            raise OptionError(f"{cls.method} has no hidden states to add an encoder to: use elmo_at=input")
        return module

    # ---- texts

    def tokenize(self, text: str) -> list[str]:
        """Segment raw text like the training text."""
        return self.inputs.token_lists([text])[0]

    def prepare(self, texts: Sequence[Sentence], progress: Progress = silent) -> PreparedTexts:
        """Texts prepared by every source of token vectors."""
        return self.inputs.prepare(self.inputs.token_lists(texts), progress, numbered=self.numbered)

    def encodings(self, prepared: PreparedTexts) -> Iterator[tuple[Ints, Encoding]]:
        """What the network makes of prepared texts: the rows of each batch, and their encoding."""
        return run(self.net, prepared)

    def encode_batch(self, texts: list[Sentence]) -> FloatArray:
        encodings = self.encodings(self.prepare(texts))
        return in_order(((rows, encoding.vectors) for rows, encoding in encodings), len(texts))

    def attention(self, texts: Sequence[Sentence]) -> list[tuple[list[str], FloatArray]]:
        """The tokens of each text and their attention weights, which sum to one, if the encoder has attention."""
        if not self.attends:
            raise OptionError(f"{self.method} has no word weights: self-attention and han do")
        prepared = self.prepare(texts)
        longest = max(int(prepared.sizes.max(initial=1)), 1)

        def padded(encoding: Encoding) -> Tensor:
            assert encoding.attention is not None
            return F.pad(encoding.attention, (0, longest - encoding.attention.shape[1]))

        shares = in_order(
            ((rows, padded(encoding)) for rows, encoding in self.encodings(prepared)), len(prepared.lists)
        )
        return [(list(tokens), row[: len(tokens)]) for tokens, row in zip(prepared.lists, shares, strict=True)]

    @property
    def attends(self) -> bool:
        """Whether the encoder has attention weights."""
        return self.module.attends

    # ---- training

    @classmethod
    def train(cls, data: Any, options: Any, run: Run) -> Self:
        """Train on the labels of texts; the encoder is kept, the last layer is not."""
        usual = cls.Options()
        for name in usual.for_encoders:
            if getattr(options, name) != getattr(usual, name):
                raise OptionError(
                    f"option {name!r} is for a given encoder, and training {cls.method} takes none: fit classify with "
                    f"head {cls.method} does"
                )
        check_classes(data)
        training, dev = data.split(HELD_OUT, options.seed)
        encoder = cls.of(texts_of(training), [], About(data.segmentation, data.facts, run.curve), options)
        fit(label_task(encoder, training, dev, options, run.progress), options, run)
        encoder.net.eval()
        return encoder

    # ---- on disk

    def parts(self) -> Parts:
        below = self.inputs.parts()
        return Parts({**below.tensors, **weights(self.module, "module.")}, below.tables, {}, below.models)

    @classmethod
    def from_parts(cls, options: TextOptions, parts: Parts, about: About) -> Self:
        inputs = Inputs.from_parts(options, parts, about.segmentation or Segmentation())
        module = cls.made(options, inputs)
        fill(module, parts, "module.")
        return cls(options, inputs, module, about)


class EncoderNet(nn.Module):
    """Inputs and encoder as one module."""

    def __init__(self, inputs: InputModule, encoder: TextModule) -> None:
        super().__init__()
        self.inputs, self.encoder = inputs, encoder

    def forward(self, batch: InputBatch) -> Encoding:
        encoding: Encoding = self.encoder(self.inputs(batch))
        return encoding


def label_task(
    encoder: LearnedEncoder, training: Examples, dev: Examples, options: Any, progress: Progress = silent
) -> Learning:
    """The training of an encoder and an output layer on the labels of texts."""
    goal = Classes.of(training, options)
    net = HeadedNetwork(encoder.net, output_layer(encoder.dim, goal.n_outputs, options))
    prepared, held = (encoder.prepare(texts_of(part), progress) for part in (training, dev))
    return Learning(net, goal, prepared, goal.wanted(training), options, held=Held(dev, held))
