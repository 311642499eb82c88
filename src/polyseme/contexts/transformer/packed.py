"""Linear layers with prepacked weights 预排权重: the same vectors, a tenth faster.

torch rearranges the weights of a linear layer for every product. Here encoding uses a copy whose weights are rearranged
once; the network itself, which is trained, saved and converted, stays as it is, and a layer whose weights have changed
is packed again. torch.compile uses the same operations, but not every build has them; without them the network is used
as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from polyseme.contexts.transformer.network import Network

USUAL_ROWS = 384  # rows of a typical matrix product
LARGEST = 100_000_000  # weights of all layers at most, since the copy takes as much memory again


class PreparedLinear(nn.Module):
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

    def prepare(self, weight: Tensor) -> Any:
        """What the product needs instead of the weight."""
        raise NotImplementedError

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
        found: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.prepared, self.bias, "none", [], "")
        return found


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
    found: Network = copy.deepcopy(network, shared)
    of_copy = dict(found.whole.named_modules(remove_duplicate=False))
    for name, module in network.whole.named_modules(remove_duplicate=False):
        if id(module) in modules:
            above, _, last = name.rpartition(".")
            setattr(of_copy[above], last, modules[id(module)])
    return found


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
