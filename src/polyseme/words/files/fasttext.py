"""fastText's binary models: .bin (dense) and .ftz (product-quantised), as fastText 0.1 to 0.9 writes them.

    [magic, version]?  settings  dictionary  [pruned buckets]?  input matrix  output matrix

The input matrix holds the words' own rows, then the rows of the buckets. Files older than version 11 lack the parts
with a question mark. Integers and floats are little-endian.

Product-quantised matrices, as stored in fastText's .ftz files. 乘积量化

    row i = norm[i] · [ centroid_1[code(i, 1)] ; … ; centroid_m[code(i, m)] ],  256 centroids for each piece

Jégou, Douze and Schmid, Product Quantization for Nearest Neighbor Search, 2011; Joulin et al., FastText.zip, 2016.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints
from polyseme.disk.atomic import new_file
from polyseme.disk.binary import BinaryReader
from polyseme.disk.files import open_for_reading, open_for_writing
from polyseme.errors import FormatError

CENTROIDS = 256
MOST_GROWTH = 64  # decoded bytes per byte of codes and centroids; usual files, with pieces of 2 numbers, have 8
SMALL = 64 << 20


@dataclass
class Codebook:
    """The centroids of each piece of a vector."""

    dim: int
    pieces: int
    width: int  # of every piece but the last, which has the remainder
    centroids: FloatArray  # (256 · dim,)

    def decode(self, codes: NDArray[np.uint8]) -> FloatArray:
        """(n, pieces) codes -> (n, dim)."""
        rows = np.empty((len(codes), self.dim), dtype=np.float32)
        for piece in range(self.pieces):
            start = piece * self.width
            end = min(start + self.width, self.dim)
            table = self.centroids[start * CENTROIDS : end * CENTROIDS].reshape(CENTROIDS, end - start)
            rows[:, start:end] = table[codes[:, piece]]
        return rows


def read_quantised(reader: BinaryReader, what: str) -> FloatArray:
    """Read a quantised matrix and decode it; ``what`` names it in error messages."""
    with_norms, n_rows, dim, n_codes = reader.fields("?qqi")
    most = MOST_GROWTH * (n_codes + 4 * CENTROIDS * dim) + SMALL
    if min(n_rows, n_codes) < 0 or dim < 1 or 4 * n_rows * dim > most:
        raise FormatError(f"{reader.path} is altered: its quantised {what} cannot have {n_rows:,} × {dim:,} numbers")
    codes = reader.array(np.uint8, n_codes, what)
    codebook = _read_codebook(reader, what)
    if codebook.dim != dim or n_codes != n_rows * codebook.pieces:
        raise FormatError(f"{reader.path} is altered: the codes of its {what} do not fit {n_rows:,} × {dim:,} numbers")
    rows = codebook.decode(codes.reshape(n_rows, codebook.pieces))
    if with_norms:
        norm_codes = reader.array(np.uint8, n_rows, what)
        norms = _read_codebook(reader, what)
        if norms.dim != 1:
            raise FormatError(f"{reader.path} is altered: the lengths of its {what} have {norms.dim} numbers each")
        rows *= norms.decode(norm_codes[:, None])
    return rows


def _read_codebook(reader: BinaryReader, what: str) -> Codebook:
    dim, pieces, width, last = reader.fields("iiii")
    fits = dim >= 1 and pieces >= 1 and width >= 1 and (pieces - 1) * width + last == dim and 1 <= last <= width
    if not fits:
        raise FormatError(f"{reader.path} is altered: {pieces} × {width} numbers make no vector of {dim} in its {what}")
    return Codebook(dim, pieces, width, reader.array(np.float32, dim * CENTROIDS, what))


MAGIC, VERSION = 793712314, 12
MODELS = {1: "cbow", 2: "skipgram", 3: "supervised"}
LOSSES = {1: "hierarchical", 2: "negative", 3: "softmax", 4: "one-vs-all"}
LONGEST_VECTOR = 1 << 20
LONGEST_NGRAM = 100
_SETTINGS = struct.Struct("<12id")


@dataclass
class FastTextSettings:
    """The training options that fastText stores in a model file."""

    dim: int
    window: int = 5
    epochs: int = 5
    min_count: int = 1
    negative: int = 5
    word_ngrams: int = 1
    loss: int = 2
    model: int = 2
    buckets: int = 0
    minn: int = 0
    maxn: int = 0
    lr_update_rate: int = 100
    sample: float = 1e-4

    def to_bytes(self) -> bytes:
        """The settings in fastText's binary layout."""
        return _SETTINGS.pack(*vars(self).values())

    def plausible(self) -> bool:
        """Whether a real model could have these settings."""
        return (
            1 <= self.dim <= LONGEST_VECTOR
            and self.model in MODELS
            and self.loss in LOSSES
            and 0 <= self.buckets < 1 << 31
            and 0 <= self.minn <= LONGEST_NGRAM
            and 0 <= self.maxn <= LONGEST_NGRAM
            and min(self.window, self.epochs, self.min_count, self.negative, self.word_ngrams) >= 0
        )


