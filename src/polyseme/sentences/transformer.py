"""A Transformer as a sentence encoder (Transformer 句编码器), as sentence-transformers composes it.

Reimers & Gurevych, "Sentence-BERT", 2019. The network encodes the subwords of a text, the states of the top layer are
pooled, then any number of dense layers and normalisations follow:

    v = normalise(f(W · mean_t h_t + b))

What differs from sentence-transformers: a text longer than the network's limit is read whole, in overlapping windows,
where theirs is truncated; ``long_texts="cut"`` truncates it too.

It is fine-tuned with a task on whole batches, with its own pooling and steps, but without a normalisation at their end:
a layer above vectors of length one would learn slowly. A causal language model reads ``<start> text <end>``, and its
vector is its last state; the vector of BERT and its kin is the first state through their pooler, as in Devlin et al.,
"BERT" (2018). If a text has more than ``max_pieces`` tokens, its middle is omitted (Sun et al., "How to
Fine-Tune BERT for Text Classification?", 2019, found both ends more informative than the beginning alone).
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.arrays import FloatArray
from polyseme.contexts.transformer.encode import BATCH_PIECES, Runner
from polyseme.contexts.transformer.inference_speed import packed
from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.contexts.transformer.network import Network
from polyseme.contexts.transformer.tokenizer import Ints
from polyseme.errors import OptionError, altered_model
from polyseme.interfaces import Layers, Progress, Sentence, SentenceEncoder, silent, tokens_given
from polyseme.learn.modules import Encoding, copied
from polyseme.learn.pieces import PieceBatch, PieceNet
from polyseme.learn.prepared import PreparedInputs
from polyseme.neural.weights import arrays_of
from polyseme.options import option
from polyseme.sentences.vector_layers import Normalise, Step, describe, steps_of
from polyseme.store.folder import Parts
from polyseme.store.model import About, Model
from polyseme.text.spacing import joined

if TYPE_CHECKING:
    from typing_extensions import Self

POOLER = "pooler"
# Each (T, D) → (D,): all positions count, including special tokens.
POOLINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "cls": lambda states: states[0],
    "max": lambda states: states.amax(dim=0),
    "mean": lambda states: states.mean(dim=0),
    "mean_sqrt_len_tokens": lambda states: states.sum(dim=0) / len(states) ** 0.5,
    "weightedmean": lambda states: (_ramp(states) * states).sum(dim=0) / _ramp(states).sum(),
    "lasttoken": lambda states: states[-1],
}


def _ramp(states: Tensor) -> Tensor:
    return torch.arange(1, len(states) + 1, dtype=states.dtype, device=states.device)[:, None]


@dataclass(frozen=True)
class SentenceTransformerOptions:
    """Options of sentence Transformers."""

    max_pieces: int = option(
        0, "maximum tokens read at once, including special tokens; 0: as many as the network can", minimum=0
    )
    long_texts: str = option(
        "windows",
        "longer texts: read in overlapping windows, truncate, or drop their middle",
        choices=("windows", "cut", "ends"),
    )
    lower: bool = option(False, "lower-case texts before tokenizing")
    prompt: str = option("", "prompt added before every text")
    marks: bool = option(
        False,
        "add start and end tokens of a causal model around every text if the tokenizer does not; not in windows",
    )


class Pooling(nn.Module):
    """Pools the states of all positions into one vector; several modes are concatenated.

    The mode ``pooler`` is the first state through the pooler of the ``network``, as BERT classifies.
    """

    def __init__(self, modes: Sequence[str], dim: int, network: Network | None = None) -> None:
        super().__init__()
        self.modes, self.dim, self.out = tuple(modes), dim, dim * len(modes)
        self._network = (network,)  # which is no part of this module

    def forward(self, states: Tensor) -> Tensor:
        """``(T, D) -> (D · modes,)``"""
        return torch.cat([self._pooled(states) if mode == POOLER else POOLINGS[mode](states) for mode in self.modes])

    def _pooled(self, states: Tensor) -> Tensor:
        (network,) = self._network
        assert network is not None
        return network.pooled(states[0])


class SentenceTransformer(Model, SentenceEncoder):
    """A Transformer, a pooling, and the steps after it."""

    method: ClassVar[str] = "sentence-transformer"
    Options: ClassVar[type] = SentenceTransformerOptions
    options: SentenceTransformerOptions

    def __init__(
        self,
        encoder: TransformerEncoder,
        modes: Sequence[str] = ("mean",),
        steps: Iterable[Step] = (),
        *,
        options: SentenceTransformerOptions | None = None,
        about: About | None = None,
    ) -> None:
        self.encoder, self.pooling = encoder, Pooling(modes, encoder.dim, encoder.network)
        self.steps: list[Step] = [step.eval() for step in steps]
        self.options = options or SentenceTransformerOptions()
        self.about = about or About.of(encoder)
        self.dim = self.steps[-1].out if self.steps else self.pooling.out

    @property
    def transformer(self) -> TransformerEncoder:
        """The Transformer that reads."""
        return self.encoder

    def tokenize(self, text: str) -> list[str]:
        """Tokenize like the encoder."""
        return self.encoder.tokenize(text)

    @cached_property
    def runner(self) -> Runner:
        """Runs the network on subwords."""
        return Runner(packed(self.encoder.reading), self.encoder.pieces, limit=self.options.max_pieces or None)

    def at_precision(self, precision: str) -> Self:
        """The same model, running in ``int8`` or ``fp32``."""
        model = copy.copy(self)
        model.__dict__.pop("runner", None)
        model.encoder = self.encoder.at_precision(precision)
        return model

    @torch.inference_mode()
    def encode_batch(self, texts: list[Sentence]) -> FloatArray:
        """Vectors of the texts, ``(n, dim)``."""
        sequences = self.sequences(texts)
        pooled = torch.zeros(len(texts), self.pooling.out)
        for number, states in self.runner.run(sequences, Layers.read("top", self.encoder.n_layers)):
            if states.shape[1]:  # a text without any token, not even special ones, has the zero vector
                pooled[number] = self.pooling(states[0])
        for step in self.steps:
            pooled = step(pooled)
        return np.asarray(pooled.numpy(), dtype=np.float32)

    def sequences(self, texts: Sequence[Sentence]) -> list[Ints]:
        """The subword ids of each text, shortened as ``long_texts`` says."""
        pieces = self.encoder.pieces.lowered if self.options.lower else self.encoder.pieces
        whole, room = pieces.ids([self._text(text) for text in texts]), self.runner.room
        if self.options.long_texts == "windows":
            return whole
        before, behind = self._marks()
        room = max(room - len(before) - len(behind), 1)
        first = room if self.options.long_texts == "cut" else room - room // 2
        last = room - first
        short = [ids if len(ids) <= room else np.concatenate([ids[:first], ids[len(ids) - last :]]) for ids in whole]
        return [np.concatenate([before, ids, behind]) for ids in short]

    def _marks(self) -> tuple[Ints, Ints]:
        """Start and end tokens to add around a text, if the tokenizer does not add them."""
        pieces = self.encoder.pieces
        unmarked = self.options.marks and not (pieces.before or pieces.behind)
        start, _, end = pieces.marks or (None, None, None) if unmarked else (None, None, None)
        none: Ints = np.zeros(0, dtype=np.int64)
        return (none, none) if start is None else (np.array([start]), np.array([end]))

    def _text(self, sentence: Sentence) -> str:
        text = sentence if isinstance(sentence, str) else joined(tokens_given(sentence))
        return self.options.prompt + self.encoder.segmentation.normalised(text)

    # ---- on disk

    def parts(self) -> Parts:
        """The encoder as a separate model, and the steps."""
        described = [describe(step) for step in self.steps]
        steps = json.dumps({"pooling": list(self.pooling.modes), "steps": described}, indent=1).encode()
        return Parts(
            arrays_of(nn.ModuleList(self.steps)), files={"steps.json": steps}, models={"encoder": self.encoder}
        )

    @classmethod
    def from_parts(cls, options: SentenceTransformerOptions, parts: Parts, about: About) -> Self:
        """The model from its ``parts``."""
        encoder = parts.model("encoder", TransformerEncoder)
        try:
            record = json.loads(parts.file("steps.json"))
            modes, described = record["pooling"], record["steps"]
            known = POOLINGS if encoder.network.pooler is None else {*POOLINGS, POOLER}
            if not modes or not all(mode in known for mode in modes):
                raise KeyError(modes)
            tensors = {name: torch.from_numpy(np.array(array)) for name, array in parts.tensors.items()}
            steps = steps_of(described, encoder.dim * len(modes), tensors)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise altered_model(f"its steps are invalid ({error})") from None
        return cls(encoder, modes, steps, options=options, about=about)


# ---- fine-tuning


def to_tune(
    given: SentenceTransformer | TransformerEncoder, options: Any, about: About, *, compared: bool = False
) -> SentenceTransformer:
    """A copy of a Transformer as an encoder with one vector per text; training it does not change the given one.

    ``compared``: the vectors of two texts will be compared, which poolers were not learned for.
    """
    model: Any = copied(given)
    steps: list[Step] = []
    reading = SentenceTransformerOptions()
    if isinstance(model, SentenceTransformer):
        encoder, modes, steps, reading = model.encoder, model.pooling.modes, list(model.steps), model.options
        while steps and isinstance(steps[-1], Normalise):
            steps.pop()
    else:
        encoder, modes = model, (usual_mode(model.network, compared=compared),)
    if options.pool != "auto":
        modes = (mode_of(options.pool, encoder.network),)
        if steps and encoder.dim != model.pooling.out:
            raise OptionError(
                f"pool={options.pool} does not fit the layers after this model's own pooling: leave it out"
            )
    most = min(options.max_pieces, reading.max_pieces or options.max_pieces)
    reading = dataclasses.replace(reading, max_pieces=most, long_texts="ends", marks=encoder.network.causal)
    return SentenceTransformer(encoder, modes, steps, options=reading, about=about)


def usual_mode(network: Network, *, compared: bool = False) -> str:
    """How a Transformer that learns is pooled: as it was pre-trained to classify, else the mean."""
    if network.causal:
        return "lasttoken"
    return "mean" if compared or network.pooler is None else POOLER


def mode_of(pool: str, network: Network) -> str:
    """The mode of a pooling that was asked for: mean, max, first or last."""
    modes = {"mean": "mean", "max": "max", "first": "cls" if network.pooler is None else POOLER, "last": "lasttoken"}
    if pool not in modes:
        raise OptionError(f"pool={pool} is for a frozen encoder: one that learns takes {', '.join(modes)}")
    return modes[pool]


class PieceTexts(PreparedInputs):
    """Texts as token ids."""

    budget = BATCH_PIECES

    def __init__(self, encoder: SentenceTransformer, texts: Sequence[Sentence]) -> None:
        self.runner, self.sequences = encoder.runner, encoder.sequences(texts)
        around = len(self.runner.pieces.before) + len(self.runner.pieces.behind)
        self.sizes: Ints = np.array([len(ids) + around for ids in self.sequences], dtype=np.int64)

    def batch(self, rows: Ints, *, learning: bool = False) -> PieceBatch:
        tokens = self.runner.together([self.sequences[row] for row in rows])
        return PieceBatch(tokens.ids, torch.ones_like(tokens.ids) if tokens.mask is None else tokens.mask)


class TextNet(PieceNet):
    """The network, the pooling and the steps of an encoder."""

    def __init__(self, encoder: SentenceTransformer, lm_weight: float) -> None:
        super().__init__(encoder.encoder.network, lm_weight=lm_weight)
        self.pooling, self.steps = encoder.pooling, nn.Sequential(*encoder.steps)

    def forward(self, texts: PieceBatch) -> Encoding:
        states = self.states(texts)
        nothing = states.top.new_zeros(self.pooling.out)
        rows = zip(states.top, states.lengths.tolist(), strict=True)
        pooled = torch.stack([self.pooling(row[:length]) if length else nothing for row, length in rows])
        return Encoding(self.steps(pooled), penalty=states.added)


class TunedTexts:
    """A sentence encoder that learns with a task."""

    def __init__(self, encoder: SentenceTransformer, lm_weight: float = 0.0) -> None:
        self.encoder, self.dim, self.net = encoder, encoder.dim, TextNet(encoder, lm_weight)

    def prepare(self, texts: Sequence[Sentence], progress: Progress = silent) -> PieceTexts:
        """Texts as token ids, ready for batches."""
        return PieceTexts(self.encoder, texts)
