"""Weights between modules, arrays and files.

Torch files are read safely: no code in them is executed, and memory is limited to the file's size.
"""

from __future__ import annotations

import math
import os
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polyseme.disk.files import open_plain
from polyseme.errors import FormatError, altered_model

Network = TypeVar("Network", bound=nn.Module)

# What torch.load raises for files that are truncated, altered, or contain something other than data.
_DAMAGES = (
    *(pickle.UnpicklingError, zipfile.BadZipFile, RuntimeError, ValueError, TypeError, EOFError, LookupError),
    *(AttributeError, MemoryError, OverflowError, AssertionError, NotImplementedError, struct.error),
)


def read_tensors(path: str | Path) -> dict[str, Tensor]:
    """The state dict in a ``.pkl``, ``.th`` or ``.pt`` file."""
    path = Path(path)
    try:
        with open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            if zipfile.is_zipfile(file):
                with zipfile.ZipFile(file) as archive:  # torch never compresses
                    if sum(entry.file_size for entry in archive.infolist()) > size:
                        raise FormatError(f"{path} claims more data than its size")
            file.seek(0)
            with warnings.catch_warnings():  # about content that it then refuses
                warnings.simplefilter("ignore")
                content = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from None
    except _DAMAGES as error:
        reason = str(error).split("\n")[0][:100]
        raise FormatError(f"{path} is truncated or is not a tensor file that is safe to read ({reason})") from None
    if not isinstance(content, dict) or not all(
        isinstance(k, str) and isinstance(v, Tensor) for k, v in content.items()
    ):
        raise FormatError(f"{path} does not hold named tensors")
    for name, tensor in content.items():
        # With strides of zero a shape can exceed the stored data: copying it could take unlimited memory.
        if tensor.layout != torch.strided or math.prod(tensor.shape) * tensor.element_size() > size:
            raise FormatError(f"{path}: {name!r} claims more numbers than the file contains")
    return content


class Tensors:
    """The named tensors of a file, whose shapes are checked when they are read."""

    def __init__(self, path: str | Path, found: dict[str, Tensor] | None = None) -> None:
        self.path = path
        self._found = read_tensors(path) if found is None else found

    def under(self, prefix: str) -> Tensors:
        """The tensors whose names start with ``prefix``, under their names without it."""
        return Tensors(self.path, {n.removeprefix(prefix): t for n, t in self._found.items() if n.startswith(prefix)})

    @property
    def names(self) -> list[str]:
        """The names of the tensors."""
        return list(self._found)

    def get(self, name: str, shape: tuple[int | None, ...]) -> Tensor:
        """The tensor ``name`` as float32, checked against ``shape``; None in the shape matches any size."""
        if name not in self._found:
            raise FormatError(f"{self.path} lacks the weights {name!r}")
        tensor = self._found[name]
        fits = len(tensor.shape) == len(shape) and all(s in (None, n) for s, n in zip(shape, tensor.shape, strict=True))
        if not fits:
            raise FormatError(f"{self.path}: {name!r} has the shape {tuple(tensor.shape)}, not {shape}")
        if not tensor.is_floating_point() or not bool(torch.isfinite(tensor).all()):
            raise FormatError(f"{self.path}: {name!r} holds numbers that are not finite")
        return tensor.float()


def arrays_of(
    module: nn.Module, prefix: str = "", keep: Callable[[str], bool] | None = None
) -> dict[str, NDArray[Any]]:
    """The weights and buffers of a module as arrays by ``prefix`` and name, or those whose names are to ``keep``."""
    state = {name: tensor for name, tensor in module.state_dict().items() if keep is None or keep(name)}
    return {prefix + name: tensor.detach().cpu().numpy() for name, tensor in state.items()}


def load_arrays(
    module: nn.Module, arrays: Mapping[str, NDArray[Any]], prefix: str = "", keep: Callable[[str], bool] | None = None
) -> None:
    """Load what ``arrays_of`` returned; a weight that is missing or of another shape is a FormatError."""
    state = {name: tensor for name, tensor in module.state_dict().items() if keep is None or keep(name)}
    for name, tensor in state.items():
        array = arrays.get(prefix + name)
        if array is None or tuple(array.shape) != tuple(tensor.shape):
            raise altered_model(f"its weights {prefix + name!r} are missing or misshapen")
        state[name] = torch.from_numpy(np.array(array)).to(tensor.dtype)
    module.load_state_dict(state, strict=False)


def with_weights(
    make: Callable[[], Network],
    weights: Mapping[str, NDArray[Any] | Tensor],
    refuse: Callable[[str], FormatError] = altered_model,
) -> Network:
    """The module that ``make`` returns, with exactly these weights in float32, which are copied if they are arrays.

    Any that is missing, of another shape or not of the module is the error that ``refuse`` makes of the reason.
    """
    with torch.device("meta"):  # shapes only: no memory is allocated before they are checked
        module = make()
    wanted = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    for name in sorted({*wanted, *weights}):
        if name not in weights:
            raise refuse(f"the model lacks the weights {name!r}")
        if name not in wanted:
            raise refuse(f"the model has weights {name!r} that its options do not describe")
        if (shape := tuple(weights[name].shape)) != wanted[name]:
            raise refuse(f"the weights {name!r} have the shape {shape}, but its options describe {wanted[name]}")
    module.load_state_dict({name: _float32(weight) for name, weight in weights.items()}, assign=True)
    return module


def _float32(weight: NDArray[Any] | Tensor) -> Tensor:
    return weight.float() if isinstance(weight, Tensor) else torch.from_numpy(np.array(weight, dtype=np.float32))
