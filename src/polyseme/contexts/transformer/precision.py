"""Dynamic quantisation to int8 (int8 动态量化): faster encoding with nearly the same vectors.

    y = s_x s_w (X_q W_qᵀ) + b        W_q, s_w: one scale per row of the weights;   X_q, s_x: one scale per batch

Only the linear layers of the body are quantised; models are still saved, trained and converted in float. Some machines
report instructions that they do not have, and using them kills the process, so a child process tries them first.
"""

from __future__ import annotations

import copy
import logging
import subprocess
import sys
import warnings
from functools import cache

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from polyseme.contexts.transformer.network import Network

log = logging.getLogger(__name__)

ENGINES = ("onednn", "x86")  # those that use all eight bits of the inputs
_SECONDS = 120
_TRIAL = """
import warnings; warnings.simplefilter("ignore")
import torch
from polyseme.contexts.transformer.precision import quantised_layers
layer = torch.nn.Linear(64, 32)
x = torch.randn(5, 64)
found = quantised_layers(torch.nn.Sequential(layer))(x)
assert torch.allclose(found, layer(x), atol=0.1)
"""


def in_int8(network: Network) -> Network | None:
    """The network with int8 linear layers; None, with a warning, if the machine or architecture does not support it."""
    if not int8_runs():
        log.warning("int8 does not run on this machine: reading in fp32")
        return None
    found = copy.copy(network)
    found._modules = dict(network._modules)
    found.whole = copy.deepcopy(network.whole)
    name = network.whole.base_model_prefix
    if network.body is network.whole:
        found.whole = quantised_layers(found.whole)
    elif hasattr(found.whole, name) and not network.whole.config.is_encoder_decoder:
        setattr(found.whole, name, quantised_layers(getattr(found.whole, name)))
    else:
        log.warning("the body of this %s is not known by name: reading in fp32", network.whole.config.model_type)
        return None
    if not any(isinstance(module, torch.ao.nn.quantized.dynamic.Linear) for module in found.whole.modules()):
        log.warning("this %s has no linear layers to quantise: reading in fp32", network.whole.config.model_type)
        return None
    found.quantised = True
    return found


@cache
def int8_runs() -> bool:
    """Whether a child process can run an int8 product and gets nearly the right result."""
    try:
        done = subprocess.run([sys.executable, "-c", _TRIAL], capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def quantised_layers(module: nn.Module) -> nn.Module:
    """A copy of a module with int8 linear layers, with one scale per row of the weights."""
    from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic

    supported = torch.backends.quantized.supported_engines
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = next((one for one in ENGINES if one in supported), before)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it will move to another package
            layers = {nn.Linear: per_channel_dynamic_qconfig}
            found: nn.Module = quantize_dynamic(  # type: ignore[no-untyped-call]
                _with_linear_layers(module), layers, dtype=torch.qint8, inplace=True
            )
            return found.eval()
    finally:
        torch.backends.quantized.engine = before


def _with_linear_layers(module: nn.Module) -> nn.Module:
    """A copy of a module with linear layers in place of those of GPT-2, whose weights are transposed."""
    found = copy.deepcopy(module)
    for parent in list(found.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, Conv1D):
                n_in, n_out = child.weight.shape
                layer = nn.Linear(n_in, n_out, device="meta")
                layer.weight, layer.bias = nn.Parameter(child.weight.detach().T.contiguous()), child.bias
                setattr(parent, name, layer)
    return found
