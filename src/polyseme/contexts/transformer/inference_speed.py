"""Dynamic quantisation to int8 (int8 动态量化): faster encoding with nearly the same vectors.

Only the linear layers of the body are quantised; models are still saved, trained and converted in float. Some machines
report instructions that they do not have, and using them kills the process, so a child process tries them first.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from functools import cache

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from polyseme.contexts.transformer.int8 import OPERATIONS, Int8Weights, Multiplier
from polyseme.contexts.transformer.network import Network
from polyseme.contexts.transformer.packed import PreparedLinear, with_replaced

log = logging.getLogger(__name__)

_SECONDS = 120
_TRIAL = """
import sys
from polyseme.contexts.transformer.int8 import best_multiplier
print(*best_multiplier(tuple(sys.argv[1:])) or ())
"""


class Int8Linear(PreparedLinear):
    """A linear layer for inference in int8, with the weights of ``layer``, also of GPT-2, where they are transposed."""

    def __init__(self, layer: nn.Module, multiplier: Multiplier) -> None:
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
    multiplier = usable_multiplier()
    if multiplier is None:
        log.warning("int8 does not run on this machine: reading in fp32")
        return None
    modules = list(network.body.modules())
    layers = {id(module): Int8Linear(module, multiplier) for module in modules if type(module) in (nn.Linear, Conv1D)}
    if not layers:
        log.warning("this %s has no linear layers to quantise: reading in fp32", network.whole.config.model_type)
        return None
    found = with_replaced(network, layers)
    found.quantised = True
    return found


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
