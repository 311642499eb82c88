"""Turn word vectors into a context encoder, and a context encoder into a sentence encoder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, overload

from polyseme.contexts.static import StaticEncoder
from polyseme.errors import OptionError
from polyseme.interfaces import ContextEncoder, LayerChoice, Sentence, SentenceEncoder, WordVectorsInterface
from polyseme.sentences.options import ATTENDING
from polyseme.sentences.pooled import FITTED, Pooled
from polyseme.text.corpus import Corpus


@overload
def lift(model: Any, to: Literal["contexts"]) -> ContextEncoder: ...


@overload
def lift(
    model: Any,
    to: Literal["sentences"],
    *,
    pool: str = "mean",
    layers: LayerChoice = "mean",
    data: Corpus | Iterable[Sentence] | None = None,
    **options: Any,
) -> SentenceEncoder: ...


def lift(
    model: Any,
    to: str,
    *,
    pool: str = "mean",
    layers: LayerChoice = "mean",
    data: Corpus | Iterable[Sentence] | None = None,
    **options: Any,
) -> ContextEncoder | SentenceEncoder:
    """The model as a context encoder (``contexts``) or a sentence encoder (``sentences``); unchanged if it is one.

    Word vectors become an encoder that gives a word the same vector everywhere. ``pool`` combines the token vectors of
    one of the ``layers`` (``top``, ``mean``, ``mix`` or a number) into one vector per text. A pool that needs word
    frequencies (tfidf, sif, usif) is fitted on ``data``, a corpus or texts; for word vectors ``data`` is optional,
    since their vocabulary has counts. ``options`` are those of ``PooledOptions``, and ``reader``, a language model, for
    ``surprisal``.
    """
    if to not in ("contexts", "sentences"):
        raise OptionError(f"a model is lifted to contexts or sentences, not {to!r}")
    if isinstance(model, SentenceEncoder):
        if to == "contexts":
            raise OptionError(f"method {_name(model)} gives one vector per text, but this needs one per word")
        return model
    encoder = StaticEncoder(model) if isinstance(model, WordVectorsInterface) else model
    if not isinstance(encoder, ContextEncoder):
        raise OptionError(f"method {_name(model)} gives no vectors for text")
    if to == "contexts":
        return encoder
    if pool in FITTED or (pool in ATTENDING and options.get("reader") is None):
        return Pooled.fitted(encoder, pool, data, layers=layers, **options)
    return Pooled(encoder, pool, layers=layers, **options)


def _name(model: Any) -> str:
    return str(getattr(model, "method", type(model).__name__))
