"""A device that computes on the CPU but is separate from it like a GPU: operations that mix the two are errors.

It is called ``other`` and uses torch's hook for devices written in Python. Its tensors wrap CPU tensors; every
operation is unwrapped, computed and wrapped again. An operation that also gets a CPU tensor is an error, except for
numbers, indices and copies, as on a GPU. Sparse gradients become dense.

    python other_device.py LINES FOLDER NAME …

trains each method on it and fits each head, which is named as "tag linear", and writes the results as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "other"
LIBRARY = torch.library.Library("aten", "IMPL", "PrivateUse1")
aten = torch.ops.aten
# What a GPU accepts from the CPU besides numbers and copies: indices, and the lengths of packed sequences.
SECOND_MAY_DIFFER = {
    aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default,
    aten._pack_padded_sequence.default, aten._pack_padded_sequence_backward.default, aten._pad_packed_sequence.default,
    aten.lstm.data, aten.gru.data,
}  # fmt: skip
LENGTHS_STAY = {aten._pack_padded_sequence.default, aten._pad_packed_sequence.default}


class OtherTensor(torch.Tensor):
    @staticmethod
    def __new__(cls, raw: torch.Tensor):
        return torch.Tensor._make_wrapper_subclass(
            cls, raw.size(), strides=raw.stride(), storage_offset=raw.storage_offset(), dtype=raw.dtype,
            device=torch.device(NAME, 0), requires_grad=False,
        )  # fmt: skip

    def __init__(self, raw: torch.Tensor) -> None:
        self.raw = raw

    def tolist(self):  # which torch refuses to tensors of a class of one's own
        return self.raw.tolist()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _dispatched(func, args, kwargs or {})


class OtherDevice(TorchDispatchMode):
    """A context manager in which tensors can be created on the device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _dispatched(func, args, kwargs or {})


def _dispatched(func, args, kwargs):
    given = _tensors((args, *kwargs.values()))
    ours = [tensor for tensor in given if isinstance(tensor, OtherTensor)]
    device = kwargs.get("device")
    wanted = NAME if device is None and ours else torch.device(device or "cpu").type
    if not ours and wanted != NAME:
        return func(*args, **kwargs)
    copies = func in (aten._to_copy.default, aten.copy_.default)
    if ours and not copies:
        for tensor in _tensors((args[0], *args[2:])) if func in SECOND_MAY_DIFFER else given:
            if not isinstance(tensor, OtherTensor) and tensor.dim():
                raise RuntimeError(f"{func} takes a tensor of the CPU and one of the device {NAME}")
    if device is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    known = {id(tensor.raw): tensor for tensor in ours}
    result = FUSED.get(func, func)(
        *_each(_unwrapped, args), **{name: _each(_unwrapped, value) for name, value in kwargs.items()}
    )
    if func is aten._local_scalar_dense.default:
        return result
    if func is aten.copy_.default:
        return args[0]
    if func in LENGTHS_STAY:
        return _wrapped(result[0]), *result[1:]
    if wanted != NAME:
        return _each(lambda value: value.clone() if id(value) in known else value, result)
    return _each(lambda value: known[id(value)] if id(value) in known else _wrapped(value), result)


def _tensors(arguments):
    """The tensors among the arguments of an operation, which may be lists of them."""
    return [
        tensor
        for argument in arguments
        for tensor in (_tensors(argument) if isinstance(argument, tuple | list) else (argument,))
        if isinstance(tensor, torch.Tensor)
    ]


def _each(function, value):
    """A value, or a list or tuple of them, after the function; torch's tree_map is slower than all the rest."""
    return type(value)(_each(function, x) for x in value) if type(value) in (tuple, list) else function(value)


# ---- the cells that torch has for devices only (gates in its order; workspaces are our own)


