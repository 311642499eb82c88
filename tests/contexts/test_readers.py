"""The readers of a biLM beside the LSTM: against plain loops and torch's own layers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import polyseme
from polyseme.contexts.elmo.bilm import BiLM, BiLMConfig, WordInputs
from polyseme.contexts.elmo.bilm_layers import SPAN, with_positions
from polyseme.errors import OptionError
from polyseme.neural.batches import Packing
from polyseme.text.corpus import Corpus

SIZE = 8
OTHERS = pytest.mark.parametrize("reader", ["cnn", "transformer"])


def network(reader: str, **sizes) -> BiLM:
    config = BiLMConfig(
        n_characters=0, n_words=20, max_characters=5, char_dim=4, word_dim=SIZE, filters=(), activation="relu",
        n_highway=0, project=False, hidden=SIZE, projection=SIZE, cell_clip=0.0, projection_clip=0.0, skip=True,
        reader=reader, **{"n_layers": 3, "width": 3, "n_heads": 2, **sizes},
    )  # fmt: skip
    net = BiLM(config)
    net.reset_parameters(torch.Generator().manual_seed(1))
    return net


def read(net: BiLM, texts: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Each layer of each text, ``(2, T, P)``, in the reading order of each direction."""
    packing = Packing.of([len(text) for text in texts])
    grid = torch.zeros(len(texts), max(map(len, texts)), SIZE)
    for row, text in enumerate(texts):
        grid[row, : len(text)] = text
    step = torch.from_numpy(packing.time[0])
    x = grid[torch.from_numpy(packing.row), step].expand(2, -1, -1)
    planes, _ = net.run(x, packing.sizes)
    found = []
    for row, text in enumerate(texts):
        mine = torch.from_numpy(np.flatnonzero(packing.row == row))
        order = mine[torch.argsort(step[mine])]
        assert len(order) == len(text)
        found.append([plane[:, order].detach() for plane in planes])
    return found


@OTHERS
def test_a_token_sees_itself_and_what_was_read_before_it(reader):
    net, text = network(reader), torch.randn(9, SIZE)
    other = text.clone()
    other[5] = torch.randn(SIZE)
    (one,), (changed,) = read(net, [text]), read(net, [other])
    torch.testing.assert_close(one[-1][:, :5], changed[-1][:, :5], atol=1e-5, rtol=1e-5)
    assert ((one[-1][:, 5] - changed[-1][:, 5]).abs() > 1e-4).any()


@OTHERS
def test_a_text_is_read_alike_alone_and_in_company(reader):
    net, texts = network(reader), [torch.randn(n, SIZE) for n in (4, 1, 11)]
    for text, together in zip(texts, read(net, texts), strict=True):
        for alone, plane in zip(read(net, [text])[0], together, strict=True):
            torch.testing.assert_close(plane, alone, atol=1e-6, rtol=1e-5)


def test_a_convolution_is_the_gated_sum_over_the_last_words():
    net, text = network("cnn", n_layers=1), torch.randn(6, SIZE)
    layer = net.layers[0]
    padded = torch.cat([torch.zeros(2, SIZE), text])
    for direction in (0, 1):
        for t in range(6):
            a, b = (padded[t : t + 3].reshape(-1) @ layer.weight[direction] + layer.bias[direction]).chunk(2)
            expected = (text[t] + a * torch.sigmoid(b)) * math.sqrt(0.5)
            torch.testing.assert_close(read(net, [text])[0][1][direction, t], expected.detach(), atol=1e-6, rtol=1e-5)


def test_convolutions_reach_as_far_as_their_widths_add_up():
    net, text = network("cnn", n_layers=3, width=4), torch.randn(20, SIZE)
    other = text.clone()
    other[0] += 1
    difference = (read(net, [text])[0][-1] - read(net, [other])[0][-1]).abs().amax(dim=(0, 2))
    assert (difference > 0).nonzero().max() == 3 * (4 - 1)


@pytest.mark.parametrize("length", [7, SPAN, 2 * SPAN + 9])
def test_the_transformer_is_torchs_with_a_mask_of_its_reach(length):
    net, text = network("transformer", n_layers=2), torch.randn(length, SIZE)
    place = torch.arange(length)
    hidden = (place[None] > place[:, None]) | (place[None] <= place[:, None] - SPAN)
    for direction in (0, 1):
        x = with_positions(text[None], [1] * length)
        for layer in net.layers:
            plain = nn.TransformerEncoderLayer(SIZE, 2, 4 * SIZE, 0.0, batch_first=True, norm_first=True)
            plain.load_state_dict({
                "self_attn.in_proj_weight": layer.w_attend[direction].t(),
                "self_attn.in_proj_bias": torch.zeros(3 * SIZE),
                "self_attn.out_proj.weight": layer.w_join[direction].t(),
                "self_attn.out_proj.bias": torch.zeros(SIZE),
                "linear1.weight": layer.w_up[direction].t(), "linear1.bias": layer.b_up[direction],
                "linear2.weight": layer.w_down[direction].t(), "linear2.bias": layer.b_down[direction],
                "norm1.weight": layer.scales[0, direction], "norm1.bias": layer.shifts[0, direction],
                "norm2.weight": layer.scales[1, direction], "norm2.bias": layer.shifts[1, direction],
            })  # fmt: skip
            x = plain.train()(x, src_mask=hidden)  # dropout 0; the quick path of eval() differs in rounding
        expected = nn.functional.layer_norm(x, (SIZE,))[0].detach()
        torch.testing.assert_close(read(net, [text])[0][-1][direction], expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("projected", [True, False])
def test_a_new_transformers_words_weigh_as_much_as_their_positions(projected):
    size = 64
    config = BiLMConfig(
        n_characters=0, n_words=500, max_characters=5, char_dim=4, word_dim=96 if projected else size, filters=(),
        activation="relu", n_highway=0, project=projected, hidden=size, projection=size, cell_clip=0.0,
        projection_clip=0.0, skip=True, reader="transformer", n_layers=2, width=3, n_heads=2,
    )  # fmt: skip
    net = BiLM(config)
    net.reset_parameters(torch.Generator().manual_seed(1))
    words = net.encoder(WordInputs(None, None, torch.arange(500)))
    positions = with_positions(torch.zeros(2, 40, size), [1] * 40)[0]
    assert 0.5 < float(words.std() / positions.std()) < 2


@OTHERS
def test_it_learns_and_answers_as_the_lstm_does(reader, fifty_lines, tmp_path):
    corpus = Corpus.from_sentences(fifty_lines)
    model = polyseme.train(
        "elmo", corpus, reader=reader, size="tiny", epochs=15, min_count=1, threads=1, dropout=0.0, batch_tokens=60
    )
    words = len(corpus.vocabulary)
    assert model.perplexity(fifty_lines).forward < words / 4
    assert len(model.substitutes(fifty_lines[0], 1)) == 10
    model.save(tmp_path / "m")
    again = polyseme.load(tmp_path / "m")
    for one, other in zip(model.encode_predicting(fifty_lines), again.encode_predicting(fifty_lines), strict=True):
        np.testing.assert_allclose(one.layers, other.layers, atol=1e-5)
    with pytest.raises(OptionError, match="states"):
        polyseme.train("elmo", corpus, reader=reader, sequences="stream")
    with pytest.raises(OptionError, match="stateful"):
        model.encode_tokens(fifty_lines, stateful=True)
