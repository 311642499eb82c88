"""Features of pairs of texts: of a sentence encoder run on both, frozen or learning, or of a matching network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import FloatArray
from polyseme.contexts.elmo.options import parse_filters
from polyseme.contexts.transformer.encode import BATCH_PIECES, Runner
from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.contexts.transformer.tuning import FirstState, PairReader
from polyseme.errors import FormatError, OptionError
from polyseme.interfaces import Progress, Sentence, SentenceEncoder, silent
from polyseme.learn.inputs import InputBatch, InputModule, Inputs, copied, fill
from polyseme.learn.token_vectors import Ints
from polyseme.sentences.learned import BATCH_TOKENS, Batched, EncoderNet, LearnedEncoder
from polyseme.sentences.matching import (
    Arc1Module,
    Arc2Module,
    BiCnnModule,
    CnnSmModule,
    MpCnnModule,
    PairModule,
    compared,
)
from polyseme.sentences.rae import Rae
from polyseme.sentences.transformer import SentenceTransformer
from polyseme.sentences.tuned import TextNet, TunedTexts
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.tasks.encoders import Standardised, encoded_once, frozen_encoder, new_encoder, tuned_texts
from polyseme.tasks.options import CosineOptions, CrossOptions, MatchingOptions
from polyseme.text.segment import Segmentation
from polyseme.text.spacing import joined

TextPair = tuple[Sentence, Sentence]


def new_matcher(head: str, dim: int, options: MatchingOptions) -> PairModule:
    """The matching network of that name over token vectors of this length."""
    filters = parse_filters(options.filters)
    widths, maps = [width for width, _ in filters], [number for _, number in filters]
    made: dict[str, Any] = {
        "arc1": lambda: Arc1Module(dim, maps[0]),
        "arc2": lambda: Arc2Module(dim, maps[0]),
        "cnn-sm": lambda: CnnSmModule(dim, widths, maps, options.k_top),
        "bi-cnn": lambda: BiCnnModule(dim, widths, maps, options.k_top),
        "mpcnn": lambda: MpCnnModule(dim, maps[0], options.dimension_maps, widths[0]),
    }
    found: PairModule = made[head]()
    return found


class Features(ABC):
    """Two texts → features of the pair; ``net`` learns with the task, where anything below the last layers does."""

    dim: int

    @abstractmethod
    def prepare(self, pairs: Sequence[TextPair], progress: Progress = silent) -> PreparedPairs:
        """Look at pairs once."""

    @abstractmethod
    def net(self) -> nn.Module:
        """The module from a batch of ``PreparedPairs`` to features."""

    @abstractmethod
    def parts(self) -> Parts:
        """What the model's folder keeps."""


class PreparedPairs(ABC):
    """Pairs that an encoder or a frozen one has looked at."""

    sizes: Ints
    at_once: int = BATCH_TOKENS  # tokens of a batch when no gradients are wanted

    @abstractmethod
    def batch(self, rows: Ints, device: torch.device) -> Any:
        """What the net reads of these pairs."""

    def training_batch(self, rows: Ints, device: torch.device) -> Any:
        """What the net reads of them to learn; may be drawn with torch's random numbers."""
        return self.batch(rows, device)


class TextPairs(PreparedPairs):
    """Pairs as token vectors."""

    def __init__(self, texts: Batched, first: Ints, second: Ints) -> None:
        self.texts, self.first, self.second = texts, first, second
        self.sizes = np.maximum(texts.sizes[first], texts.sizes[second])

    def batch(self, rows: Ints, device: torch.device) -> tuple[Any, Any]:
        return self.texts.batch(self.first[rows]).to(device), self.texts.batch(self.second[rows]).to(device)


class VectorPairs(PreparedPairs):
    """Pairs as vectors of a frozen encoder, compared."""

    def __init__(self, first: FloatArray, second: FloatArray, beside: FloatArray | None = None) -> None:
        self.features = compared(torch.from_numpy(first), torch.from_numpy(second))
        if beside is not None:
            self.features = torch.cat([self.features, torch.from_numpy(beside)], dim=1)
        self.sizes = np.ones(len(first), dtype=np.int64)

    def batch(self, rows: Ints, device: torch.device) -> Tensor:
        return self.features[torch.from_numpy(rows)].to(device)


