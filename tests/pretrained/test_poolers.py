"""Poolers: which Transformers learn to classify through theirs, with the weights that transformers reads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import sentence_transformers
import torch
import transformers
from safetensors.torch import load_file, save_file
from tests.tasks.conftest import reviews
from tiny_transformers import SIZES, TEXTS, save_tokenizer, wordpiece
from transformers import AutoModel, AutoTokenizer

import polyseme
from polyseme.contexts.transformer.files.huggingface import write_huggingface
from polyseme.contexts.transformer.pretrain.start import copied
from polyseme.data.examples import Examples
from polyseme.sentences.files.sentence_transformers import write_sentence_transformers
from polyseme.sentences.transformer import POOLER, SentenceTransformer, usual_mode

CONFIGS = {
    "Bert": transformers.BertConfig(**SIZES),
    "Albert": transformers.AlbertConfig(**SIZES, embedding_size=16),
    "MobileBert": transformers.MobileBertConfig(
        **SIZES, embedding_size=16, intra_bottleneck_size=16, num_feedforward_networks=2, classifier_activation=True
    ),
}
TUNED = {"head": "linear", "encoder_mode": "finetune", "threads": 1, "epochs": 1, "batch_size": 8, "seed": 1}


def saved(cls: type, config: transformers.PreTrainedConfig, folder: Path, *, called: str | None = None) -> Path:
    """A new network of a class, whose folder says that it is of the class ``called``."""
    torch.manual_seed(4)
    whole = cls(config)
    for parameter in whole.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    whole.save_pretrained(folder)
    record = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**record, "architectures": [called or cls.__name__]}), "utf-8")
    save_tokenizer(folder, wordpiece())
    return folder


def without(folder: Path, part: str) -> Path:
    """The folder without the weights whose names have this part."""
    file = folder / "model.safetensors"
    kept = {name: tensor.clone() for name, tensor in load_file(file).items() if part not in name}
    save_file(kept, file, metadata={"format": "pt"})
    return folder


def pooled(model: polyseme.Model, texts: list[str]) -> np.ndarray:
    """The first states of texts through the network's pooler."""
    states = [model.network(model.runner.together(model.pieces.ids([text])))[-1][0, 0] for text in texts]
    return model.network.pooled(torch.stack(states)).detach().numpy()


def theirs(folder: Path, texts: list[str]) -> np.ndarray:
    whole, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        return torch.cat([whole(**tokenizer(text, return_tensors="pt")).pooler_output for text in texts]).numpy()


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("called", ["ForMaskedLM", "ForPreTraining", "Model"])
def test_a_pooler_is_read_whatever_class_the_folder_names(kind, called, tmp_path):
    whole = getattr(transformers, f"{kind}ForPreTraining")
    folder = saved(whole, CONFIGS[kind], tmp_path / "hf", called=kind + called)
    model = polyseme.load(folder)
    assert usual_mode(model.network) == POOLER
    np.testing.assert_allclose(pooled(model, TEXTS), theirs(folder, TEXTS), atol=1e-5)
    model.save(tmp_path / "m")
    network, _ = copied(polyseme.load(tmp_path / "m"), seed=2)
    np.testing.assert_array_equal(network.pooler.weight.detach(), model.network.pooler.weight.detach())
    assert network.is_masked_lm == model.network.is_masked_lm == (called != "Model")


@pytest.mark.parametrize("part", ["pooler", "pooler.dense.bias"])
@pytest.mark.parametrize("called", ["BertForMaskedLM", "BertModel"])
def test_a_pooler_that_is_not_there_or_in_part_does_not_count(part, called, tmp_path):
    folder = without(saved(transformers.BertForPreTraining, CONFIGS["Bert"], tmp_path / "hf", called=called), part)
    model = polyseme.load(folder)
    assert usual_mode(model.network) == "mean"
    model.save(tmp_path / "m")
    again = polyseme.load(tmp_path / "m")
    assert usual_mode(again.network) == usual_mode(copied(again, seed=1)[0]) == "mean"
    assert not any("pooler" in name for name in again.parts().tensors)


def test_a_decoder_is_read_by_its_last_state_even_if_it_has_a_pooler(tmp_path):
    config = transformers.BertConfig(**SIZES, is_decoder=True)
    model = polyseme.load(saved(transformers.BertModel, config, tmp_path / "hf"))
    assert model.network.causal
    assert model.network.pooler is not None
    pairs = Examples.of([(text, text[::-1], label) for text, label in reviews(16)])
    cross = polyseme.fit("pair", pairs, encoder=model, **{**TUNED, "head": "cross"})
    assert not cross.reader.pooled


def test_a_network_that_learned_several_tasks_has_no_pooler_of_its_own(tmp_path):
    shape = {"dim": 16, "n_layers": 1, "n_heads": 2, "length": 16, "max_size": 200, "threads": 1, "epochs": 1}
    new = polyseme.train("mtdnn", {"reviews": Examples.of(reviews(16))}, batch_size=8, **shape)
    new.save(tmp_path / "m")
    write_huggingface(new, tmp_path / "hf")
    for model in (new, polyseme.load(tmp_path / "m"), polyseme.load(tmp_path / "hf")):
        assert usual_mode(model.network) == "mean"


def test_what_was_fine_tuned_through_a_pooler_is_the_same_in_sentence_transformers_and_in_int8(tmp_path):
    folder = saved(transformers.BertForPreTraining, CONFIGS["Bert"], tmp_path / "hf", called="BertForMaskedLM")
    model = polyseme.fit("classify", Examples.of(reviews(16)), encoder=polyseme.load(folder), **TUNED)
    assert model.encoder.pooling.modes == (POOLER,)
    vectors = model.encoder.encode(TEXTS)
    write_sentence_transformers(model.encoder, tmp_path / "st")
    found = sentence_transformers.SentenceTransformer(str(tmp_path / "st"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(found, vectors, atol=1e-5)
    np.testing.assert_allclose(polyseme.load(tmp_path / "st").encode(TEXTS), vectors, atol=1e-5)
    faster = model.encoder.at_precision("int8").encode(TEXTS)
    lengths = np.linalg.norm(faster, axis=1) * np.linalg.norm(vectors, axis=1)
    assert ((faster * vectors).sum(axis=1) > 0.99 * lengths).all()


@pytest.mark.parametrize("head", ["linear", "cosine"])
@pytest.mark.parametrize("own", ["cls", "max"])
def test_vectors_of_pairs_are_pooled_as_the_given_encoder_pools_them(head, own, tmp_path):
    bert = polyseme.load(saved(transformers.BertForPreTraining, CONFIGS["Bert"], tmp_path / "hf"))
    pairs = Examples.of([(text, text[::-1], n % 6) for n, (text, _) in enumerate(reviews(16))], scored=True)

    def modes(encoder, **options):
        learned = polyseme.fit("pair", pairs, encoder=encoder, **{**TUNED, "head": head}, **options)
        return learned.reader.learner.encoder.pooling.modes

    assert modes(SentenceTransformer(bert, (own,))) == (own,)
    assert modes(SentenceTransformer(bert, (own,)), pool="mean") == modes(bert) == ("mean",)
    assert modes(bert, pool="first") == (POOLER,)
