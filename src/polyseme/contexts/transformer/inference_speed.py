"""Dynamic quantisation to int8 (int8 动态量化): faster encoding with nearly the same vectors.

Only the linear layers of the body are quantised; models are still saved, trained and converted in float. Some machines
report instructions that they do not have, and using them kills the process, so a child process tries them first.

Linear layers with prepacked weights 预排权重: the same vectors, a tenth faster.

torch rearranges the weights of a linear layer for every product. Here encoding uses a copy whose weights are rearranged
once; the network itself, which is trained, saved and converted, stays as it is, and a layer whose weights have changed
is packed again. torch.compile uses the same operations, but not every build has them; without them the network is used
as it is.

Products of int8 matrices (int8 矩阵乘法): one scale per row of the weights, and one per row of the inputs.

    y_rc = s_r t_c (Σ_k X_rk W_ck − z_c) + b_c        X: levels 1 … 255, where 128 is 0;   W: levels −127 … 127

The scale of an input row depends on that row only, so a result does not depend on the rest of its batch; one scale for
the whole batch would be half as exact, too. torch multiplies the integers. Quantising the inputs and scaling the sums
would be several passes over them in torch, so they are compiled.

On processors without VNNI oneDNN adds pairs of products in 16 bits, which overflow unless the weights stay below 64.
"""

from __future__ import annotations

import copy
import logging
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from polyseme.contexts.transformer.network import Network

USUAL_ROWS = 384  # rows of a typical matrix product
LARGEST = 100_000_000  # weights of all layers at most, since the copy takes as much memory again


