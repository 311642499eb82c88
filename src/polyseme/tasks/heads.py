"""From the name of a head to what reads texts for it 任务头, over the given encoders.

- no encoder, or token vectors are needed: a sentence encoder that learns (TextCNN, DAN …) over ``learn/inputs.py``
- one frozen encoder under linear or mlp: its vectors of texts, computed once
- one Transformer that is fine-tuned under linear, mlp or cosine: whole texts in its own tokens
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from polyseme.contexts.fine_tuning import transformer_of
from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.errors import OptionError
from polyseme.interfaces import ContextEncoder, Layers, Sentence, SentenceEncoder
from polyseme.learn.frozen import FrozenTexts
from polyseme.learn.modules import copied
from polyseme.learn.prepared import LearningTexts, Reader
from polyseme.options import make_options
from polyseme.sentences.encoders import BiLstmMax, Dan, Dcnn, Han, Rnn, SelfAttention, TextCnn
from polyseme.sentences.learned import LearnedEncoder
from polyseme.sentences.lift import lift
from polyseme.sentences.transformer import SentenceTransformer, TunedTexts, to_tune
from polyseme.store.model import About
from polyseme.tasks.options import LinearOptions

ENCODERS: dict[str, type[LearnedEncoder]] = {
    encoder.method: encoder for encoder in (TextCnn, Dan, Dcnn, Rnn, BiLstmMax, SelfAttention, Han)
}


# ---- texts


def text_reader(head: str, texts: Sequence[Sentence], encoders: Sequence[Any], about: About, settings: Any) -> Reader:
    """What reads texts for a head."""
    frozen = frozen_encoder(encoders, settings)
    return FrozenTexts(frozen) if frozen is not None else learning_texts(head, texts, encoders, about, settings)


def learning_texts(
    head: str,
    texts: Sequence[Sentence],
    encoders: Sequence[Any],
    about: About,
    settings: Any,
    *,
    compared: bool = False,
) -> LearningTexts:
    """A Transformer that is fine-tuned on whole texts, or a new encoder over token vectors."""
    if tunes_texts(encoders, settings):
        return tuned(to_tune(encoders[0], settings, about, compared=compared), settings)
    return LearningTexts(new_encoder(head, texts, encoders, about, settings))


def tuned(encoder: SentenceTransformer, settings: Any) -> LearningTexts:
    """The reader of a sentence encoder that is fine-tuned."""
    return LearningTexts(TunedTexts(encoder, settings.lm_weight), encoder)


def restored_texts(encoder: SentenceEncoder, settings: Any, *, frozen: bool) -> Reader:
    """The reader whose encoder a folder kept."""
    if isinstance(encoder, SentenceTransformer) and not frozen:
        return tuned(encoder, settings)
    return LearningTexts(encoder) if isinstance(encoder, LearnedEncoder) and not frozen else FrozenTexts(encoder)


def new_encoder(
    head: str, texts: Sequence[Sentence], encoders: Sequence[Any], about: About, settings: Any
) -> LearnedEncoder:
    """A sentence encoder to be learned; linear and mlp are over the plain mean of the tokens' vectors."""
    if isinstance(settings, LinearOptions) and settings.pool not in ("auto", "mean"):
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
    pool = "mean" if settings.pool == "auto" else settings.pool
    if isinstance(encoder, ContextEncoder):
        Layers.read(settings.layers, encoder.n_layers)
        return lift(encoder, "sentences", pool=pool, layers=settings.layers)
    return lift(encoder, "sentences", pool=pool)


def tunes_texts(encoders: Sequence[Any], settings: Any) -> bool:
    """Whether one Transformer's vectors of texts learn with the task; not if words have vectors of their own."""
    if not isinstance(settings, LinearOptions) or len(encoders) != 1 or settings.encoder_mode != "finetune":
        return False
    plain = not (settings.dim or settings.bigrams or settings.letters) and settings.layers == "top"
    return plain and transformer_of(encoders[0]) is not None


def one_transformer(encoders: Sequence[Any], head: str, inputs: str) -> TransformerEncoder:
    """A copy of the one Transformer that is given to a head which reads its inputs at once."""
    given = [transformer_of(encoder) for encoder in encoders]
    if len(given) != 1 or given[0] is None:
        raise OptionError(f"the head {head} fine-tunes a Transformer that reads {inputs} at once: give one encoder")
    transformer: TransformerEncoder = copied(given[0])
    return transformer
