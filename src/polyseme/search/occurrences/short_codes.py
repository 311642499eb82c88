"""From an encoder's states to the short codes that an index keeps.

x ↦ z = (x − mean) / deviation ↦ y = zP / ‖zP‖ ↦ round(y / step). P holds the principal components (PCA) of a sample of
z; an inner product of two y is their cosine. With 8-bit codes ``step`` is one number per dimension: a query multiplied
by it once can be compared with the codes as they are on disk.

Which states of an encoder stand for an occurrence.

``predicting``: the states from which a bidirectional language model predicts the word, the forward one at t−1 and the
backward one at t+1. They know the context and not the word itself, which is why they tell its senses apart better than
the states at t (``word``), full of the word's own identity. Encoders that are not language models have only ``word``,
and ``mean`` and ``mix``, which make one layer of all those at t: their mean, or the mix that the model has learned.
At the top layer, where both directions lead into one softmax, the two are added: the logits of both are linear in the
sum, which says what the place expects, whichever side expects it. Below they are side by side.

Comparing a query with codes where they are, block by block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from polyseme.arrays import FloatArray, main_directions, unit_rows
from polyseme.errors import FormatError, OptionError
from polyseme.interfaces import ContextEncoder, EncodedSentence, Sentence
from polyseme.search.occurrences.index_folder import release
from polyseme.words.nearest import best_of_blocks

CODES: dict[str, np.dtype[Any]] = {"int8": np.dtype(np.int8), "float16": np.dtype(np.float16)}
_TAIL = 1e-4  # the share of a sample's values that 8-bit codes may clip


@dataclass(frozen=True)
class Projection:
    """A fitted map from states to codes."""

    mean: FloatArray  # (D,)
    deviation: FloatArray  # (D,)
    directions: FloatArray  # (D, d)
    step: FloatArray  # (d,)
    precision: str

    @classmethod
    def fit(cls, sample: FloatArray, *, dim: int, precision: str) -> Projection:
        """Learn from a sample of states, ``(n, D)``: with one thread, so that their number does not change a bit."""
        with threadpool_limits(1):
            return cls._fit(sample, dim, precision)

    @classmethod
    def _fit(cls, sample: FloatArray, dim: int, precision: str) -> Projection:
        mean = sample.mean(axis=0, dtype=np.float64)
        deviation = sample.std(axis=0, dtype=np.float64)
        deviation = np.where(deviation > 1e-6 * max(deviation.max(initial=0.0), 1e-30), deviation, 1.0)
        z = sample - mean.astype(np.float32)
        z /= deviation.astype(np.float32)
        directions = main_directions(z, dim)[0].astype(np.float32)
        y = unit_rows(np.asarray(z @ directions, dtype=np.float32))
        step = np.ones(y.shape[1])
        if precision == "int8":
            top = np.quantile(np.abs(y), 1 - _TAIL, axis=0)
            step = np.where(top > 0, top, 1.0) / 127
        f32 = np.float32
        return cls(mean.astype(f32), deviation.astype(f32), directions, step.astype(f32), precision)

    @property
    def dim(self) -> int:
        """Numbers in one code."""
        return int(self.directions.shape[1])

    def vectors(self, states: FloatArray) -> FloatArray:
        """``(n, D) -> (n, d)``, rows of length one."""
        z = (states.astype(np.float32, copy=False) - self.mean) / self.deviation
        return unit_rows(np.asarray(z @ self.directions, dtype=np.float32))

    def codes(self, states: FloatArray) -> NDArray[Any]:
        """``(n, D) -> (n, d)`` as they are kept."""
        scaled = self.vectors(states) / self.step
        if self.precision == "int8":
            scaled = np.clip(np.rint(scaled), -127, 127)
        return scaled.astype(CODES[self.precision])

    def decode(self, codes: NDArray[Any]) -> FloatArray:
        """Vectors of codes, near to what ``vectors`` gave, of length one."""
        return decode(codes, self.step)

    def tensors(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays to keep, by name."""
        return {
            f"{prefix}.mean": self.mean,
            f"{prefix}.deviation": self.deviation,
            f"{prefix}.directions": self.directions,
            f"{prefix}.step": self.step,
        }

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, NDArray[Any]], prefix: str, precision: str, where: str) -> Projection:
        """What ``tensors`` gave."""
        found = [arrays.get(f"{prefix}.{name}") for name in ("mean", "deviation", "directions", "step")]
        mean, deviation, directions, step = found
        if mean is None or deviation is None or directions is None or step is None or precision not in CODES:
            raise FormatError(f"{where} was altered: the projection of {prefix} is not in it")
        fits = directions.ndim == 2 and mean.shape == deviation.shape == directions.shape[:1]
        if not fits or step.shape != directions.shape[1:] or any(a.dtype != np.float32 for a in found if a is not None):
            raise FormatError(f"{where} was altered: the projection of {prefix} has the wrong shape")
        return cls(mean, deviation, directions, step, precision)


def decode(codes: NDArray[Any], step: FloatArray) -> FloatArray:
    """Vectors of length one, ``(n, d)``: codes times their ``step`` ``(d,)``."""
    return unit_rows(codes.astype(np.float32) * step)


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


BLOCK = 1 << 15  # codes turned into floats at a time


def scores(codes: NDArray[Any], projection: Projection, vector: FloatArray) -> FloatArray:
    """Cosines of one vector with every code, ``(n,)``."""
    query = vector * projection.step
    result = np.empty(len(codes), dtype=np.float32)
    for begin in range(0, len(codes), BLOCK):
        result[begin : begin + BLOCK] = codes[begin : begin + BLOCK].astype(np.float32) @ query
    return result


def scores_from(codes: NDArray[Any], projection: Projection, vector: FloatArray, origin: FloatArray) -> FloatArray:
    """Cosines of one vector with every code as seen from ``origin``: of v − o with c − o."""
    query = unit_rows((vector - origin)[None])[0]
    result = np.empty(len(codes), dtype=np.float32)
    for begin in range(0, len(codes), BLOCK):
        block = unit_rows(projection.decode(codes[begin : begin + BLOCK]) - origin)
        result[begin : begin + BLOCK] = block @ query
    return result


def mean(codes: NDArray[Any], projection: Projection) -> FloatArray:
    """The mean of the codes' vectors."""
    total = np.zeros(projection.dim)
    for begin in range(0, len(codes), BLOCK):
        total += projection.decode(codes[begin : begin + BLOCK]).sum(axis=0, dtype=np.float64)
    return np.asarray(total / max(len(codes), 1), dtype=np.float32)


def nearest(codes: NDArray[Any], step: FloatArray, vectors: FloatArray, *, topn: int) -> NDArray[np.int64]:
    """The ``topn`` nearest codes of each vector by comparing all, nearest first: ``(q, d) -> (q, topn)``."""
    queries = (vectors * step).T  # (d, q)

    def blocks() -> Iterator[FloatArray]:
        for at in range(0, len(codes), BLOCK):
            yield np.asarray(codes[at : at + BLOCK].astype(np.float32) @ queries)  # (b, q)
            release(codes)

    return best_of_blocks(blocks(), len(vectors), min(topn, len(codes)))[0]
