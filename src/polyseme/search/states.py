"""Which states of an encoder stand for an occurrence.

``predicting``: the states from which a bidirectional language model predicts the word, the forward one at t−1 and the
backward one at t+1. They know the context and not the word itself, which is why they tell its senses apart better than
the states at t (``word``), full of the word's own identity. Encoders that are not language models have only ``word``,
and ``mean`` and ``mix``, which make one layer of all those at t: their mean, or the mix that the model has learned.
At the top layer, where both directions lead into one softmax, the two are added: the logits of both are linear in the
sum, which says what the place expects, whichever side expects it. Below they are side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from polyseme.errors import OptionError
from polyseme.interfaces import ContextEncoder, EncodedSentence, FloatArray, Sentence

MIXED = ("mean", "mix")
KINDS = ("auto", "predicting", "word", *MIXED)


@runtime_checkable
class Predicting(Protocol):
    """A context encoder that also gives the states that predict each word."""

    def encode_predicting(
        self, sentences: Iterable[Sentence], layers: Sequence[int] | None = None
    ) -> Iterator[EncodedSentence]: ...


def resolve_kind(encoder: ContextEncoder, kind: str) -> str:
    """The kind itself; ``auto`` is the better of those that the encoder has."""
    able = isinstance(encoder, Predicting)
    if kind == "predicting" and not able:
        raise OptionError(
            f"{type(encoder).__name__} is not a bidirectional language model: its states are 'word', 'mean' or 'mix'"
        )
    return kind if kind != "auto" else "predicting" if able else "word"


def encode_states(
    encoder: ContextEncoder, sentences: Iterable[Sentence], kind: str, layers: Sequence[int]
) -> Iterator[list[FloatArray]]:
    """The states that stand for a sentence's tokens, ``(T, D)`` of each asked layer there is, sentence by sentence.

    At the top layer of ``predicting`` states both directions are added: ``(T, D/2)``.
    """
    if kind == "predicting":
        assert isinstance(encoder, Predicting)
        for sentence in encoder.encode_predicting(sentences, layers):
            yield [_added(states) if layer == encoder.n_layers - 1 else states
                   for layer, states in zip(layers, sentence.layers, strict=True)]  # fmt: skip
    else:
        for sentence in encoder.encode_tokens(sentences, layers=kind if kind in MIXED else "all"):
            yield [sentence.layers[layer] for layer in layers if layer < len(sentence.layers)]


def _added(states: FloatArray) -> FloatArray:
    half = states.shape[1] // 2
    return np.asarray(states[:, :half] + states[:, half:])


def chosen_layers(encoder: ContextEncoder, names: str, kind: str) -> list[int]:
    """Numbers of the layers to keep from ``all`` or ``1`` or ``0,1,2``; the first is the one asked by default.

    ``auto`` is the top layer of ``predicting`` states, and the first layer above the words of ``word`` states, whose
    higher layers lean towards the next word.
    """
    if kind in MIXED:
        if names not in ("auto", "all", "0"):
            raise OptionError(f"states {kind!r} combine all layers into one: leave out layers {names!r}")
        return [0]
    first = encoder.n_layers - 1 if kind == "predicting" else min(1, encoder.n_layers - 1)
    if names in ("auto", "all"):
        return [first] if names == "auto" else [first, *(n for n in range(encoder.n_layers) if n != first)]
    try:
        numbers = [int(name) for name in names.split(",")]
    except ValueError:
        raise OptionError(f"layers must be 'auto', 'all' or numbers such as 0,1, not {names!r}") from None
    bad = [n for n in numbers if not 0 <= n < encoder.n_layers]
    if bad or len(set(numbers)) < len(numbers):
        raise OptionError(f"layers {names!r}: the model has the layers 0 to {encoder.n_layers - 1}, each once")
    return numbers
