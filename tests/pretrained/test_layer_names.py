"""The weights of a layer, in every architecture: the states of the layer and of those above come from them."""

from __future__ import annotations

import copy

import pytest
import torch
import transformers
from tiny_transformers import DECODERS, KINDS, SIZES

from polyseme.contexts.transformer.network import Network, TokenBatch

SHARED = {**SIZES, "num_hidden_layers": 4, "embedding_size": 16}
CONFIGS = {
    **{name: config for name, (config, _, _) in {**KINDS, **DECODERS}.items()},
    "xlnet": transformers.XLNetConfig(vocab_size=400, d_model=32, n_layer=3, n_head=4, d_inner=48),
    "flaubert": transformers.FlaubertConfig(vocab_size=400, emb_dim=32, n_layers=3, n_heads=4),
    "deberta-v2": transformers.DebertaV2Config(**SIZES, relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "one layer four times": transformers.AlbertConfig(**SHARED),
    "two layers twice": transformers.AlbertConfig(**SHARED, num_hidden_groups=2),
}
# The lowest states that come from each layer; of most architectures 1, 2, …: number 0 are the embeddings.
LOWEST = {"albert": [1], "one layer four times": [1], "two layers twice": [1, 3]}


def network_of(name: str) -> Network:
    torch.manual_seed(3)
    config = CONFIGS[name]
    cls = KINDS[name][1] if name in KINDS and name != "electra" else None
    whole = transformers.AutoModel.from_config(config) if cls is None else cls(config)
    for parameter in whole.parameters():  # far from the small weights at the start, so that differences show
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    return Network(whole.eval())


def states_from(network: Network, weights: tuple[str, ...]) -> list[int]:
    """The numbers of the layers whose states change with the weights that are named so."""
    batch, changed = TokenBatch(torch.arange(5, 25)[None]), copy.deepcopy(network)
    for name, parameter in changed.named_parameters():
        if name.startswith(weights):
            parameter.data.add_(torch.rand_like(parameter))
    with torch.no_grad():
        pairs = zip(network(batch), changed(batch), strict=True)
        return [number for number, (one, other) in enumerate(pairs) if not torch.equal(one, other)]


@pytest.mark.parametrize("name", CONFIGS)
def test_the_weights_of_a_layer_change_its_states_and_those_above(name):
    network = network_of(name)
    lowest = LOWEST.get(name) or list(range(1, network.n_layers))
    assert [states_from(network, weights) for weights in network.layer_names] == [
        list(range(first, network.n_layers)) for first in lowest
    ]
