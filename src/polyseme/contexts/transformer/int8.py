"""Products of int8 matrices (int8 矩阵乘法): one scale per row of the weights, and one per row of the inputs.

    y_rc = s_r t_c (Σ_k X_rk W_ck − z_c) + b_c        X: levels 1 … 255, where 128 is 0;   W: levels −127 … 127

The scale of an input row depends on that row only, so a result does not depend on the rest of its batch; one scale for
the whole batch would be half as exact, too. torch multiplies the integers. Quantising the inputs and scaling the sums
would be several passes over them in torch, so they are compiled.

On processors without VNNI oneDNN adds pairs of products in 16 bits, which overflow unless the weights stay below 64.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import torch
from torch import Tensor

from polyseme.contexts.transformer.int8_kernels import TOP, ZERO, quantise_rows, scale_rows

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
    return next((one for one in seconds if seconds[one] <= _MUCH_SLOWER * min(seconds.values())), None)


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