class Learned(Features):
    """A sentence encoder that learns, the same for both texts."""

    def __init__(self, learner: LearnedEncoder | TunedTexts) -> None:
        self.learner, self.dim = learner, 4 * learner.dim
        self._net = Siamese(learner.net)

    def prepare(self, pairs: Sequence[TextPair], progress: Progress = silent) -> PreparedPairs:
        texts, first, second = _distinct(pairs)
        return TextPairs(self.learner.prepare(texts, progress), first, second)

    def net(self) -> nn.Module:
        return self._net

    def parts(self) -> Parts:
        encoder = self.learner.encoder if isinstance(self.learner, TunedTexts) else self.learner
        return Parts({}, {}, {}, {"encoder": encoder})


class Cosine(Learned):
    """The cosine of two texts under a Transformer that learns; the layer over it begins as a plain scale."""

    def __init__(self, learner: TunedTexts) -> None:
        super().__init__(learner)
        self.dim = 1
        self._net = CosineNet(learner.net)

    @torch.no_grad()
    def begin(self, output: nn.Sequential) -> None:
        """Let cosines from 0 to 1 be most of the scale, as they are before anything is learned; none is dropped."""
        dropout, layer = output
        assert isinstance(dropout, nn.Dropout)
        assert isinstance(layer, nn.Linear)
        dropout.p = 0.0
        layer.weight.fill_(5.0)
        layer.bias.fill_(-2.0)


