"""Recurrent layers against torch's own on each text alone."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

from polyseme.neural.batches import Packing
from polyseme.neural.gru import GruWeights, packed_gru
from polyseme.neural.lstm import State
from polyseme.neural.recurrent import Recurrent

LENGTHS = [4, 7, 0, 1, 7]


def mask(lengths, longest):
    return torch.arange(longest)[None] < torch.tensor(lengths, dtype=torch.long)[:, None]


def alone(module, x, lengths, states):
    """Outputs and last states of nn.LSTM or nn.GRU, one text at a time."""
    rnn, dim = module.rnn, module.dim
    outputs, ends = [], []
    for row, length in enumerate(lengths):
        h, c = (torch.cat([state[k][:, row : row + 1] for state in states]) for k in (0, 1))
        if not length:
            outputs.append(x.new_zeros(x.shape[1], dim))
            ends.append((h, c if module.kind == "lstm" else h))
            continue
        out, end = rnn(x[row : row + 1, :length], (h, c) if module.kind == "lstm" else h)
        outputs.append(torch.cat([out[0], x.new_zeros(x.shape[1] - length, dim)]))
        ends.append(end if module.kind == "lstm" else (end, end))
    return torch.stack(outputs), *(torch.cat([end[k] for end in ends], dim=1) for k in (0, 1))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize(("n_layers", "bidirectional"), [(1, False), (2, True)])
@pytest.mark.parametrize("given", [False, True], ids=["from zero", "from states"])
def test_outputs_states_and_gradients_are_those_of_texts_read_alone(kind, n_layers, bidirectional, given):
    torch.manual_seed(1)
    module = Recurrent(3, 4, kind=kind, n_layers=n_layers, bidirectional=bidirectional)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    x = torch.randn(5, 8, 3, requires_grad=True)
    shape = (1 + bidirectional, 5, 4)
    states = [State(*(torch.randn(shape, requires_grad=True) if given else torch.zeros(shape) for _ in "hc"))
              for _ in range(n_layers)]  # fmt: skip
    found, last = module(x, mask(LENGTHS, 8), states if given else None)
    stacked = [torch.cat([state[k] for state in last]) for k in (0, 1)]
    expected = alone(module, x, LENGTHS, states)
    for a, b in zip((found, *stacked), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    leaves = [x, *module.parameters(), *(states[0][:1] if given else ())]
    slopes = [torch.randn_like(tensor) for tensor in expected]
    totals = (sum((a * b).sum() for a, b in zip(t, slopes, strict=True)) for t in ((found, *stacked), expected))
    for a, b in zip(*(torch.autograd.grad(total, leaves) for total in totals), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(module.last_of(last), torch.cat(list(last[-1].h), dim=1))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_texts_without_any_token_are_zeros(kind):
    module = Recurrent(3, 4, kind=kind)
    for shape in ((2, 0, 3), (0, 0, 3), (2, 5, 3)):
        found, last = module(torch.randn(shape), mask([0] * shape[0], shape[1]))
        assert found.shape == (*shape[:2], 8)
        assert not found.any()
        assert not module.last_of(last).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["compiled", "torch"])
def test_the_context_of_a_gru_is_added_to_the_input_of_every_step(dtype):
    torch.manual_seed(2)
    rnn = torch.nn.GRU(3 + 2, 4, batch_first=True, dtype=dtype)
    x, of_text = torch.randn(3, 6, 3, dtype=dtype), torch.randn(3, 2, dtype=dtype, requires_grad=True)
    h = torch.randn(1, 3, 4, dtype=dtype, requires_grad=True)
    lengths = [6, 4, 1]  # falling, so packed rows are the texts themselves
    packing = Packing.of(lengths)
    whole, split = rnn.weight_ih_l0, rnn.weight_ih_l0[:, :3]
    weights = GruWeights(split[None], rnn.weight_hh_l0[None], rnn.bias_ih_l0[None], rnn.bias_hh_l0[None])
    read = x[torch.from_numpy(packing.row), torch.from_numpy(packing.time[0])]
    context = (of_text @ whole[:, 3:].t())[None]
    outputs, last = packed_gru(read[None], packing.sizes, weights, h, context)
    repeated = torch.cat([x, of_text[:, None].expand(-1, 6, -1)], dim=2)
    joined = pack_padded_sequence(repeated, torch.tensor(lengths), batch_first=True)
    expected, end = rnn(joined, h)
    torch.testing.assert_close(outputs[0], expected.data)
    torch.testing.assert_close(last, end)
    leaves, slope, of_end = [of_text, h, *rnn.parameters()], torch.randn_like(expected.data), torch.randn_like(end)
    totals = ((o * slope).sum() + (e * of_end).sum() for o, e in ((outputs[0], last), (expected.data, end)))
    for a, b in zip(*(torch.autograd.grad(total, leaves) for total in totals), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_weights_of_torch_load_by_their_own_names():
    published = torch.nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True)
    module = Recurrent(3, 4, n_layers=2)
    module.rnn.load_state_dict(published.state_dict())
    x = torch.randn(2, 5, 3)
    torch.testing.assert_close(module(x, mask([5, 5], 5))[0], published(x)[0], rtol=1e-5, atol=1e-6)


def test_dropout_falls_between_layers_and_only_in_training():
    module = Recurrent(3, 4, n_layers=2, dropout=0.5)
    x = torch.randn(2, 5, 3)
    assert not torch.equal(module(x, mask([5, 5], 5))[0], module(x, mask([5, 5], 5))[0])
    module.eval()
    assert torch.equal(module(x, mask([5, 5], 5))[0], module(x, mask([5, 5], 5))[0])
