"""TensorFlow checkpoints of BERT, in the forms in which they are found, give what transformers gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from bundle_writer import as_tensorflow, write_checkpoint
from tiny_transformers import SIZES
from torch import Tensor

import polyseme
from polyseme.errors import FormatError

VOCABULARY = [
    *("[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<S>", "<T>"),  # as in Google's Chinese BERT
    *("他", "打", "了", "个", "电", "话", "。", "a", "b", "##a", "##b", "ab", "e"),
]
TEXT = "他打了个电话AB é。"


@pytest.fixture(scope="module")
def whole() -> transformers.BertForPreTraining:
    torch.manual_seed(5)
    config = transformers.BertConfig(**{**SIZES, "vocab_size": len(VOCABULARY)}, type_vocab_size=16, hidden_act="relu")
    return transformers.BertForPreTraining(config).eval()


@pytest.fixture(scope="module")
def weights(whole) -> dict[str, Tensor]:
    left_out = ("cls.predictions.decoder", "position_ids")  # shared with the embeddings, or not weights
    return as_tensorflow({n: t for n, t in whole.state_dict().items() if not any(part in n for part in left_out)})


def saved(folder: Path, weights: dict[str, Tensor], vocabulary: list[str] = VOCABULARY, *, shards: int = 1) -> Path:
    write_checkpoint(folder / "bert_model.ckpt", weights, shards=shards)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    settings = {**SIZES, "vocab_size": len(VOCABULARY), "type_vocab_size": 16, "hidden_act": "relu"}
    (folder / "bert_config.json").write_text(json.dumps({**settings, "directionality": "bidi", "pooler_fc_size": 768}))
    return folder


def states(whole: transformers.BertForPreTraining, pieces: list[str]) -> np.ndarray:
    ids = torch.tensor([[VOCABULARY.index(piece) for piece in pieces]])
    with torch.inference_mode():
        return torch.stack(whole.bert(ids, output_hidden_states=True).hidden_states)[:, 0].numpy()


PIECES = ["[CLS]", *"他打了个电话", "ab", "e", "。", "[SEP]"]


def agrees(whole: transformers.BertForPreTraining, folder: Path, *, atol: float = 1e-5) -> None:
    found = next(polyseme.load(folder).encode_pieces([TEXT]))
    assert found.tokens == PIECES
    np.testing.assert_allclose(found.layers, states(whole, PIECES), atol=atol)


@pytest.mark.parametrize("shards", [1, 3])
def test_what_training_left_behind_is_passed_over(shards, whole, weights, tmp_path):
    of_training = {f"{name}/{slot}": torch.ones_like(t) for name, t in weights.items() for slot in ("adam_m", "adam_v")}
    step = {"global_step": torch.tensor(7), "loss_scale": torch.tensor(1.0)}
    folder = saved(tmp_path, {**weights, **of_training, **step}, shards=shards)
    agrees(whole, folder)
    assert polyseme.load(folder).network.tells_pairs


@pytest.mark.parametrize("scope", ["", "model/", "tower_0/student/"])
def test_the_encoder_is_found_in_any_scope(scope, whole, weights, tmp_path):
    folder = saved(tmp_path, {f"{scope}{name}": tensor for name, tensor in weights.items()})
    agrees(whole, folder)
    assert polyseme.load(folder).language == "masked"


def test_an_encoder_without_a_scope_is_read_too(whole, weights, tmp_path):
    agrees(whole, saved(tmp_path, {n.removeprefix("bert/"): t for n, t in weights.items() if n.startswith("bert/")}))


@pytest.mark.parametrize(
    ("left_out", "language"),
    [("bert/pooler", "masked"), ("cls/seq_relationship", "masked"), ("cls/predictions", None), ("cls", None)],
)
def test_heads_may_be_missing(left_out, language, whole, weights, tmp_path):
    folder = saved(tmp_path, {name: tensor for name, tensor in weights.items() if not name.startswith(left_out)})
    agrees(whole, folder)
    assert polyseme.load(folder).language == language


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_precisions_are_read(dtype, whole, weights, tmp_path):
    exact = {name: tensor.to(getattr(torch, dtype)) for name, tensor in weights.items()}
    again = {name: tensor.float() for name, tensor in exact.items()}
    (tmp_path / "plain").mkdir()
    expected = next(polyseme.load(saved(tmp_path / "plain", again)).encode_pieces([TEXT])).layers
    np.testing.assert_array_equal(next(polyseme.load(saved(tmp_path, exact)).encode_pieces([TEXT])).layers, expected)
    agrees(whole, tmp_path, atol=0.1)


def test_text_is_lowercased_unless_the_vocabulary_or_the_settings_say_otherwise(weights, tmp_path):
    def pieces() -> list[str]:
        return next(polyseme.load(tmp_path).encode_pieces(["AB é"])).tokens[1:-1]

    saved(tmp_path, weights)
    assert pieces() == ["ab", "e"]  # <S> and <T> are no capital letters of words
    saved(tmp_path, weights, [*VOCABULARY[:-1], "AB"])
    assert pieces() == ["AB", "[UNK]"]
    saved(tmp_path, weights)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert pieces() == ["[UNK]", "[UNK]"]


def test_a_piece_listed_twice_has_its_last_number(whole, weights, tmp_path):
    vocabulary = [*VOCABULARY[:1], "电", *VOCABULARY[2:]]
    agrees(whole, saved(tmp_path, weights, vocabulary))


def test_a_checkpoint_of_something_else_gets_one_line(weights, tmp_path):
    saved(tmp_path, {"model/layer-0/kernel/.ATTRIBUTES/VARIABLE_VALUE": torch.ones(2, 2)})
    with pytest.raises(FormatError, match=r"a checkpoint of something else: it has no tensor bert/…$"):
        polyseme.load(tmp_path)


def test_weights_of_torch_beside_settings_of_tensorflow_are_read(whole, tmp_path):
    """As in the first releases of Chinese BERTs: bert_config.json, vocab.txt and pytorch_model.bin."""
    saved(tmp_path, {"of another model": torch.ones(2)})  # and a checkpoint, which need not be BERT's
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in whole.state_dict().items()
    }
    torch.save(renamed, tmp_path / "pytorch_model.bin")
    agrees(whole, tmp_path)
    assert polyseme.load(tmp_path).language == "masked"