def _lstm_cell(of_input, of_hidden, c, input_bias=None, hidden_bias=None):
    i, f, g, o = _biased(of_input + of_hidden, input_bias, hidden_bias).chunk(4, dim=1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new = f * c + i * g
    return o * new.tanh(), new, torch.cat([i, f, g, o], dim=1)


def _lstm_cell_backward(d_h, d_new, c, new, workspace, has_bias):
    i, f, g, o = workspace.chunk(4, dim=1)
    d_h, d_new = (torch.zeros_like(c) if slope is None else slope for slope in (d_h, d_new))
    d_c = d_new + d_h * o * (1 - new.tanh() ** 2)
    slopes = [d_c * g * i * (1 - i), d_c * c * f * (1 - f), d_c * i * (1 - g**2), d_h * new.tanh() * o * (1 - o)]
    gates = torch.cat(slopes, dim=1)
    return gates, d_c * f, gates.sum(dim=0) if has_bias else None


def _gru_cell(of_input, of_hidden, h, input_bias=None, hidden_bias=None):
    (r, z, n), (r_h, z_h, n_h) = _biased(of_input, input_bias).chunk(3, 1), _biased(of_hidden, hidden_bias).chunk(3, 1)
    r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
    n = (n + r * n_h).tanh()
    return n + z * (h - n), torch.cat([r, z, n, h, n_h], dim=1)


def _gru_cell_backward(d_h, workspace, has_bias):
    r, z, n, h, n_h = workspace.chunk(5, dim=1)
    d_n = d_h * (1 - z) * (1 - n**2)
    d_r, d_z = d_n * n_h * r * (1 - r), d_h * (h - n) * z * (1 - z)
    of_input, of_hidden = torch.cat([d_r, d_z, d_n], dim=1), torch.cat([d_r, d_z, d_n * r], dim=1)
    biases = (of_input.sum(dim=0), of_hidden.sum(dim=0)) if has_bias else (None, None)
    return of_input, of_hidden, d_h * z, *biases


def _biased(gates, *biases):
    return sum((bias for bias in biases if bias is not None), gates)


FUSED = {
    aten._thnn_fused_lstm_cell.default: _lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: _lstm_cell_backward,
    aten._thnn_fused_gru_cell.default: _gru_cell,
    aten._thnn_fused_gru_cell_backward.default: _gru_cell_backward,
}


def _unwrapped(one):
    return one.raw if isinstance(one, OtherTensor) else one


def _wrapped(one):
    if not isinstance(one, torch.Tensor):
        return one
    with torch.inference_mode(False):  # a wrapper has no use for it
        return OtherTensor(one.to_dense() if one.is_sparse else one)


def _empty(size, dtype=None, **_):
    return OtherTensor(torch.empty(size, dtype=dtype))


def _empty_strided(size, stride, dtype=None, **_):
    return OtherTensor(torch.empty_strided(size, stride, dtype=dtype))


def _copy_from(source, to, non_blocking=False):
    _unwrapped(to).copy_(_unwrapped(source))
    return to


def install() -> torch.device:
    """Register the device with torch, once per process."""
    _setup_privateuseone_for_python_backend(NAME)
    # Where a list is an index, torch asks the device itself, below all modes.
    LIBRARY.impl("empty.memory_format", _empty)
    LIBRARY.impl("empty_strided", _empty_strided)
    LIBRARY.impl("_copy_from", _copy_from)
    return torch.device(NAME, 0)


def main(lines: str, folder: str, *names: str) -> None:
    """Train each method and fit each head on data generated from the lines of a file."""
    import polyseme
    from conftest import FITS, Data, fit_small, small_options
    from polyseme.catalog import find
    from polyseme.training import loop

    data = Data(Path(lines).read_text(encoding="utf-8").splitlines(), Path(folder))
    wanted = {FITS[name].encoder for name in names if name in FITS} - {None}
    encoders = {name: polyseme.train(name, data.of(find(name)), **small_options(name)) for name in sorted(wanted)}
    device = install()
    loop.chosen_device = lambda name: device

    def outcome(name: str) -> str:
        try:
            # Gradients on this thread: another one would not know the mode.
            with torch.autograd.set_multithreading_enabled(False), OtherDevice():
                if name in FITS:
                    fit_small(name, data, encoders)
                else:
                    polyseme.train(name, data.of(find(name)), **small_options(name))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "trained"

    results = {name: outcome(name) for name in names}
    sys.stdout.write(json.dumps(results) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
