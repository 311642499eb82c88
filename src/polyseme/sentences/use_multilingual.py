"""The multilingual Universal Sentence Encoder (多语言通用句编码器), read from published weights.

Yang et al., "Multilingual Universal Sentence Encoder for Semantic Retrieval", ACL 2020; the convolutional encoder of
version 3, one space for sixteen languages, Chinese among them. For each width n of 2, 3 and 5 pieces:

    [x_2; x_3; x_5] = LN(e P + b)      h = x_n + relu(W_1 [x_n around t])      c_n = h + relu(W_2 [h around t])
    s = Σ_t (LN([e; c_2; c_3; c_5]) W + b) / √T              y = relu(P_1 s + D_1 relu(D_0 s))
    v = z / |z|,  z = tanh(P_3 y + D_3 relu(D_2 y))

The texts of a batch are concatenated; a window that extends beyond its text reads zeros there. The vectors of the
subword pieces are kept as in the file, with one byte per number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray
from polyseme.errors import FormatError
from polyseme.interfaces import Sentence, SentenceEncoder, tokens_given
from polyseme.options import option
from polyseme.store.folder import Parts
from polyseme.store.model import About, Model
from polyseme.text.spacing import join_words
from polyseme.text.tokenizer_files import UnigramPieces

if TYPE_CHECKING:
    from typing_extensions import Self

WIDTHS = {2: 0, 3: 1, 5: 2}  # window width in pieces -> how many of them are before the centre
PIECE, INNER, SHARDS = 512, 256, 17
LEFT, RIGHT = 2, 2  # of the widest window
PIECES_AT_ONCE = 1024
TOKENIZER = "sp.model"

_OF_WIDTH = {"proj{}": (PIECE, INNER), "proj_b{}": (INNER,), "ln_g{}": (INNER,), "ln_b{}": (INNER,),
             "b1_{}": (INNER,), "b2_{}": (INNER,)}  # fmt: skip
_WIDE = PIECE + INNER * len(WIDTHS)
SHAPES: dict[str, tuple[int, ...]] = {
    **{name.format(n): shape for name, shape in _OF_WIDTH.items() for n in WIDTHS},
    **{f"w{layer}_{n}": (n * INNER, INNER) for layer in (1, 2) for n in WIDTHS},
    "ln_g": (_WIDE,), "ln_b": (_WIDE,), "cnn_W": (_WIDE, PIECE), "cnn_b": (PIECE,),
    "d0": (PIECE, 320), "d1": (320, 320), "p1": (PIECE, 320), "d2": (320, 512), "p3": (320, 512), "d3": (512, 512),
    "scale": (SHARDS,), "lo": (SHARDS,),
}  # fmt: skip


@dataclass(frozen=True)
class UseMultilingualOptions:
    """Options of a model read from a file."""

    source: str = option("", "the file the model was read from")
    epsilon: float = option(1e-12, "added to variances", minimum=0)


class UseMultilingual(Model, SentenceEncoder):
    """The multilingual USE: weights by name, piece vectors as bytes, and the tokenizer."""

    method: ClassVar[str] = "use-multilingual"
    Options: ClassVar[type] = UseMultilingualOptions
    options: UseMultilingualOptions
    dim = 512

    def __init__(
        self,
        options: UseMultilingualOptions,
        pieces: UnigramPieces,
        table: NDArray[np.uint8],
        weights: dict[str, FloatArray],
        about: About | None = None,
    ) -> None:
        """``table`` is ``(pieces, 512)``; row i is decoded with ``scale`` and ``lo`` of the shard i mod 17."""
        self.options, self.pieces, self.table, self.weights = options, pieces, table, weights
        self.about = about or About()

    # ---- reading texts

    def encode_batch(self, texts: list[Sentence]) -> FloatArray:
        """Vectors of the texts, ``(n, 512)``, of length one."""
        raw = [text if isinstance(text, str) else join_words(tokens_given(text)) for text in texts]
        found = np.zeros((len(raw), self.dim), dtype=np.float32)
        for places, numbers in _batches(self.pieces.numbers(raw)):
            found[places] = self._encoded(numbers)
        return found

    def _encoded(self, texts: Sequence[Sequence[int]]) -> FloatArray:
        w = self.weights
        lengths = np.array([len(numbers) for numbers in texts])
        starts = np.cumsum(lengths) - lengths
        numbers = np.fromiter(chain.from_iterable(texts), dtype=np.int64, count=int(lengths.sum()))  # (N,)
        shard = numbers % SHARDS
        e = self.table[numbers] * w["scale"][shard, None] + w["lo"][shard, None]  # (N, 512)
        around = _around(starts, lengths)  # (N, 5)
        x = np.split(self._projected(e), len(WIDTHS), axis=1)
        windows = [around[:, LEFT - before :][:, :n] for n, before in WIDTHS.items()]
        parts = [e, *(self._convolved(*of_width) for of_width in zip(x, WIDTHS, windows, strict=True))]
        joined = _normalised(np.concatenate(parts, axis=1), w["ln_g"], w["ln_b"], self.options.epsilon)
        n: FloatArray = lengths[:, None].astype(np.float32)
        sums: FloatArray = np.add.reduceat(joined, starts, axis=0)
        s = np.asarray((sums @ w["cnn_W"] + n * w["cnn_b"]) / np.sqrt(n), dtype=np.float32)
        y = _relu(s @ w["p1"] + _relu(s @ w["d0"]) @ w["d1"])
        z = np.tanh(y @ w["p3"] + _relu(y @ w["d2"]) @ w["d3"])
        return np.asarray(z / np.sqrt(np.maximum((z * z).sum(axis=1, keepdims=True), self.options.epsilon)))

    def _projected(self, e: FloatArray) -> FloatArray:
        """The inputs of the convolutions of all widths, normalised together, ``(N, 512) -> (N, 768)``."""
        p, b, gain, bias = (
            np.concatenate([self.weights[f"{name}{n}"] for n in WIDTHS], axis=-1)
            for name in ("proj", "proj_b", "ln_g", "ln_b")
        )
        return _normalised(e @ p + b, gain, bias, self.options.epsilon)

    def _convolved(self, x: FloatArray, n: int, around: NDArray[np.int64]) -> FloatArray:
        """c_n, ``(N, 256) -> (N, 256)``."""
        for layer in (1, 2):
            padded = np.concatenate([x, np.zeros((1, INNER), dtype=np.float32)])
            seen = padded[around].reshape(len(x), n * INNER)
            x = x + _relu(seen @ self.weights[f"w{layer}_{n}"] + self.weights[f"b{layer}_{n}"])
        return x

    # ---- on disk

    def parts(self) -> Parts:
        """Weights and piece vectors as arrays, and the unchanged file of the tokenizer."""
        return Parts({**self.weights, "table": self.table}, files={TOKENIZER: self.pieces.content})

    @classmethod
    def from_parts(cls, options: UseMultilingualOptions, parts: Parts, about: About) -> Self:
        weights = {name: array for name, array in parts.tensors.items() if name != "table"}
        pieces = UnigramPieces(parts.file(TOKENIZER), TOKENIZER)
        return cls.checked(options, pieces, parts.tensor("table"), weights, about)

    @classmethod
    def checked(
        cls,
        options: UseMultilingualOptions,
        pieces: UnigramPieces,
        table: NDArray[Any],
        weights: dict[str, NDArray[Any]],
        about: About | None = None,
    ) -> Self:
        """The model with these arrays; a missing array or one of the wrong shape is a FormatError."""
        for name, shape in SHAPES.items():
            if name not in weights or weights[name].shape != shape or not np.isfinite(weights[name]).all():
                raise FormatError(f"the weights {name!r} are missing, not finite, or not of the shape {shape}")
        if table.ndim != 2 or table.shape[1] != PIECE or len(table) < pieces.n_pieces or table.dtype != np.uint8:
            raise FormatError(f"the table of pieces is not {pieces.n_pieces:,} × {PIECE} bytes or larger")
        return cls(
            options, pieces, table, {name: np.asarray(weights[name], dtype=np.float32) for name in SHAPES}, about
        )


def _batches(texts: list[list[int]]) -> Iterator[tuple[list[int], list[list[int]]]]:
    """Batches of at most ``PIECES_AT_ONCE`` pieces, as indices and texts; a longer text is a batch of its own."""
    held: list[int] = []
    size = 0
    for place, numbers in enumerate(texts):
        if held and size + len(numbers) > PIECES_AT_ONCE:
            yield held, [texts[i] for i in held]
            held, size = [], 0
        held.append(place)
        size += len(numbers)
    if held:
        yield held, [texts[i] for i in held]


def _around(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """For every position, those of the widest window around it, ``(N, 5)``; N for positions outside the text."""
    n = int(lengths.sum())
    places = np.arange(n)[:, None] + np.arange(-LEFT, RIGHT + 1)
    first, end = np.repeat(starts, lengths)[:, None], np.repeat(starts + lengths, lengths)[:, None]
    return np.where((places >= first) & (places < end), places, n)


def _normalised(x: FloatArray, gain: FloatArray, bias: FloatArray, epsilon: float) -> FloatArray:
    """Layer normalisation of the rows."""
    centred = x - x.mean(axis=1, keepdims=True)
    deviation = np.sqrt((centred * centred).mean(axis=1, keepdims=True) + np.float32(epsilon))
    return np.asarray(centred / deviation * gain + bias, dtype=np.float32)


def _relu(x: FloatArray) -> FloatArray:
    return np.maximum(x, 0)
