"""Sentence encoders that are trained with a task (有监督句编码器), and their training on labelled texts.

    p(label) = softmax(W · dropout(encoder(text)) + b),   loss = -log p(label) + the encoder's own penalty

``train textcnn DATA`` saves the encoder trained this way, ``fit classify --head textcnn`` the classifier.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import FloatArray
from polyseme.contexts.fine_tuning import Given
from polyseme.contexts.transformer.tuning import begin_learning, usual_rate
from polyseme.data.examples import Examples
from polyseme.errors import OptionError, TrainingError
from polyseme.interfaces import Progress, Sentence, SentenceEncoder, silent
from polyseme.learn.inputs import InputBatch, InputModule, Inputs, PreparedTexts, fill, token_lists
from polyseme.learn.modules import Encoding, TextModule
from polyseme.learn.token_vectors import Ints
from polyseme.neural.batches import BudgetBatches, sized_batches
from polyseme.options import part_of
from polyseme.sentences.options import TextOptions, TuningOptions
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.segment import Segmentation
from polyseme.training.loop import fit
from polyseme.training.optimisers import ParameterGroup
from polyseme.training.run import Run, Trainable
from polyseme.training.task import BatchTask, Part, Score
from polyseme.training.torchrun import chosen_device

if TYPE_CHECKING:
    from typing_extensions import Self

BATCH_TOKENS = 4096  # per batch when no gradients are needed, including padding
TIE = 1e-6  # weight of the held-out loss, which decides between equal scores
HELD_OUT = 0.1  # fraction of the examples used for early stopping, if no dev set is given


class LearnedEncoder(Trainable, SentenceEncoder):
    """Inputs and a module above them. A subclass says which module to make from its options."""

    options: TextOptions
    at_once: int = BATCH_TOKENS
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
        return self.inputs.prepare(self.inputs.token_lists(texts), numbered=self.numbered, progress=progress)

    def encode_batch(self, texts: list[Sentence]) -> FloatArray:
        return run_batches(self.net, self.prepare(texts), lambda encoding: encoding.vectors)

    def attention(self, texts: Sequence[Sentence]) -> list[tuple[list[str], FloatArray]]:
        """The tokens of each text and their attention weights, which sum to one, if the encoder has attention."""
        if not self.attends:
            raise OptionError(f"{self.method} has no word weights: self-attention and han do")
        prepared = self.prepare(texts)
        longest = max(int(prepared.sizes.max(initial=1)), 1)

        def padded(encoding: Encoding) -> Tensor:
            assert encoding.attention is not None
            return F.pad(encoding.attention, (0, longest - encoding.attention.shape[1]))

        weights = run_batches(self.net, prepared, padded)
        return [(list(tokens), row[: len(tokens)]) for tokens, row in zip(prepared.lists, weights, strict=True)]

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
        task = ClassifyTask(encoder, output_layer(encoder.dim, len(data.labels), options), training, dev, run.progress)
        fit(task, options, run)
        encoder.net.eval()
        return encoder

    # ---- on disk

    def parts(self) -> Parts:
        below = self.inputs.parts()
        own = {f"module.{name}": tensor.detach().cpu().numpy() for name, tensor in self.module.state_dict().items()}
        return Parts({**below.tensors, **own}, below.tables, {}, below.models)

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

    def penalty(self) -> Tensor | float:
        """The penalty on the weights of layer sums, which is added to the loss of each text."""
        return self.inputs.penalty()


class Batched(Protocol):
    """Prepared texts, from which batches are made."""

    sizes: Ints

    def batch(self, rows: Ints) -> Any:
        """A batch of some of the texts, as input of a network; it has ``to(device)``."""
        ...


class Learner(Protocol):
    """An encoder that is trained with a task."""

    dim: int
    at_once: int  # tokens per batch when no gradients are needed

    @property
    def options(self) -> Any:
        """The training options."""
        ...

    @property
    def net(self) -> Any:
        """The network from a batch to its ``Encoding``; its ``penalty()`` is added to the loss of each text."""
        ...

    def prepare(self, texts: Sequence[Sentence], progress: Progress = silent) -> Batched:
        """Prepare texts for batches."""
        ...


def run_batches(
    net: nn.Module, prepared: Batched, answer: Callable[[Any], Tensor], tokens: int = BATCH_TOKENS
) -> FloatArray:
    """``answer(net(batch))`` for all texts, in their order; texts of similar length run in one batch."""
    weight = next(net.parameters(), None)
    device = torch.device("cpu") if weight is None else weight.device
    batches = BudgetBatches(prepared.sizes, tokens=tokens, seed=0, padded=True).in_order()
    with torch.inference_mode():
        found = [answer(net(prepared.batch(rows).to(device))).cpu().numpy() for rows in batches]
    if not found:
        return np.zeros((0, 0), dtype=np.float32)
    whole = np.empty((len(prepared.sizes), *found[0].shape[1:]), dtype=np.float32)
    for rows, part in zip(batches, found, strict=True):
        whole[rows] = part
    return whole


def texts_of(examples: Examples) -> list[str]:
    """The texts of labelled examples."""
    return [row.text for row in examples]  # type: ignore[union-attr]


def check_classes(data: Examples) -> None:
    """Check that the labels are classes, and at least two."""
    if data.scored:
        raise TrainingError(f"the labels of {data.path} are numbers, but this learns classes (use scored=False)")
    if len(data.labels) < 2:
        raise TrainingError(f"all texts of {data.path} have one label: there is nothing to learn")


def targets_of(examples: Examples, labels: Sequence[str]) -> Ints:
    """For every example, the index of its label in ``labels``; -1 for a label that is not there."""
    place = {label: number for number, label in enumerate(labels)}
    own = np.array([place.get(label, -1) for label in examples.labels], dtype=np.int64)
    return own[np.asarray(examples.targets, dtype=np.int64)]


def output_layer(dim: int, n_classes: int, options: Any, hidden: int = 0) -> nn.Sequential:
    """Dropout and one layer, or two with ``hidden`` units between them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        below = [nn.Dropout(options.dropout), nn.Linear(dim, hidden), nn.ReLU()] if hidden else []
        return nn.Sequential(*below, nn.Dropout(options.dropout), nn.Linear(hidden or dim, n_classes))


