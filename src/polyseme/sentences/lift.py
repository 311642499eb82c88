"""From each noun to the next: word vectors → a context encoder → a sentence encoder."""

from __future__ import annotations

from typing import Any, Literal, overload

from polyseme.contexts.static import StaticEncoder
from polyseme.errors import OptionError
from polyseme.nouns import ContextEncoder, LayerChoice, SentenceEncoder, WordVectors
from polyseme.sentences.pooled import Pooled


@overload
def lift(model: Any, to: Literal["contexts"]) -> ContextEncoder: ...


@overload
def lift(
    model: Any, to: Literal["sentences"], *, pool: str = "mean", layers: LayerChoice = "mean"
) -> SentenceEncoder: ...


def lift(model: Any, to: str, *, pool: str = "mean", layers: LayerChoice = "mean") -> ContextEncoder | SentenceEncoder:
    """The model as a context encoder (``contexts``) or a sentence encoder (``sentences``); itself where it is one.

    Word vectors become an encoder that gives a word the same vector everywhere. The vectors of the tokens at one of the
    ``layers`` (``top``, ``mean``, ``mix`` or a number) become one vector per text by ``pool``.
    """
    if to not in ("contexts", "sentences"):
        raise OptionError(f"a model is lifted to contexts or sentences, not {to!r}")
    if isinstance(model, SentenceEncoder):
        if to == "contexts":
            raise OptionError(f"a model of {_name(model)} gives one vector per text, and this asks for one per word")
        return model
    encoder = StaticEncoder(model) if isinstance(model, WordVectors) else model
    if not isinstance(encoder, ContextEncoder):
        raise OptionError(f"a model of {_name(model)} gives no vectors to text")
    return encoder if to == "contexts" else Pooled(encoder, pool, layers=layers)


def _name(model: Any) -> str:
    return str(getattr(model, "method", type(model).__name__))