class Frozen(Features):
    """A sentence encoder that stays as it is and runs once."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder, self.dim = encoder, 4 * encoder.dim
        self.matched = encoder if isinstance(encoder, Rae) else None  # which also compares two texts node by node
        self.dim += self.matched.matched_dim if self.matched else 0
        self._net = Standardised(self.dim)

    def prepare(self, pairs: Sequence[TextPair], progress: Progress = silent) -> VectorPairs:
        texts, first, second = _distinct(pairs)
        vectors = encoded_once(self.encoder, texts, progress)
        beside = self.matched.matched(pairs) if self.matched else None
        return VectorPairs(vectors[first], vectors[second], beside)

    def net(self) -> Standardised:
        return self._net

    def parts(self) -> Parts:
        tensors = {f"net.{name}": tensor.numpy() for name, tensor in self._net.state_dict().items()}
        return Parts(tensors, {}, {}, {"encoder": self.encoder})


class Matching(Features):
    """A matching network over token vectors."""

    def __init__(self, inputs: Inputs, matcher: PairModule) -> None:
        self.inputs, self.dim = inputs, matcher.dim
        self._net = Matched(inputs.module, matcher)

    def prepare(self, pairs: Sequence[TextPair], progress: Progress = silent) -> PreparedPairs:
        texts, first, second = _distinct(pairs)
        return TextPairs(self.inputs.prepare(self.inputs.token_lists(texts), progress=progress), first, second)

    def net(self) -> nn.Module:
        return self._net

    def parts(self) -> Parts:
        below = self.inputs.parts()
        own = {f"net.{n}": t.detach().cpu().numpy() for n, t in self._net.matcher.state_dict().items()}
        return Parts({**below.tensors, **own}, below.tables, {}, below.models)


class Cross(Features):
    """A Transformer that reads both texts as one input and learns with the task: the state of the first piece.

    Likeness has no order: a causal Transformer that learns scores reads a pair in both, and the states are added. Any
    Transformer can learn from pairs in a random order, which costs nothing, and give the mean of both.
    """

    def __init__(self, encoder: TransformerEncoder, options: CrossOptions) -> None:
        self.encoder, self.dim = encoder, encoder.dim
        self.orders, self.keeps = options.orders, "start"
        self.runner = Runner(encoder.network, encoder.pieces, limit=options.max_pieces)
        self._net = CrossNet(FirstState(encoder.network, options.lm_weight), mean=self.orders == "random")

    def begin(self, *, scored: bool, keeps: str = "start") -> None:
        """Choose the orders by what is learned, and which end of a first text stays that is too long."""
        self.keeps = keeps
        if self.orders == "auto":
            self.orders = "both" if scored and self.encoder.network.causal else "one"

    def prepare(self, pairs: Sequence[TextPair], progress: Progress = silent) -> PreparedPairs:
        segmentation = self.encoder.segmentation
        raw = [tuple(segmentation.normalised(_raw(text)) for text in pair) for pair in pairs]
        return CrossPairs(PairReader(self.runner, self.keeps), raw, self.orders)

    def net(self) -> nn.Module:
        return self._net

    def parts(self) -> Parts:
        return Parts({}, {}, {}, {"encoder": self.encoder})


def _raw(text: Sentence) -> str:
    return text if isinstance(text, str) else joined(text)


class CrossPairs(PreparedPairs):
    """Pairs cut into pieces once, in one order or in both."""

    at_once = BATCH_PIECES

    def __init__(self, read: PairReader, pairs: Sequence[Any], orders: str) -> None:
        self.read, self.orders, self.random = read, [read.cut(pairs)], orders == "random"
        if orders in ("both", "random"):
            self.orders.append(read.cut([(second, first) for first, second in pairs]))
        self.sizes = np.array([len(ids) for ids, _ in self.orders[0]], dtype=np.int64)

    def batch(self, rows: Ints, device: torch.device) -> list[tuple[Tensor, ...]]:
        return [self._together([cut[row] for row in rows.tolist()], device) for cut in self.orders]

    def training_batch(self, rows: Ints, device: torch.device) -> list[tuple[Tensor, ...]]:
        if not self.random:
            return self.batch(rows, device)
        drawn = torch.randint(2, (len(rows),)).tolist()
        return [self._together([self.orders[n][row] for n, row in zip(drawn, rows.tolist(), strict=True)], device)]

    def _together(self, cut: Sequence[Any], device: torch.device) -> tuple[Tensor, ...]:
        return tuple(tensor.to(device) for tensor in self.read.together(cut))


class CrossNet(nn.Module):
    """A network that learns with the task."""

    def __init__(self, network: FirstState, *, mean: bool) -> None:
        super().__init__()
        self.network, self.mean = network, mean

    def forward(self, batch: list[tuple[Tensor, ...]]) -> tuple[Tensor, Tensor]:
        """The states of all orders added or their mean, ``(B, D)``, and the mean of what is added to the losses."""
        found = [self.network(*order) for order in batch]
        states = torch.stack([states for states, _ in found]).sum(dim=0) / (len(found) if self.mean else 1)
        return states, torch.stack([penalty for _, penalty in found]).mean(dim=0).sum()


class Siamese(nn.Module):
    """[u; v; |u - v|; u∗v] of two texts under one encoder."""

    def __init__(self, net: EncoderNet | TextNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, pair: tuple[Any, Any]) -> tuple[Tensor, Tensor | float]:
        found = [self.net(batch) for batch in pair]
        first, second = (one.vectors for one in found)
        penalty = sum((one.penalty.sum() for one in found if one.penalty is not None), start=torch.zeros(()))
        return self.features(first, second), penalty + len(first) * self.net.penalty()

    def features(self, first: Tensor, second: Tensor) -> Tensor:
        """What is made of both vectors."""
        return compared(first, second)


class CosineNet(Siamese):
    """cos(u, v) of two texts under one encoder, ``(B, 1)``."""

    def features(self, first: Tensor, second: Tensor) -> Tensor:
        return F.cosine_similarity(first, second)[:, None]


class Matched(nn.Module):
    """Inputs and a matching network."""

    def __init__(self, inputs: InputModule, matcher: PairModule) -> None:
        super().__init__()
        self.inputs, self.matcher = inputs, matcher

    def forward(self, pair: tuple[InputBatch, InputBatch]) -> tuple[Tensor, Tensor | float]:
        features = self.matcher(*(self.inputs(batch) for batch in pair))
        return features, len(pair[0].mask) * self.inputs.penalty()


class PairNet(nn.Module):
    """Features of pairs and the layers over them."""

    def __init__(self, features: nn.Module, output: nn.Module) -> None:
        super().__init__()
        self.features, self.output = features, output

    def forward(self, batch: Any) -> tuple[Tensor, Tensor | float]:
        """Outputs ``(B, n)``, and what is added to the losses."""
        features, penalty = self.features_of(batch)
        return self.output(features), penalty

    def features_of(self, batch: Any) -> tuple[Tensor, Tensor | float]:
        """Features ``(B, D)``, and what is added to the losses."""
        if isinstance(self.features, Standardised):
            return self.features(batch), 0.0
        found: tuple[Tensor, Tensor | float] = self.features(batch)
        return found

    def measure(self, pairs: PreparedPairs) -> None:
        """Let the features of a frozen encoder have the mean 0 and the deviation 1 in these pairs."""
        if isinstance(pairs, VectorPairs) and isinstance(self.features, Standardised):
            self.features.measure(pairs.features.numpy())

    def parts(self, below: Features) -> Parts:
        """What the model's folder keeps of the features and the layers over them."""
        own = {f"output.{name}": tensor.detach().cpu().numpy() for name, tensor in self.output.state_dict().items()}
        kept = below.parts()
        return Parts({**kept.tensors, **own}, kept.tables, {}, kept.models)


