"""Transformers in int8: nearly the same vectors, and nothing else changes."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from tiny_transformers import GPT, byte_bpe, save_tokenizer

import polyseme
from polyseme.cli.main import polyseme as commands
from polyseme.contexts.transformer import inference_speed
from polyseme.contexts.transformer.inference_speed import OPERATIONS, Int8Weights, best_multiplier
from polyseme.errors import OptionError

LINES = ["The cat sat on the mat.", "短句。", "", "One more line, somewhat longer than the others, to be padded."]


@pytest.fixture(scope="module")
def bert(folders):
    return polyseme.load(folders("bert"))


MULTIPLIERS = [m for operation in OPERATIONS if (m := best_multiplier((operation,)))]


@pytest.mark.parametrize("multiplier", MULTIPLIERS, ids=lambda multiplier: multiplier.operation)
@torch.inference_mode()
def test_a_product_is_that_of_levels_with_one_scale_per_row_of_both(multiplier):
    rng = np.random.default_rng(1)
    x, weight, bias = rng.normal(size=(7, 50)), rng.normal(size=(6, 50)), rng.normal(size=6)
    x[2] *= 1000  # one scale for all would leave nothing of the other rows
    weight[3] *= 1000
    x[4], weight[5] = 0, 0
    x, weight, bias = (array.astype(np.float32) for array in (x, weight, bias))
    of_x, of_weight = np.abs(x).max(axis=1) / 127, np.abs(weight).max(axis=1) / multiplier.top
    levels_x = np.floor(x / np.where(of_x, of_x, 1)[:, None] + 0.5)
    levels_weight = np.rint(weight / np.where(of_weight, of_weight, 1)[:, None])
    wanted = levels_x @ levels_weight.T * np.outer(of_x, of_weight) + bias
    weights = Int8Weights(torch.from_numpy(weight), multiplier)
    product = weights.linear(torch.from_numpy(x), torch.from_numpy(bias)).numpy()
    np.testing.assert_allclose(product, wanted, rtol=1e-4, atol=1e-4 * np.outer(of_x, of_weight).max() * 127)
    np.testing.assert_allclose(product[4], bias, rtol=1e-6)
    assert weights.linear(torch.zeros(0, 50), torch.from_numpy(bias)).shape == (0, 6)


@pytest.mark.parametrize("instructions", ["AVX2", "AVX512_CORE"])
def test_without_vnni_no_sum_overflows(instructions):
    code = """
import torch
from polyseme.contexts.transformer.inference_speed import OPERATIONS, Int8Weights, best_multiplier
for operation in OPERATIONS:
    multiplier = best_multiplier((operation,))
    if multiplier:
        x = torch.ones(4, 64)
        y = Int8Weights(torch.ones(8, 64), multiplier).linear(x, torch.zeros(8))
        assert torch.allclose(y, torch.full((4, 8), 64.0), rtol=1e-4), (operation, y)
"""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": instructions}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def test_a_vector_does_not_depend_on_its_batch(bert):
    quick = bert.at_precision("int8")
    together = list(quick.encode_tokens([*LINES, "An outlier 价格 12345 ?!?!"]))
    for line, within in zip(LINES, together, strict=False):
        (alone,) = quick.encode_tokens([line])
        np.testing.assert_allclose(alone.layers, within.layers, atol=1e-5)


def test_nothing_of_torch_ao_computes(bert):
    modules = {type(module).__module__ for module in bert.at_precision("int8").reading.modules()}
    assert "polyseme.contexts.transformer.inference_speed" in modules
    assert not [name for name in modules if name.startswith("torch.ao")]


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
    monkeypatch.setattr(inference_speed, "_TRIAL", "import os; os.abort()")
    inference_speed.usable_multiplier.cache_clear()
    try:
        (found,) = bert.at_precision("int8").encode_tokens(LINES[:1])
    finally:
        inference_speed.usable_multiplier.cache_clear()
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
