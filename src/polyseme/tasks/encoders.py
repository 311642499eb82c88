"""The encoders of tasks: one to be learned, or a frozen one whose vectors of texts are computed once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.arrays import FloatArray
from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.errors import OptionError
from polyseme.interfaces import ContextEncoder, Layers, Progress, Sentence, SentenceEncoder
from polyseme.options import make_options
from polyseme.sentences.encoders import BiLstmMax, Dan, Dcnn, Han, Rnn, SelfAttention, TextCnn
from polyseme.sentences.learned import LearnedEncoder
from polyseme.sentences.lift import lift
from polyseme.sentences.transformer import SentenceTransformer
from polyseme.sentences.tuned import TunedTexts, encoder_to_tune
from polyseme.store.model import About
from polyseme.tasks.options import LinearOptions

ENCODERS: dict[str, type[LearnedEncoder]] = {
    encoder.method: encoder for encoder in (TextCnn, Dan, Dcnn, Rnn, BiLstmMax, SelfAttention, Han)
}


def new_encoder(
    head: str, texts: Sequence[Sentence], encoders: Sequence[Any], about: About, options: Any
) -> LearnedEncoder:
    """A sentence encoder to be learned; linear and mlp are over the plain mean of the tokens' vectors."""
    if isinstance(options, LinearOptions) and options.pool != "mean":
        raise OptionError(
            f"pool={options.pool} is for the vectors of one frozen encoder: give it alone, with one of its layers"
        )
    cls = Dan if isinstance(options, LinearOptions) else ENCODERS[head]
    known = {field.name for field in dataclasses.fields(cls.Options)}
    shared = {f.name: getattr(options, f.name) for f in dataclasses.fields(options) if f.name in known}
    mean = {"n_layers": 0, "hidden": 1, "word_dropout": 0.0} if isinstance(options, LinearOptions) else {}
    return cls.of(texts, encoders, about, make_options(cls.Options, {**shared, **mean}))


def frozen_encoder(encoders: Sequence[Any], options: Any) -> SentenceEncoder | None:
    """The one encoder whose vectors of texts are computed once; None if token vectors are needed in training."""
    if not isinstance(options, LinearOptions) or len(encoders) != 1 or options.encoder_mode not in ("auto", "frozen"):
        return None
    encoder = encoders[0]
    if options.dim or options.bigrams or options.letters:  # vectors of words are learned beside it
        return None
    if isinstance(encoder, ContextEncoder) and encoder.n_layers > 1 and options.layers == "mix":
        return None
    if isinstance(encoder, ContextEncoder):
        Layers.read(options.layers, encoder.n_layers)
        return lift(encoder, "sentences", pool=options.pool, layers=options.layers)
    return lift(encoder, "sentences", pool=options.pool)


def tuned_texts(encoders: Sequence[Any], about: About, options: Any) -> TunedTexts | None:
    """The one Transformer whose vectors of texts learn with the task; None if words have vectors of their own."""
    if not isinstance(options, LinearOptions) or len(encoders) != 1 or options.encoder_mode != "finetune":
        return None
    plain = not (options.dim or options.bigrams or options.letters) and options.layers == "top"
    if not plain or not isinstance(encoders[0], (SentenceTransformer, TransformerEncoder)):
        return None
    return TunedTexts(encoder_to_tune(encoders[0], options.max_pieces, about), options, options.lm_weight)


def encoded_once(encoder: SentenceEncoder, texts: list[str], progress: Progress) -> FloatArray:
    """Vectors of texts by a frozen encoder, ``(n, dim)``."""
    found = np.empty((len(texts), encoder.dim), dtype=np.float32)
    for number, vector in enumerate(encoder.stream(texts)):
        found[number] = vector
        progress("encoding", number + 1, len(texts))
    return found


class Standardised(nn.Module):
    """Vectors of a frozen encoder, each number less its mean and over its deviation in the training texts."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("deviation", torch.ones(dim))
        self.mean: Tensor
        self.deviation: Tensor

    def measure(self, vectors: FloatArray) -> None:
        """Take mean and deviation from these vectors; a constant number stays what it is."""
        spread = vectors.std(axis=0)
        self.mean.copy_(torch.from_numpy(vectors.mean(axis=0)))
        self.deviation.copy_(torch.from_numpy(np.where(spread > 1e-6, spread, 1).astype(np.float32)))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.deviation
