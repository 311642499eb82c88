"""Which states of an encoder stand for an occurrence.

``predicting``: the states from which a bidirectional language model predicts the word, the forward one at t−1 and the
backward one at t+1. They know the context and not the word itself, which is why they tell its senses apart better than
the states at t (``word``), full of the word's own identity. Encoders that are no language models have only ``word``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

from polyseme.errors import OptionError
from polyseme.types import ContextEncoder, EncodedSentence, Sentence

KINDS = ("auto", "predicting", "word")


@runtime_checkable
class Predicting(Protocol):
    """A context encoder that also gives the states that predict each word."""

    def encode_predicting(self, sentences: Iterable[Sentence]) -> Iterator[EncodedSentence]: ...


def resolve_kind(encoder: ContextEncoder, kind: str) -> str:
    """``predicting`` or ``word``: ``auto`` is the better of those that the encoder has."""
    able = isinstance(encoder, Predicting)
    if kind == "predicting" and not able:
        raise OptionError(f"{type(encoder).__name__} is no bidirectional language model: its states are 'word' only")
    return kind if kind != "auto" else "predicting" if able else "word"


def encode_states(encoder: ContextEncoder, sentences: Iterable[Sentence], kind: str) -> Iterator[EncodedSentence]:
    """States of every token, all layers, sentence by sentence."""
    if kind == "predicting":
        assert isinstance(encoder, Predicting)
        return encoder.encode_predicting(sentences)
    return encoder.encode_tokens(sentences)


def chosen_layers(encoder: ContextEncoder, names: str) -> list[int]:
    """Numbers of the layers to keep from ``all`` or ``1`` or ``0,1,2``; the first is the one asked by default.

    ``auto`` is the first layer above the words where there is one: in ELMo it tells word classes and uses apart best.
    """
    if names == "auto":
        return [min(1, encoder.n_layers - 1)]
    if names == "all":
        first = min(1, encoder.n_layers - 1)
        return [first, *(n for n in range(encoder.n_layers) if n != first)]
    try:
        numbers = [int(name) for name in names.split(",")]
    except ValueError:
        raise OptionError(f"layers are 'auto', 'all' or numbers such as 0,1; not {names!r}") from None
    bad = [n for n in numbers if not 0 <= n < encoder.n_layers]
    if bad or len(set(numbers)) < len(numbers):
        raise OptionError(f"layers {names!r}: the model has the layers 0 to {encoder.n_layers - 1}, each once")
    return numbers
