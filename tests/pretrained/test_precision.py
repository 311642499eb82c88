"""Transformers in int8: nearly the same vectors, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from tiny_transformers import GPT, byte_bpe, save_tokenizer

import polyseme
from polyseme.cli.main import polyseme as commands
from polyseme.contexts.transformer import precision
from polyseme.errors import OptionError

LINES = ["The cat sat on the mat.", "短句。", "", "One more line, somewhat longer than the others, to be padded."]


@pytest.fixture(scope="module")
def bert(folders):
    return polyseme.load(folders("bert"))


def test_rows_of_weights_have_scales_of_their_own():
    layer = torch.nn.Linear(32, 4)
    with torch.no_grad():
        layer.weight[0] *= 1000  # one scale for all would leave nothing of the other rows
    x = torch.randn(6, 32)
    found = precision.quantised_layers(torch.nn.Sequential(layer))(x).detach().numpy()
    wanted = layer(x).detach().numpy()
    np.testing.assert_allclose(found[:, 1:], wanted[:, 1:], atol=0.05)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_vectors_are_nearly_the_same_and_the_model_itself_is_not_touched(name, folders):
    bert = polyseme.load(folders(name))
    quick = bert.at_precision("int8")
    for a, b, again in zip(
        bert.encode_tokens(LINES), quick.encode_tokens(LINES), polyseme_of(bert).encode_tokens(LINES), strict=True
    ):
        assert a.tokens == b.tokens
        np.testing.assert_array_equal(a.layers, again.layers)
        if a.tokens:
            cosine = (a.layers * b.layers).sum() / np.linalg.norm(a.layers) / np.linalg.norm(b.layers)
            assert cosine > 0.99
            assert (a.layers[-1] != b.layers[-1]).any()
    assert quick.parts().tensors.keys() == bert.parts().tensors.keys()
    for name, array in quick.parts().tensors.items():
        np.testing.assert_array_equal(array, bert.parts().tensors[name])


def polyseme_of(model):
    return model.at_precision("int8").at_precision("fp32")


def test_a_machine_that_cannot_reads_in_floats_and_says_so(bert, monkeypatch, caplog):
    monkeypatch.setattr(precision, "_TRIAL", "import os; os.abort()")
    precision.int8_runs.cache_clear()
    try:
        (found,) = bert.at_precision("int8").encode_tokens(LINES[:1])
    finally:
        precision.int8_runs.cache_clear()
    (wanted,) = bert.encode_tokens(LINES[:1])
    np.testing.assert_array_equal(found.layers, wanted.layers)
    assert [record.message for record in caplog.records] == ["int8 does not run on this machine: reading in fp32"]


def test_a_network_without_layers_to_quantise_reads_in_floats_and_says_so(tmp_path, caplog):
    config = transformers.GPT2Config(**{**GPT, "n_layer": 0}, bos_token_id=0, eos_token_id=2)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    save_tokenizer(tmp_path, byte_bpe(around=False))
    model = polyseme.load(tmp_path)
    assert model.at_precision("int8").reading is model.network
    assert [record.message for record in caplog.records] == [
        "this gpt2 has no linear layers to quantise: reading in fp32"
    ]


def test_precision_by_command(folders, tmp_path, bert):
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(LINES[:2]), encoding="utf-8")
    arguments = ["encode", str(folders("bert")), str(file), "-o", str(tmp_path / "x.npy"), "--precision", "int8"]
    done = CliRunner().invoke(commands, arguments)
    assert done.exit_code == 0, done.output
    wanted = np.concatenate([s.layers for s in bert.at_precision("int8").encode_tokens(LINES[:2])], axis=1)
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), wanted.transpose(1, 0, 2), atol=1e-5)
    with pytest.raises(OptionError, match="precision"):
        bert.at_precision("fp8")
