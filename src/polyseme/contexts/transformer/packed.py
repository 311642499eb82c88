"""Linear layers with prepacked weights 预排权重: the same vectors, a tenth faster.

torch rearranges the weights of a linear layer for every product. Here encoding uses a copy whose weights are rearranged
once; the network itself, which is trained, saved and converted, stays as it is, and a layer whose weights have changed
is packed again. torch.compile uses the same operations, but not every build has them; without them the network is used
as it is.
"""

from __future__ import annotations

import copy
from functools import cache

import torch
from torch import Tensor, nn

from polyseme.contexts.transformer.network import Network

USUAL_ROWS = 384  # rows of a typical matrix product
LARGEST = 100_000_000  # weights of all layers at most, since the copy takes as much memory again


class PackedLinear(nn.Module):
    """A linear layer for inference, with the weights of ``layer`` prepacked."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self._layers = [layer]  # in a list, so that torch does not register its weights a second time
        self._arranged: Tensor | None = None
        self._state: tuple[int, int] | None = None

    @property
    def weight(self) -> Tensor:
        """The original weight, for architectures that access it."""
        return self._layers[0].weight

    @property
    def bias(self) -> Tensor | None:
        """The bias of the layer."""
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
    """A copy of the network with prepacked linear layers; the network itself if they cannot be packed."""
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
    """Whether this build of torch has the operations, and they give the same result as a linear layer."""
    with torch.random.fork_rng(devices=[]):
        layer, x = nn.Linear(64, 32), torch.ones(3, 64)
    try:
        with torch.inference_mode():
            return torch.allclose(PackedLinear(layer)(x), layer(x), atol=1e-5)
    except (AttributeError, RuntimeError):
        return False