class PreparedLinear(nn.Module, ABC):
    """A linear layer for inference, with the weights of ``layer`` prepared for its product."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self._layers = [layer]  # in a list, so that torch does not register its weights a second time
        self._prepared: Any = None
        self._state: tuple[int, int] | None = None

    @property
    def weight(self) -> Tensor:
        """The original weight, for architectures that access it."""
        weight: Tensor = self._layers[0].weight  # type: ignore[assignment]
        return weight

    @property
    def bias(self) -> Tensor | None:
        """The bias of the layer."""
        bias: Tensor | None = self._layers[0].bias  # type: ignore[assignment]
        return bias

    @abstractmethod
    def prepare(self, weight: Tensor) -> Any:
        """What the product needs instead of the weight."""

    @property
    def prepared(self) -> Any:
        """The prepared weights; prepared again after a change."""
        weight = self.weight
        state = (weight.data_ptr(), 0 if weight.is_inference() else weight._version)
        if self._prepared is None or state != self._state:
            self._prepared, self._state = self.prepare(weight.detach()), state
        return self._prepared

    def __getstate__(self) -> dict[str, Any]:
        """Prepared weights cannot be copied: a copy prepares its own."""
        return {**self.__dict__, "_prepared": None}


class PackedLinear(PreparedLinear):
    """A linear layer for inference, with the weights of ``layer`` prepacked."""

    def prepare(self, weight: Tensor) -> Tensor:
        """The weight, rearranged."""
        arranged: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, USUAL_ROWS)
        return arranged

    def forward(self, x: Tensor) -> Tensor:
        """``(…, in) -> (…, out)``"""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.prepared, self.bias, "none", [], "")
        return product


def packed(network: Network) -> Network:
    """A copy of the network with prepacked linear layers; the network itself if they cannot be packed."""
    layers = [module for module in network.body.modules() if type(module) is nn.Linear]
    fits = sum(layer.weight.numel() for layer in layers) <= LARGEST
    if network.quantised or not (layers and fits and all(map(_can_be_packed, layers)) and operations_run()):
        return network
    return with_replaced(network, {id(layer): PackedLinear(layer) for layer in layers})


def with_replaced(network: Network, modules: Mapping[int, nn.Module]) -> Network:
    """A copy of the network that shares its weights, with other modules in place of those with these ids."""
    shared = {id(tensor): tensor for tensor in (*network.parameters(), *network.buffers())}
    copied: Network = copy.deepcopy(network, shared)
    of_copy = dict(copied.whole.named_modules(remove_duplicate=False))
    for name, module in network.whole.named_modules(remove_duplicate=False):
        if id(module) in modules:
            above, _, last = name.rpartition(".")
            setattr(of_copy[above], last, modules[id(module)])
    return copied


def _can_be_packed(layer: nn.Linear) -> bool:
    return layer.weight.device.type == "cpu" and layer.weight.dtype == torch.float32


@cache
def operations_run() -> bool:
    """Whether this build of torch has the operations, and they give the same result as a linear layer."""
    with torch.random.fork_rng(devices=[]):
        layer, x = nn.Linear(64, 32), torch.ones(3, 64)
    try:
        with torch.inference_mode():
            return torch.allclose(PackedLinear(layer)(x), layer(x), atol=1e-5)
    except (AttributeError, RuntimeError):
        return False


ZERO = 128  # the uint8 that stands for 0.0
TOP = 127  # the largest level on both sides of it
OPERATIONS = ("onednn", "plain")  # the faster one first; not every build of torch has it
LEVELS = (TOP, 63)
_MUCH_SLOWER = 4  # than the other operation: it has no implementation for this processor
_SIZE = 256
_ONE, _NO_ZERO = torch.ones(1), torch.zeros(1, dtype=torch.int32)  # for oneDNN, which leaves the sums as they are


class Multiplier(NamedTuple):
    """The operation that multiplies levels on this machine, and the largest level of weights for which it is exact."""

    operation: str
    top: int

    def pack(self, levels: Tensor) -> Tensor:
        """Levels of weights ``(out, in)`` of int8, arranged for ``sums``."""
        packed: Tensor = torch.ops.onednn.qlinear_prepack(levels, None) if self.operation == "onednn" else levels.T
        return packed

    def sums(self, levels: Tensor, packed: Tensor) -> Tensor:
        """Sums of products ``(N, out)`` in float32, of levels ``(N, in)`` of uint8 and packed weights."""
        if self.operation == "onednn":
            sums: Tensor = torch.ops.onednn.qlinear_pointwise(
                levels, 1.0, 0, packed, _ONE, _NO_ZERO, None, 1.0, 0, torch.float32, "none", [], ""
            )
            return sums
        signed = (levels ^ ZERO).view(torch.int8)  # levels - ZERO
        return torch._int_mm(signed, packed).float()

    @property
    def zero(self) -> int:
        """The level that stands for 0.0 where the products are added."""
        return ZERO if self.operation == "onednn" else 0


class Int8Weights:
    """A weight matrix ``(out, in)`` in int8."""

    def __init__(self, weight: Tensor, multiplier: Multiplier) -> None:
        self.multiplier = multiplier
        weight = weight.contiguous()  # oneDNN packs the memory as it lies, also that of a transposed matrix
        scales = weight.abs().amax(dim=1) / multiplier.top
        levels = (weight / torch.where(scales > 0, scales, 1)[:, None]).round().to(torch.int8)
        self.packed = multiplier.pack(levels)
        self.scales = scales.contiguous()
        self.zeros = (levels.sum(dim=1, dtype=torch.int64) * multiplier.zero).float()

    def linear(self, x: Tensor, bias: Tensor) -> Tensor:
        """``(N, in) -> (N, out)`` in float32."""
        from polyseme.contexts.transformer.int8_kernels import quantise_rows, scale_rows

        if not len(x):
            return x.new_zeros(0, len(self.scales))
        levels, scales = torch.empty(x.shape, dtype=torch.uint8), torch.empty(len(x))
        quantise_rows(x.numpy(), levels.numpy(), scales.numpy())
        sums = self.multiplier.sums(levels, self.packed)
        scale_rows(sums.numpy(), scales.numpy(), self.scales.numpy(), self.zeros.numpy(), bias.numpy())
        return sums


def best_multiplier(operations: tuple[str, ...]) -> Multiplier | None:
    """The first of these operations that is exact and not much slower than the other; None if none is exact."""
    seconds = {}
    for operation in operations:
        for top in LEVELS:
            multiplier = Multiplier(operation, top)
            took = _seconds(multiplier)
            if took is not None:
                seconds[multiplier] = took
                break
    return next(
        (multiplier for multiplier in seconds if seconds[multiplier] <= _MUCH_SLOWER * min(seconds.values())), None
    )


def _seconds(multiplier: Multiplier) -> float | None:
    """The CPU-seconds of a product of extreme levels; None if it is not exact or this build of torch lacks it."""
    top = multiplier.top
    weights = torch.full((_SIZE, _SIZE), top, dtype=torch.int8)
    weights[1::2] = -top
    levels = torch.full((_SIZE, _SIZE), ZERO + TOP, dtype=torch.uint8)
    levels[1::2] = ZERO - TOP
    wanted = (levels.double() - ZERO + multiplier.zero) @ weights.double().T
    try:
        packed = multiplier.pack(weights)
        if not torch.equal(multiplier.sums(levels, packed).double(), wanted):
            return None
        start = time.process_time()
        multiplier.sums(levels, packed)
        return time.process_time() - start
    except (AttributeError, RuntimeError):
        return None


log = logging.getLogger(__name__)

_SECONDS = 120
_TRIAL = f"""
import sys
from {__name__} import best_multiplier
print(*best_multiplier(tuple(sys.argv[1:])) or ())
"""


class Int8Linear(PreparedLinear):
    """A linear layer for inference in int8, with the weights of ``layer``, also of GPT-2, where they are transposed."""

    def __init__(self, layer: nn.Module, multiplier: Multiplier) -> None:
        from transformers.pytorch_utils import Conv1D

        super().__init__(layer)
        self.multiplier = multiplier
        self.transposed = isinstance(layer, Conv1D)

    def prepare(self, weight: Tensor) -> Int8Weights:
        """The weight in int8."""
        return Int8Weights((weight.T if self.transposed else weight).float(), self.multiplier)

    def forward(self, x: Tensor) -> Tensor:
        """``(…, in) -> (…, out)``"""
        weights: Int8Weights = self.prepared
        bias = torch.zeros(len(weights.scales)) if self.bias is None else self.bias.detach()
        rows = x.detach().reshape(-1, x.shape[-1]).float().contiguous()
        return weights.linear(rows, bias.float()).view(*x.shape[:-1], -1)


def in_int8(network: Network) -> Network | None:
    """The network with int8 linear layers; None, with a warning, if the machine or architecture does not support it."""
    from transformers.pytorch_utils import Conv1D

    multiplier = usable_multiplier()
    if multiplier is None:
        log.warning("int8 does not run on this machine: reading in fp32")
        return None
    modules = list(network.body.modules())
    layers = {id(module): Int8Linear(module, multiplier) for module in modules if type(module) in (nn.Linear, Conv1D)}
    if not layers:
        log.warning("this %s has no linear layers to quantise: reading in fp32", network.whole.config.model_type)
        return None
    quantised = with_replaced(network, layers)
    quantised.quantised = True
    return quantised


@cache
def usable_multiplier() -> Multiplier | None:
    """How this machine multiplies in int8, as child processes find out; None if it cannot."""
    for operations in (OPERATIONS, OPERATIONS[1:]):  # without the first, if that kills the process
        try:
            command = [sys.executable, "-c", _TRIAL, *operations]
            done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False, text=True)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0 and done.stdout.split():
            operation, top = done.stdout.split()
            return Multiplier(operation, int(top))
    return None