def _check_filters(head: str, filters: str) -> None:
    """Refuse filters that the head would not have."""
    found = parse_filters(filters)
    if head in ("arc1", "arc2", "mpcnn") and len(found) > 1:
        raise OptionError(f"the head {head} has filters of one kind, such as 3x50, not {filters!r}")
    if head in ("arc1", "arc2") and found[0][0] != 3:
        raise OptionError(f"the filters of {head} are 3 wide: give 3x{found[0][1]}, not {filters!r}")


def _both(pairs: Sequence[TextPair]) -> list[Any]:
    return [first for first, _ in pairs] + [second for _, second in pairs]


def _distinct(pairs: Sequence[TextPair]) -> tuple[list[Any], Ints, Ints]:
    """The different texts of pairs, which are read once each, and the places of the first and second of every pair."""
    places = {text if isinstance(text, str) else tuple(text): text for text in _both(pairs)}
    number = {key: n for n, key in enumerate(places)}
    of_text = np.array([number[text if isinstance(text, str) else tuple(text)] for text in _both(pairs)], np.int64)
    return list(places.values()), of_text[: len(pairs)], of_text[len(pairs) :]


def new_features(head: str, pairs: Sequence[TextPair], encoders: Sequence[Any], about: About, options: Any) -> Features:
    """What the head makes of pairs, nothing learned yet."""
    if isinstance(options, CrossOptions):
        given = [one.encoder if isinstance(one, SentenceTransformer) else one for one in encoders]
        if len(given) != 1 or not isinstance(given[0], TransformerEncoder):
            raise OptionError("the head cross fine-tunes a Transformer that reads both texts at once: give one encoder")
        return Cross(copied(given[0]), options)
    if isinstance(options, CosineOptions):
        tuned = tuned_texts(encoders, about, options)
        if tuned is None:
            raise OptionError("the head cosine fine-tunes a Transformer that gives a vector per text: give one encoder")
        return Cosine(tuned)
    if isinstance(options, MatchingOptions):
        _check_filters(head, options.filters)
        segmentation = about.segmentation or Segmentation()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(options.seed)
            inputs = Inputs.of(segmentation.token_lists(_both(pairs)), encoders, segmentation, options)
            if inputs.module.beside:
                raise OptionError(f"{head} has no hidden states to add an encoder to: use elmo_at=input")
            return Matching(inputs, new_matcher(head, inputs.module.dim, options))
    frozen = frozen_encoder(encoders, options)
    if frozen is not None:
        return Frozen(frozen)
    return Learned(tuned_texts(encoders, about, options) or new_encoder(head, _both(pairs), encoders, about, options))


def features_from(head: str, parts: Parts, about: About, options: Any) -> Features:
    """The features that ``parts`` kept."""
    if isinstance(options, MatchingOptions):
        inputs = Inputs.from_parts(options, parts, about.segmentation or Segmentation())
        matcher = new_matcher(head, inputs.module.dim, options)
        fill(matcher, parts, "net.")
        return Matching(inputs, matcher)
    encoder = parts.models.get("encoder")
    if isinstance(options, CrossOptions):
        if not isinstance(encoder, TransformerEncoder):
            raise FormatError("the model folder was altered: it has no Transformer in encoder/")
        return Cross(encoder, options)
    if not any(name.startswith("net.") for name in parts.tensors):  # a frozen one has a net of its own next to it
        if isinstance(encoder, SentenceTransformer):
            return (Cosine if isinstance(options, CosineOptions) else Learned)(TunedTexts(encoder, options))
        if isinstance(encoder, LearnedEncoder):
            return Learned(encoder)
    if not isinstance(encoder, SentenceEncoder):
        raise FormatError("the model folder was altered: it has no sentence encoder in encoder/")
    frozen = Frozen(encoder)
    fill(frozen.net(), parts, "net.")
    return frozen
