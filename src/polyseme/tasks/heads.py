"""From the name of a head to what reads for it 任务头: a reader of texts or of pairs over the given encoders.

- no encoder, or token vectors are needed: a sentence encoder that learns (TextCNN, DAN …) over ``learn/inputs.py``
- one frozen encoder under linear or mlp: its vectors of texts, computed once
- one Transformer that is fine-tuned under linear, mlp, cosine or cross: whole texts or pairs in its own tokens
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from polyseme.contexts.elmo.options import parse_filters
from polyseme.contexts.fine_tuning import transformer_of
from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.errors import FormatError, OptionError
from polyseme.interfaces import ContextEncoder, Layers, Sentence, SentenceEncoder
from polyseme.learn.inputs import Inputs
from polyseme.learn.modules import PairModule, copied, fill
from polyseme.learn.pieces import Cross
from polyseme.learn.readers import (
    FrozenPairs,
    FrozenTexts,
    Learner,
    Matching,
    Reader,
    Siamese,
    TextPair,
    cosine,
)
from polyseme.options import make_options
from polyseme.sentences.encoders import BiLstmMax, Dan, Dcnn, Han, Rnn, SelfAttention, TextCnn
from polyseme.sentences.learned import LearnedEncoder
from polyseme.sentences.lift import lift
from polyseme.sentences.matching import Arc1Module, Arc2Module, BiCnnModule, CnnSmModule, MpCnnModule
from polyseme.sentences.transformer import SentenceTransformer, TunedTexts, to_tune
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.tasks.options import CosineOptions, CrossOptions, LinearOptions, MatchingOptions
from polyseme.text.segment import Segmentation

ENCODERS: dict[str, type[LearnedEncoder]] = {
    encoder.method: encoder for encoder in (TextCnn, Dan, Dcnn, Rnn, BiLstmMax, SelfAttention, Han)
}


# ---- texts


def text_reader(head: str, texts: Sequence[Sentence], encoders: Sequence[Any], about: About, settings: Any) -> Reader:
    """What reads texts for a head."""
    frozen = frozen_encoder(encoders, settings)
    return FrozenTexts(frozen) if frozen is not None else learner(head, texts, encoders, about, settings)


def learner(head: str, texts: Sequence[Sentence], encoders: Sequence[Any], about: About, settings: Any) -> Learner:
    """A Transformer that is fine-tuned on whole texts, or a new encoder over token vectors."""
    if tunes_texts(encoders, settings):
        return tuned(to_tune(encoders[0], settings, about), settings)
    return Learner(new_encoder(head, texts, encoders, about, settings))


def tuned(encoder: SentenceTransformer, settings: Any) -> Learner:
    """The reader of a sentence encoder that is fine-tuned."""
    return Learner(TunedTexts(encoder, settings.lm_weight), encoder)


def restored_texts(encoder: SentenceEncoder, settings: Any, *, frozen: bool) -> Reader:
    """The reader whose encoder a folder kept."""
    if isinstance(encoder, SentenceTransformer) and not frozen:
        return tuned(encoder, settings)
    return Learner(encoder) if isinstance(encoder, LearnedEncoder) and not frozen else FrozenTexts(encoder)


def new_encoder(
    head: str, texts: Sequence[Sentence], encoders: Sequence[Any], about: About, settings: Any
) -> LearnedEncoder:
    """A sentence encoder to be learned; linear and mlp are over the plain mean of the tokens' vectors."""
    if isinstance(settings, LinearOptions) and settings.pool != "mean":
        raise OptionError(
            f"pool={settings.pool} is for the vectors of one frozen encoder: give it alone, with one of its layers"
        )
    cls = Dan if isinstance(settings, LinearOptions) else ENCODERS[head]
    known = {field.name for field in dataclasses.fields(cls.Options)}
    shared = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings) if f.name in known}
    mean = {"n_layers": 0, "hidden": 1, "word_dropout": 0.0} if isinstance(settings, LinearOptions) else {}
    return cls.of(texts, encoders, about, make_options(cls.Options, {**shared, **mean}))


def frozen_encoder(encoders: Sequence[Any], settings: Any) -> SentenceEncoder | None:
    """The one encoder whose vectors of texts are computed once; None if token vectors are needed in training."""
    if not isinstance(settings, LinearOptions) or len(encoders) != 1:
        return None
    if settings.encoder_mode not in ("auto", "frozen"):
        return None
    encoder = encoders[0]
    if settings.dim or settings.bigrams or settings.letters:  # vectors of words are learned beside it
        return None
    if isinstance(encoder, ContextEncoder) and encoder.n_layers > 1 and settings.layers == "mix":
        return None
    if isinstance(encoder, ContextEncoder):
        Layers.read(settings.layers, encoder.n_layers)
        return lift(encoder, "sentences", pool=settings.pool, layers=settings.layers)
    return lift(encoder, "sentences", pool=settings.pool)


