"""The published weights of CoVe: the MT-LSTM's state dict, with the word vectors it reads in a file beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyseme.contexts.cove.options import CoveOptions
from polyseme.contexts.cove.words import Words
from polyseme.errors import FormatError
from polyseme.nouns import WordVectors

if TYPE_CHECKING:
    from torch import Tensor

SUFFIXES = (".pth", ".pt", ".th", ".pkl")
_KEY = b"weight_ih_l1_reverse"
_HEAD = 1 << 16


def tells(path: Path, head: bytes) -> bool:
    """Is this the state dict of a two-layer bidirectional LSTM, or a folder with one?"""
    if path.is_dir():
        return len(_states_in(path)) == 1
    return path.is_file() and path.suffix in SUFFIXES and _is_state(path)


def open_cove(path: str | Path, load: Callable[[str | Path], Any]) -> Any:
    """The encoder with the word vectors in the one other file of its folder that ``load`` knows as such."""
    from polyseme.contexts.cove.model import Cove, filled
    from polyseme.neural.torch_file import read_tensors

    path = Path(path)
    file = _states_in(path)[0] if path.is_dir() else path
    vectors = _vectors_beside(file, load)
    state = {name.removeprefix("rnn."): tensor for name, tensor in read_tensors(file).items()}
    options = CoveOptions(hidden=_size(file, state, "weight_hh_l0", 1), dim=_size(file, state, "weight_ih_l0", 1))
    if vectors.vector_size != options.dim:
        raise FormatError(
            f"{file} reads word vectors of {options.dim} numbers, and those beside it have {vectors.vector_size}"
        )
    named = {f"encoder.layers.{layer}.rnn.{name.replace(f'_l{layer}', '_l0')}": tensor
             for name, tensor in state.items() for layer in range(2) if f"_l{layer}" in name}  # fmt: skip
    if len(named) != len(state):
        raise FormatError(f"{file} has weights that an MT-LSTM of two layers does not have")
    network = filled(options, {n: t.float() for n, t in named.items()}, dim=options.dim, n_source=0, n_target=0)
    return Cove(options, network, Words([]), Words([]), vectors=vectors)


def _size(file: Path, state: dict[str, Tensor], name: str, axis: int) -> int:
    if name not in state or state[name].dim() != 2:
        raise FormatError(f"{file} is no MT-LSTM: it lacks the matrix {name!r}")
    return int(state[name].shape[axis])


def _is_state(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return _KEY in file.read(_HEAD)
    except OSError:
        return False


def _states_in(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.iterdir()) if file.is_file() and file.suffix in SUFFIXES and _is_state(file)]


def _vectors_beside(file: Path, load: Callable[[str | Path], Any]) -> Any:
    found = []
    for other in sorted(file.parent.iterdir()):
        if other == file or other.suffix in SUFFIXES or other.name.startswith("."):
            continue
        try:
            model = load(other)
        except FormatError:
            continue
        if isinstance(model, WordVectors):
            found.append((other.name, model))
    if len(found) != 1:
        names = ", ".join(name for name, _ in found) or "none"
        raise FormatError(
            f"{file} reads word vectors, which are not in it: put their file (GloVe 840B 300d for the published "
            f"weights) into the same folder, alone; found there: {names}"
        )
    return found[0][1]
