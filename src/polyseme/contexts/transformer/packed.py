"""Linear layers with weights as the processor multiplies them 预排权重: the same vectors, a tenth faster.

torch rearranges the weights of a linear layer for every product. Here a copy that is arranged once does the reading;
the network itself, which is trained, saved and converted, stays as it is; a layer that has learned since is arranged
again. torch's own compiler uses the same operations, but not every build has them; without them the network reads as it
is.
"""

from __future__ import annotations

import copy
from functools import cache

import torch
from torch import Tensor, nn

from polyseme.contexts.transformer.network import Network

USUAL_ROWS = 384  # of a product
LARGEST = 100_000_000  # weights of all layers: their copy takes as much memory again


class PackedLinear(nn.Module):
    """A linear layer that reads; its weights and bias are those of ``layer``."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self._layers = [layer]  # in a list: a module's weights would count as this copy's
        self._arranged: Tensor | None = None
        self._state: tuple[int, int] | None = None

    @property
    def weight(self) -> Tensor:
        """As it was before it was arranged, for architectures that ask for it."""
        return self._layers[0].weight

    @property
    def bias(self) -> Tensor | None:
        """Of the layer itself."""
        return self._layers[0].bias

    def forward(self, x: Tensor) -> Tensor:
        """``(…, in) -> (…, out)``"""
        weight = self.weight
        state = (weight.data_ptr(), 0 if weight.is_inference() else weight._version)
        if self._arranged is None or state != self._state:
            self._arranged, self._state = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), USUAL_ROWS), state
        found: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._arranged, self.bias, "none", [], "")
        return found


def packed(network: Network) -> Network:
    """A network that reads as this one does with its weights arranged; the same one where that would not help."""
    layers = [module for module in network.body.modules() if type(module) is nn.Linear]
    fits = sum(layer.weight.numel() for layer in layers) <= LARGEST
    if network.quantised or not (layers and fits and all(map(_can_be_packed, layers)) and operations_run()):
        return network
    shared = {id(tensor): tensor for tensor in (*network.parameters(), *network.buffers())}
    found: Network = copy.deepcopy(network, shared)
    of_copy = dict(found.whole.named_modules())
    own = set(map(id, layers))
    for name, module in network.whole.named_modules():
        if id(module) in own and isinstance(module, nn.Linear):
            above, _, last = name.rpartition(".")
            setattr(of_copy[above], last, PackedLinear(module))
    return found


def _can_be_packed(layer: nn.Linear) -> bool:
    return layer.weight.device.type == "cpu" and layer.weight.dtype == torch.float32


@cache
def operations_run() -> bool:
    """Whether this build of torch has the operations, and they give what a linear layer gives."""
    with torch.random.fork_rng(devices=[]):
        layer, x = nn.Linear(64, 32), torch.ones(3, 64)
    try:
        with torch.inference_mode():
            return torch.allclose(PackedLinear(layer)(x), layer(x), atol=1e-5)
    except (AttributeError, RuntimeError):
        return False