def class_weights(targets: Ints, n_classes: int, how: str) -> Tensor | None:
    """Balanced: n / (classes · count), so that all classes have the same total weight; 0 for a class not seen."""
    if how == "none":
        return None
    counts = np.bincount(targets, minlength=n_classes)
    weights = np.divide(len(targets), (counts > 0).sum() * counts, out=np.zeros(n_classes), where=counts > 0)
    return torch.from_numpy(weights.astype(np.float32))


class ClassLoss:
    """The cross-entropy of classes, summed over a batch, with their weights and with label smoothing."""

    def __init__(self, targets: Ints, n_classes: int, options: Any) -> None:
        self.weights = class_weights(targets, n_classes, options.class_weights)
        self.smoothing: float = options.label_smoothing

    def __call__(self, logits: Tensor, targets: Ints) -> Tensor:
        """The loss of the logits ``(B, classes)``."""
        weights = None if self.weights is None else self.weights.to(logits.device)
        wanted = torch.from_numpy(targets).to(logits.device)
        return F.cross_entropy(logits, wanted, weight=weights, reduction="sum", label_smoothing=self.smoothing)


def softmax(logits: FloatArray) -> FloatArray:
    """The softmax along the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True), dtype=np.float32)


def held_out_score(figure: float, facts: dict[str, float], logits: FloatArray, targets: Ints) -> Score:
    """The score of held-out examples (higher is better); among equal figures the lower loss wins."""
    known = targets >= 0
    loss = -float(np.log(softmax(logits)[known, targets[known]] + 1e-12).mean()) if known.any() else 0.0
    return Score(figure - TIE * loss, {**facts, "dev_loss": loss}, higher_is_better=True)


class ExampleTask(BatchTask):
    """Training on examples in batches of one size, each with examples of similar length."""

    unit = "examples"
    pace: float = 1.0  # factor on the usual learning rate of fine-tuned encoders

    def __init__(self, module: nn.Module, sizes: Ints, options: Any) -> None:
        self.module, self.options = module, options
        self.tuning = part_of(options, TuningOptions)
        if isinstance(options, TextOptions):
            sparse = chosen_device(options.device).type != "mps"  # which has no sparse gradients
            begin_learning(module, self.tuning.encoder_dropout, sparse=sparse, lm_weight=self.tuning.lm_weight)
        self.batches = sized_batches(sizes, options.batch_size, options.seed)

    def n_steps(self, epoch: int) -> int:
        return self.batches.n_steps(epoch)

    def groups(self, epoch: int) -> dict[str, ParameterGroup]:
        """Given encoders have their own learning rate; their lower layers learn more slowly or not at all."""
        groups: dict[str, ParameterGroup] = {}
        for name, module in self.module.named_modules():
            if isinstance(module, Given):
                groups.update(self._layer_groups(f"{name}.network." if name else "network.", module))
        return groups

    def _layer_groups(self, start: str, given: Given) -> dict[str, ParameterGroup]:
        """The groups of an encoder whose names begin with ``start``; what is in no layer is below the first one."""
        n, options = len(given.layers), self.tuning
        learning = n + 1 if options.top_layers is None else options.top_layers
        top = self.pace * usual_rate(given.network) if options.encoder_lr is None else options.encoder_lr
        return {
            start + name: ParameterGroup(top * options.layer_rates ** (layer + 1 - n), frozen=layer < n - learning)
            for layer, names in enumerate([("",), *given.layers], start=-1)
            for name in names
        }

    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        rows = self.batches.rows(epoch, index)[part.rank :: part.of]
        if not len(rows):
            return torch.zeros(()), 0
        return self.loss_of(rows), len(rows)

    @abstractmethod
    def loss_of(self, rows: Ints) -> Tensor:
        """The sum of the losses of some examples."""


class Classifier(nn.Module):
    """An encoder's network and the output layer above it."""

    def __init__(self, net: Any, output: nn.Module) -> None:
        super().__init__()
        self.net, self.output = net, output

    def forward(self, batch: Any) -> tuple[Tensor, Encoding]:
        """Logits ``(B, classes)``, and the encoding."""
        encoding = self.net(batch)
        return self.output(encoding.vectors), encoding


