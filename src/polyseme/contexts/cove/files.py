"""The published weights of CoVe: the state dict of the MT-LSTM, next to a file with the word vectors it reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyseme.contexts.cove.options import CoveOptions
from polyseme.contexts.cove.target_vocabulary import TargetVocabulary
from polyseme.errors import FormatError
from polyseme.store.torch_names import files_with_keys, has_keys, vectors_beside

if TYPE_CHECKING:
    from torch import Tensor

_KEY = b"weight_ih_l1_reverse"


def tells(path: Path, head: bytes) -> bool:
    """Is this the state dict of a two-layer bidirectional LSTM, or a folder with one?"""
    if path.is_dir():
        return len(files_with_keys(path, _KEY)) == 1
    return has_keys(path, _KEY)


def open_cove(path: str | Path, load: Callable[[str | Path], Any]) -> Any:
    """The encoder, with the word vectors from the other file in its folder; ``load`` opens that file."""
    from polyseme.contexts.cove.model import Cove
    from polyseme.contexts.cove.network import Translator
    from polyseme.neural.weights import read_tensors, with_weights

    path = Path(path)
    file = files_with_keys(path, _KEY)[0] if path.is_dir() else path
    vectors = vectors_beside(file, load, "GloVe 840B 300d")
    state = {name.removeprefix("rnn."): tensor for name, tensor in read_tensors(file).items()}
    options = CoveOptions(hidden=_size(file, state, "weight_hh_l0", 1), dim=_size(file, state, "weight_ih_l0", 1))
    if vectors.vector_size != options.dim:
        raise FormatError(
            f"{file} needs word vectors of dimension {options.dim}, but those next to it have {vectors.vector_size}"
        )
    named = {f"encoder.layers.{layer}.rnn.{name.replace(f'_l{layer}', '_l0')}": tensor
             for name, tensor in state.items() for layer in range(2) if f"_l{layer}" in name}  # fmt: skip
    if len(named) != len(state):
        raise FormatError(f"{file} has weights that an MT-LSTM of two layers does not have")
    network = with_weights(lambda: Translator(options, n_source=0, n_target=0, dim=options.dim), named, FormatError)
    return Cove(options, network, TargetVocabulary([]), TargetVocabulary([]), vectors=vectors)


def _size(file: Path, state: dict[str, Tensor], name: str, axis: int) -> int:
    if name not in state or state[name].dim() != 2:
        raise FormatError(f"{file} is not an MT-LSTM: it lacks the matrix {name!r}")
    return int(state[name].shape[axis])
