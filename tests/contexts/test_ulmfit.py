"""ULMFiT's language model against plain torch, NumPy and the papers' own numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import polyseme
from polyseme.cli.main import polyseme as commands
from polyseme.contexts.ulmfit.network import AwdLstm
from polyseme.contexts.ulmfit.options import UlmfitOptions
from polyseme.contexts.ulmfit.train import Stream
from polyseme.contexts.ulmfit.units import BOUNDARY, UNKNOWN, learn_units, stream_of
from polyseme.errors import OptionError
from polyseme.neural.softmax import Sampling
from polyseme.text.corpus import Corpus
from polyseme.training.options import TrainingState, rate_factor

SMALL = {"dim": 12, "hidden": 20, "n_layers": 2, "min_count": 1, "batch_size": 4, "unroll": 12, "threads": 1}


@pytest.fixture(scope="module")
def corpus(fifty_lines) -> Corpus:
    return Corpus.from_sentences(fifty_lines)


@pytest.fixture(scope="module")
def model(corpus):
    plain = dict.fromkeys(("activation_penalty", "change_penalty", "dropout_input", "dropout_weight"), 0.0)
    return polyseme.train("ulmfit", corpus, epochs=40, lr=0.05, patience=0, negative=0, **SMALL, **plain)


def network(**options) -> AwdLstm:
    torch.manual_seed(0)
    return AwdLstm(30, UlmfitOptions(**{"dim": 6, "hidden": 10, "n_layers": 3, **options}))


def test_without_dropout_it_is_torchs_lstm():
    net = network().eval()
    units = torch.randint(0, 30, (7, 4))
    x = net.table[units]
    for layer, (n_in, n_out) in zip(net.layers, net.options.layer_sizes(), strict=True):
        plain = nn.LSTM(n_in, n_out)
        plain.load_state_dict({
            "weight_ih_l0": layer.input[0], "weight_hh_l0": layer.recurrent[0],
            "bias_ih_l0": layer.bias[0], "bias_hh_l0": torch.zeros_like(layer.bias[0]),
        })  # fmt: skip
        x, _ = plain(x)
    found = net(units.reshape(-1), [4] * 7).dropped
    torch.testing.assert_close(found, x.reshape(-1, 6), atol=1e-6, rtol=1e-5)


def test_weight_drop_acts_from_the_second_step_on():
    net = network(dropout_input=0.0, dropout_hidden=0.0, dropout_output=0.0, dropout_embedding=0.0, dropout_weight=0.5)
    units = torch.randint(0, 30, (6 * 3,))
    first, second = (net.train()(units, [3] * 6).planes[1].detach() for _ in range(2))
    torch.testing.assert_close(first[:3], second[:3])  # nothing recurs into the first step
    assert not torch.allclose(first[3:6], second[3:6])


def test_variational_dropout_keeps_its_mask_over_time_and_differs_between_rows():
    net = network(dropout_weight=0.0, dropout_embedding=0.0, dropout_output=0.5).train()
    read = net(torch.randint(0, 30, (5 * 4,)), [4] * 5)
    zero = (read.dropped == 0).view(5, 4, 6)
    assert (zero == zero[0]).all()
    assert len({tuple(row) for row in zero[0].tolist()}) > 1
    kept = ~zero.view(20, 6)
    torch.testing.assert_close(read.dropped[kept], 2 * read.planes[-1][kept])


def test_embedding_dropout_leaves_out_whole_units():
    net = network(dropout_embedding=0.5).train()
    units = torch.arange(30).repeat(2)
    found = net.vectors(units).detach()
    out = (found == 0).all(dim=1)
    assert (out[:30] == out[30:]).all()
    assert 0 < int(out[:30].sum()) < 30
    torch.testing.assert_close(found[~out], 2 * net.table.detach()[units[~out]])


def test_the_penalties_are_the_papers():
    net = network(activation_penalty=2.0, change_penalty=1.0, dropout_output=0.4).train()
    read = net(torch.randint(0, 30, (5 * 3,)), [3] * 5)
    dropped, raw = read.dropped.detach().numpy(), read.planes[-1].detach().numpy().reshape(5, 3, 6)
    expected = 2.0 * (dropped**2).mean() + ((raw[1:] - raw[:-1]) ** 2).mean()
    assert float(net.penalty(read, [3] * 5).detach()) == pytest.approx(expected, rel=1e-5)


def test_the_slanted_triangle_has_the_papers_rates():
    rates = [0.01 * rate_factor("slanted", TrainingState(t, t / 100)) for t in (0, 10, 99)]
    assert rates == pytest.approx([3.125e-4, 0.01, 4.201e-4], rel=1e-3)


def test_a_stream_reads_every_unit_once_in_rows_of_consecutive_text():
    units = np.arange(1, 202)
    stream = Stream(units, rows=4, unroll=7, seed=3)
    steps = [stream.step(0, index) for index in range(stream.n_steps(0))]
    read, targets = (torch.cat(grids).numpy() for grids in zip(*steps, strict=True))
    assert read.shape == (50, 4)
    np.testing.assert_array_equal(read.T.reshape(-1), np.arange(1, 201))
    np.testing.assert_array_equal(targets[:-1], read[1:])
    again = torch.cat([stream.step(1, index)[0] for index in range(stream.n_steps(1))]).numpy()
    assert sorted(again.reshape(-1).tolist()) == list(range(1, 201))


@pytest.mark.parametrize("kind", ["words", "chars", "bpe"])
def test_units_say_the_sentence_again(corpus, kind):
    units = learn_units(corpus, kind, min_count=1, max_size=400)
    words = corpus.sentence(0)
    numbers, sizes = units.numbers(words)
    assert sum(sizes) == len(numbers)
    assert UNKNOWN not in numbers
    assert units.text(numbers) == "".join(words)
    stream = stream_of(corpus, np.array([0, 1]), units)
    assert stream.tolist() == [BOUNDARY, *numbers, BOUNDARY, *units.numbers(corpus.sentence(1))[0], BOUNDARY]


def test_characters_of_words_that_are_written_apart_have_a_space_between(corpus):
    units = learn_units(Corpus.from_sentences(["the cat sat on the mat."]), "chars", min_count=1, max_size=100)
    assert units.text(units.numbers(["the", "cat", "."])[0]) == "the cat."


def test_it_learns_the_text_and_goes_on_with_it(model, corpus, fifty_lines):
    assert model.perplexity(fifty_lines).perplexity < 8  # of some eighty words
    assert model.generate("小明", length=12, temperature=0).startswith("小明")
    assert model.generate("小明", seed=4) == model.generate("小明", seed=4)
    words = corpus.sentence(10)  # what follows its first two words follows nothing else
    assert model.substitutes(words, 2)[0][0] == words[2]


def test_a_word_has_the_state_at_its_last_unit_read_forward_and_at_its_first_read_backward(corpus):
    for direction in ("forward", "backward"):
        model = polyseme.train("ulmfit", corpus, epochs=1, units="chars", direction=direction, **SMALL)
        words = ["小明", "打电话"]
        (found,) = model.encode_tokens([words])
        (single,) = model.encode_tokens([list("小明打电话")])
        places = [1, 4] if direction == "forward" else [0, 2]
        np.testing.assert_allclose(found.layers, single.layers[:, places], atol=1e-6)


def test_what_comes_later_does_not_change_a_state(model, corpus):
    words = corpus.sentence(0)[:3]
    (one,), (other,) = (list(model.encode_tokens([given])) for given in (words, [*words[:2], "公园"]))
    np.testing.assert_allclose(one.layers[:, :2], other.layers[:, :2], atol=1e-6)
    assert np.abs(one.layers[1:, 2] - other.layers[1:, 2]).max() > 1e-3


def test_further_training_keeps_the_known_units_and_begins_new_ones_at_the_mean(model):
    more = Corpus.from_sentences(["小明的显微镜好。"] * 8)
    further = polyseme.train("ulmfit", more, start=model, epochs=1, lr=0.0, min_count=1, threads=1)
    n = len(model.units)
    table = further.module.table.detach()
    torch.testing.assert_close(table[:n], model.module.table.detach())
    torch.testing.assert_close(table[n:], model.module.table.detach().mean(dim=0).expand(len(table) - n, -1))
    with pytest.raises(OptionError, match="dim"):
        polyseme.train("ulmfit", more, start=model, dim=99)


def test_sampling_keeps_to_its_bounds():
    log_chances = torch.log(torch.tensor([0.5, 0.3, 0.15, 0.05]))
    assert {Sampling(top_k=2, seed=s).draw(log_chances) for s in range(40)} == {0, 1}
    assert {Sampling(top_p=0.5, seed=s).draw(log_chances) for s in range(40)} == {0}
    assert {Sampling(top_p=0.9, seed=s).draw(log_chances) for s in range(60)} == {0, 1, 2}
    assert Sampling(temperature=0).draw(log_chances) == 0
    draws = [Sampling(seed=s).draw(log_chances) for s in range(2000)]
    np.testing.assert_allclose(np.bincount(draws, minlength=4) / 2000, [0.5, 0.3, 0.15, 0.05], atol=0.04)
    with pytest.raises(OptionError, match="top_p"):
        Sampling(top_p=0)


def test_texts_are_written_by_command(model, tmp_path):
    model.save(tmp_path / "m")
    done = CliRunner().invoke(
        commands, ["generate", str(tmp_path / "m"), "小明", "--length", "5", "--seed", "4", "--number", "2", "--json"]
    )
    assert done.exit_code == 0, done.output
    assert [one["text"] for one in json.loads(done.stdout)] == [
        model.generate("小明", length=5, seed=seed) for seed in (4, 5)
    ]