@dataclass
class FastTextFile:
    """Everything a model file holds."""

    settings: FastTextSettings
    words: list[str]
    counts: Ints
    own: FloatArray  # (V, D)
    buckets: FloatArray  # (B, D): the input matrix is own above buckets
    output: FloatArray
    labels: list[str] = field(default_factory=list)
    label_counts: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    n_tokens: int = 0
    kept: dict[int, int] | None = None  # bucket → row after the words', where buckets were pruned
    end_is_whole: bool = True  # whether </s> has no n-grams; before version 11 it had some


def tells(path: Path, head: bytes) -> bool:
    """Whether this file, which begins with ``head``, is a fastText model."""
    return path.is_file() and recognise(head)


def recognise(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is a fastText model."""
    if len(head) >= 8 and struct.unpack_from("<i", head)[0] == MAGIC:
        return True
    if len(head) < _SETTINGS.size + 20:
        return False
    # Files older than version 11 begin with the settings; no other kind of file has plausible values there.
    size, words, labels, tokens = struct.unpack_from("<3iq", head, _SETTINGS.size)
    settings = FastTextSettings(*_SETTINGS.unpack_from(head))
    return settings.plausible() and settings.window > 0 and size == words + labels > 0 and tokens >= 0


def read(path: str | Path) -> FastTextFile:
    """Read a model file; its matrices are decoded to float32."""
    path = Path(path)
    with open_for_reading(path) as (file, size):
        reader = BinaryReader(path, file, size)
        first = reader.fields("2i")
        modern = first[0] == MAGIC
        if modern and first[1] not in (11, 12):
            raise FormatError(f"{path} is a fastText model of version {first[1]}; 11 and 12 are known")
        start = reader.fields("2i") if modern else first
        settings = FastTextSettings(*start, *reader.fields("10id"))
        if not settings.plausible():
            raise FormatError(f"{path} is altered or no fastText model: its settings make no sense")
        if modern and first[1] == 11 and settings.model == 3:
            settings.maxn = 0  # supervised models of that version ignored their n-grams
        model = _read_dictionary(reader, settings, modern)
        matrix = _read_matrix(reader, "input matrix", modern and _flag(reader), settings.dim)
        model.own, model.buckets = _split(reader, model, matrix)
        model.output = _read_matrix(reader, "output matrix", modern and _flag(reader), settings.dim)
        model.end_is_whole = modern
        reader.finish()
    return model


def _read_dictionary(reader: BinaryReader, settings: FastTextSettings, modern: bool) -> FastTextFile:
    size, n_words, n_labels, n_tokens = reader.fields("3iq")
    n_kept = reader.fields("q")[0] if modern else -1
    if min(size, n_words, n_labels) < 0 or size != n_words + n_labels:
        raise FormatError(f"{reader.path} is altered: {n_words:,} words and {n_labels:,} labels are not {size:,}")
    if not n_words:
        raise FormatError(f"{reader.path} holds no words")
    entries = list(reader.strings(size, 9, "words"))
    names = [name.decode("utf-8", "surrogateescape") for name, _ in entries]
    tails = np.frombuffer(b"".join(tail for _, tail in entries), dtype=[("count", "<i8"), ("kind", "i1")])
    if (tails["kind"] != (np.arange(size) >= n_words)).any():
        raise FormatError(f"{reader.path} is altered: its words and labels are out of order")
    counts = tails["count"].astype(np.int64)
    kept = None
    if n_kept >= 0:
        pairs = reader.array(np.int32, 2 * n_kept, "pruned buckets").reshape(-1, 2)
        kept = dict(pairs.tolist())
        if sorted(kept.values()) != list(range(n_kept)):
            raise FormatError(f"{reader.path} is altered: its pruned buckets do not number their rows")
    nothing = np.empty((0, settings.dim), dtype=np.float32)
    return FastTextFile(
        settings,
        names[:n_words],
        counts[:n_words],
        own=nothing,
        buckets=nothing,
        output=nothing,
        labels=names[n_words:],
        label_counts=counts[n_words:],
        n_tokens=n_tokens,
        kept=kept,
    )


def _flag(reader: BinaryReader) -> bool:
    (value,) = reader.fields("B")
    if value > 1:
        raise FormatError(f"{reader.path} is altered: a boolean in it is {value}")
    return bool(value)


def _read_matrix(reader: BinaryReader, what: str, quantised: bool, dim: int) -> FloatArray:
    matrix = read_quantised(reader, what) if quantised else _read_dense(reader, what, dim)
    if matrix.shape[1] != dim:
        raise _wrong_width(reader, what, matrix.shape[1], dim)
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(matrix.sum()) and not np.isfinite(matrix).all():
            raise FormatError(f"{reader.path} holds NaN or infinity in its {what}: the file is damaged")
    return matrix


def _split(reader: BinaryReader, model: FastTextFile, matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    n_words = len(model.words)
    n_buckets = model.settings.buckets if model.kept is None else len(model.kept)
    if len(matrix) != n_words + n_buckets:
        raise FormatError(
            f"{reader.path} is altered: its input matrix has {len(matrix):,} rows, and it has {n_words:,} words and "
            f"{n_buckets:,} buckets"
        )
    return matrix[:n_words], matrix[n_words:]


def _read_dense(reader: BinaryReader, what: str, dim: int) -> FloatArray:
    n_rows, width = reader.fields("qq")
    if n_rows < 0:
        raise FormatError(f"{reader.path} is altered: its {what} cannot have {n_rows:,} rows")
    if width != dim:
        raise _wrong_width(reader, what, width, dim)
    return reader.array(np.float32, n_rows * dim, what).reshape(n_rows, dim)


def _wrong_width(reader: BinaryReader, what: str, width: int, dim: int) -> FormatError:
    return FormatError(f"{reader.path} is altered: rows of its {what} have {width:,} numbers, not {dim:,}")


def write(path: str | Path, model: FastTextFile) -> None:
    """Write a .bin file of version 12, which fastText and gensim can read."""
    if model.kept is not None:
        raise FormatError(
            f"{path} cannot be written: the model's buckets were pruned, and a dense fastText file cannot say which; "
            "write .vec instead"
        )
    with new_file(path) as part, open_for_writing(part, Path(path)) as file:
        file.write(struct.pack("<2i", MAGIC, VERSION) + model.settings.to_bytes())
        n_words, n_labels = len(model.words), len(model.labels)
        file.write(struct.pack("<3iqq", n_words + n_labels, n_words, n_labels, model.n_tokens, -1))
        for kind, names, counts in ((0, model.words, model.counts), (1, model.labels, model.label_counts)):
            for name, count in zip(names, counts.tolist(), strict=True):
                file.write(name.encode("utf-8", "surrogateescape").replace(b"\x00", b"_") + b"\x00")
                file.write(struct.pack("<qb", count, kind))
        for matrices in ((model.own, model.buckets), (model.output,)):
            file.write(struct.pack("<?qq", False, sum(map(len, matrices)), model.settings.dim))
            for matrix in matrices:
                for start in range(0, len(matrix), 1 << 14):
                    file.write(matrix[start : start + (1 << 14)].astype("<f4").tobytes())