class ClassifyTask(ExampleTask):
    """Training of an encoder and its output layer on labelled texts."""

    module: Classifier

    def __init__(
        self,
        encoder: Learner,
        output: nn.Module,
        training: Examples,
        dev: Examples | None,
        progress: Progress = silent,
        score: Callable[[FloatArray], Score] | None = None,
    ) -> None:
        self.texts = encoder.prepare(texts_of(training), progress)
        super().__init__(Classifier(encoder.net, output), self.texts.sizes, encoder.options)
        self.targets = np.asarray(training.targets, dtype=np.int64)
        self.class_loss = ClassLoss(self.targets, len(training.labels), encoder.options)
        self.dev_texts = encoder.prepare(texts_of(dev), progress) if dev is not None else None
        self.dev_targets = targets_of(dev, training.labels) if dev is not None else None
        self.score, self.at_once = score or self.accuracy, encoder.at_once

    def loss_of(self, rows: Ints) -> Tensor:
        logits, encoding = self.module(self.texts.batch(rows).to(self.device))
        total = self.class_loss(logits, self.targets[rows])
        if encoding.penalty is not None:
            total = total + encoding.penalty.sum()
        penalty: Tensor | float = self.module.net.penalty()
        return total + len(rows) * penalty

    def evaluate(self, module: nn.Module) -> Score | None:
        if self.dev_texts is None:
            return None
        return self.score(run_batches(module, self.dev_texts, lambda found: found[0], self.at_once))

    def accuracy(self, logits: FloatArray) -> Score:
        """The fraction of held-out texts whose label has the highest logit."""
        assert self.dev_targets is not None
        right = float((logits.argmax(axis=1) == self.dev_targets).mean())
        return held_out_score(right, {"accuracy": right}, logits, self.dev_targets)
