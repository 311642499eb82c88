"""Weights arranged once for reading: the same vectors, of the same network."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import AlbertConfig, AlbertModel, BertConfig, BertModel, DebertaConfig, DebertaModel

from polyseme.contexts.transformer.inference_speed import PackedLinear, operations_run, packed
from polyseme.contexts.transformer.network import Network, TokenBatch

SMALL = {
    "vocab_size": 90,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
IDS = TokenBatch(torch.arange(1, 61).reshape(3, 20))

pytestmark = pytest.mark.skipif(not operations_run(), reason="this build of torch cannot arrange weights")


def networks() -> list[Network]:
    torch.manual_seed(3)
    whole = [
        BertModel(BertConfig(**SMALL)),
        AlbertModel(AlbertConfig(**SMALL, embedding_size=32)),
        DebertaModel(DebertaConfig(**SMALL, relative_attention=True, pos_att_type=["c2p", "p2c"])),
    ]
    return [Network(one.eval()) for one in whole]


@pytest.mark.parametrize("number", range(3))
@torch.inference_mode()
def test_it_reads_as_the_network_does(number: int) -> None:
    network = networks()[number]
    reading = packed(network)
    assert any(isinstance(module, PackedLinear) for module in reading.modules())
    assert not any(isinstance(module, PackedLinear) for module in network.modules())
    for ours, theirs in zip(reading(IDS), network(IDS), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_it_follows_a_network_that_learns() -> None:
    network = networks()[0]
    reading = packed(network)
    with torch.inference_mode():
        before = reading(IDS)[-1]
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "intermediate" in name:
                parameter.add_(0.05)
    with torch.inference_mode():
        after = reading(IDS)[-1]
        assert torch.allclose(after, network(IDS)[-1], atol=1e-5)
    assert not torch.allclose(after, before, atol=1e-3)


def test_weights_are_held_once_and_other_numbers_are_left_alone() -> None:
    network = networks()[0]
    reading = packed(network)
    own = {parameter.data_ptr() for parameter in network.parameters()}
    assert {parameter.data_ptr() for parameter in reading.parameters()} < own
    doubled = copy.deepcopy(network).double()
    assert packed(doubled) is doubled