def tunes_texts(encoders: Sequence[Any], settings: Any) -> bool:
    """Whether one Transformer's vectors of texts learn with the task; not if words have vectors of their own."""
    if not isinstance(settings, LinearOptions) or len(encoders) != 1 or settings.encoder_mode != "finetune":
        return False
    plain = not (settings.dim or settings.bigrams or settings.letters) and settings.layers == "top"
    return plain and transformer_of(encoders[0]) is not None


# ---- pairs


def pair_reader(
    head: str, pairs: Sequence[TextPair], encoders: Sequence[Any], about: About, settings: Any, **cross: Any
) -> Reader:
    """What reads pairs for a head; ``cross`` are further arguments of ``Cross``."""
    if isinstance(settings, CrossOptions):
        return Cross(one_transformer(encoders, "cross", "both texts"), settings, **cross)
    if isinstance(settings, CosineOptions):
        if not tunes_texts(encoders, settings):
            raise OptionError("the head cosine fine-tunes a Transformer that gives a vector per text: give one encoder")
        return Siamese(tuned(to_tune(encoders[0], settings, about), settings), cosine)
    texts = [first for first, _ in pairs] + [second for _, second in pairs]
    if isinstance(settings, MatchingOptions):
        return _matching(head, texts, encoders, about, settings)
    frozen = frozen_encoder(encoders, settings)
    return FrozenPairs(frozen) if frozen is not None else Siamese(learner(head, texts, encoders, about, settings))


def restored_pairs(head: str, parts: Parts, about: About, settings: Any, **cross: Any) -> Reader:
    """The reader that ``parts`` kept."""
    if isinstance(settings, MatchingOptions):
        inputs = Inputs.from_parts(settings, parts, about.segmentation or Segmentation())
        matcher = new_matcher(head, inputs.module.dim, settings)
        fill(matcher, parts, "net.")
        return Matching(inputs, matcher)
    encoder = parts.models.get("encoder")
    if isinstance(settings, CrossOptions):
        if not isinstance(encoder, TransformerEncoder):
            raise FormatError("the model folder was altered: it has no Transformer in encoder/")
        return Cross(encoder, settings, **cross)
    if not any(name.startswith("net.") for name in parts.tensors):  # a frozen one has a net of its own next to it
        if isinstance(encoder, SentenceTransformer) and isinstance(settings, CosineOptions):
            return Siamese(tuned(encoder, settings), cosine)
        if isinstance(encoder, (SentenceTransformer, LearnedEncoder)):
            return Siamese(tuned(encoder, settings) if isinstance(encoder, SentenceTransformer) else Learner(encoder))
    if not isinstance(encoder, SentenceEncoder):
        raise FormatError("the model folder was altered: it has no sentence encoder in encoder/")
    reader = FrozenPairs(encoder)
    fill(reader.standardised, parts, "net.")
    return reader


def one_transformer(encoders: Sequence[Any], head: str, inputs: str) -> TransformerEncoder:
    """A copy of the one Transformer that is given to a head which reads its inputs at once."""
    given = [transformer_of(encoder) for encoder in encoders]
    if len(given) != 1 or given[0] is None:
        raise OptionError(f"the head {head} fine-tunes a Transformer that reads {inputs} at once: give one encoder")
    transformer: TransformerEncoder = copied(given[0])
    return transformer


# ---- matching networks


def _matching(head: str, texts: Sequence[Any], encoders: Sequence[Any], about: About, settings: Any) -> Matching:
    _check_filters(head, settings.filters)
    segmentation = about.segmentation or Segmentation()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        inputs = Inputs.of(segmentation.token_lists(texts), encoders, segmentation, settings)
        if inputs.module.beside:
            raise OptionError(f"{head} has no hidden states to add an encoder to: use elmo_at=input")
        return Matching(inputs, new_matcher(head, inputs.module.dim, settings))


def new_matcher(head: str, dim: int, settings: MatchingOptions) -> PairModule:
    """The matching network of that name over token vectors of this length."""
    filters = parse_filters(settings.filters)
    widths, maps = [width for width, _ in filters], [number for _, number in filters]
    if head == "arc1":
        return Arc1Module(dim, maps[0])
    if head == "arc2":
        return Arc2Module(dim, maps[0])
    if head == "cnn-sm":
        return CnnSmModule(dim, widths, maps, settings.k_top)
    if head == "bi-cnn":
        return BiCnnModule(dim, widths, maps, settings.k_top)
    return MpCnnModule(dim, maps[0], settings.dimension_maps, widths[0])


def _check_filters(head: str, filters: str) -> None:
    """Refuse filters that the head would not have."""
    parsed = parse_filters(filters)
    if head in ("arc1", "arc2", "mpcnn") and len(parsed) > 1:
        raise OptionError(f"the head {head} has filters of one kind, such as 3x50, not {filters!r}")
    if head in ("arc1", "arc2") and parsed[0][0] != 3:
        raise OptionError(f"the filters of {head} are 3 wide: give 3x{parsed[0][1]}, not {filters!r}")
