"""Cut, altered and hostile files of Transformers: one line each, soon, in little memory, and nothing of them is run."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, trainers
from tokenizers.implementations import BertWordPieceTokenizer

import polyseme
from polyseme.contexts.transformer.files.huggingface import read_tokenizer
from polyseme.contexts.transformer.files.tensor_bundle import masked_crc32c
from polyseme.contexts.transformer.tokenizer import Pieces
from polyseme.errors import FormatError, MissingExtra, PolysemeError


def refused(folder: Path, said: str = ".") -> None:
    with pytest.raises(FormatError, match=said) as error:
        polyseme.load(folder)
    assert "\n" not in str(error.value)


@pytest.fixture
def folder(folders, tmp_path) -> Path:
    shutil.copytree(folders("bert"), tmp_path / "m")
    return tmp_path / "m"


def change(file: Path, **settings: object) -> None:
    record = {**json.loads(file.read_text()), **settings}
    file.write_text(json.dumps({name: value for name, value in record.items() if value is not None}))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"auto_map": {"AutoModel": "modeling_evil.Evil"}}, "custom code"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised weights"),
        ({"model_type": "no-such-model"}, "no architecture"),
        ({"model_type": ""}, "no architecture"),
        ({"hidden_size": 10**9}, "too large for an encoder"),
        ({"vocab_size": 9_000_000}, "describes at least"),
        ({"num_hidden_layers": 10**6}, "too large for an encoder"),
        ({"text_config": {"num_hidden_layers": 10**6}}, "too large for an encoder"),
        ({"text_config": {"num_labels": 10**7}}, "too large for an encoder"),
        ({"num_hidden_layers": 3}, "is missing"),
        ({"num_attention_heads": 5}, "bert"),
        ({"num_attention_heads": 0}, "bert"),
        ({"hidden_size": 64}, "has the shape"),
        ({"hidden_size": "many"}, "bert"),
        ({"hidden_act": "exec"}, "bert"),
        ({"vocab_size": -5}, "bert"),
        ({"max_position_embeddings": 9_999_999, "hidden_size": 9_999_999}, "describes at least"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, said, folder):
    change(folder / "config.json", **settings)
    refused(folder, said)


def test_a_number_of_modules_by_any_name_is_bounded(folders, tmp_path):
    shutil.copytree(folders("mobilebert"), tmp_path / "m")
    change(tmp_path / "m/config.json", num_feedforward_networks=9_999_999)
    refused(tmp_path / "m", "more than 30,000 modules")


def test_labels_that_are_only_counted_are_not_made(folder):
    change(folder / "config.json", num_labels=100_000)
    assert polyseme.load(folder).network.whole.config.num_labels == 2


@pytest.mark.parametrize("said", [5, {}, "BertModel", [None]])
def test_a_class_that_is_no_name_is_not_looked_for(said, folder):
    change(folder / "config.json", architectures=said)
    assert polyseme.load(folder).n_layers == 3


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"model_type": "bert"}'])
def test_broken_settings_are_refused(content, folder):
    (folder / "config.json").write_bytes(content)
    refused(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_folder_that_lacks_a_file_says_so(name, folder):
    (folder / name).unlink()
    refused(folder)


@pytest.mark.parametrize("keep", [0, 4, 9, 100, 0.5, 0.999])
def test_weights_that_are_cut_short_are_refused(keep, folder):
    file = folder / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[: keep if isinstance(keep, int) else int(keep * len(content))])
    refused(folder, "model.safetensors")


def test_weights_that_are_not_finite_are_refused(folder):
    file = folder / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-4:] = struct.pack("<f", float("nan"))
    file.write_bytes(content)
    refused(folder, "not finite")


def test_weights_of_eight_bits_are_read_as_the_numbers_they_are(folder):
    name = "bert.encoder.layer.0.attention.self.query.weight"
    tensors = load_file(folder / "model.safetensors")
    tensors[name] = tensors[name].to(torch.float8_e4m3fn)
    save_file(tensors, folder / "model.safetensors")
    found = polyseme.load(folder).network.whole.state_dict()[name]
    torch.testing.assert_close(found, tensors[name].float(), rtol=0, atol=0)


@pytest.mark.parametrize("form", ["zip", "stream"])
@pytest.mark.parametrize("kept", [0, 18, 0.3, 0.6, -1])
def test_torch_files_that_are_cut_short_are_refused(form, kept, folder):
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin", _use_new_zipfile_serialization=form == "zip")
    content = (folder / "pytorch_model.bin").read_bytes()
    end = int(kept * len(content)) if isinstance(kept, float) else kept
    (folder / "pytorch_model.bin").write_bytes(content[:end])
    refused(folder, "pytorch_model.bin")


def test_a_pickle_among_the_weights_is_never_run(folder, tmp_path):
    (folder / "model.safetensors").unlink()
    trap = tmp_path / "trap"

    class Evil:
        def __reduce__(self):
            return (open, (str(trap), "w"))

    torch.save({"weights": Evil()}, folder / "pytorch_model.bin")
    refused(folder, "not a tensor file that is safe to read")
    assert not trap.exists()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.Evil", None]}}),
        ("tokenizer_config.json", {"tokenizer_class": "pipeline"}),
        ("tokenizer.json", {"model": {"type": "WordPiece"}}),
        ("tokenizer.json", {"version": "99"}),
    ],
)
def test_tokenizers_that_cannot_be_are_refused(name, settings, folder):
    change(folder / name, **settings)
    refused(folder)


@pytest.mark.parametrize("form", ["single", "pair"])
def test_a_template_with_an_unknown_special_token_is_refused(form, folder):
    record = json.loads((folder / "tokenizer.json").read_text())
    record["post_processor"][form][0]["SpecialToken"]["id"] = "[NOWHERE]"
    (folder / "tokenizer.json").write_text(json.dumps(record))
    refused(folder, "special token '.NOWHERE.' without an id")


GROWING = {"type": "Replace", "pattern": {"Regex": "."}, "content": "a" * 16}


def sequence(kind: str) -> dict[str, object]:
    return {"Sequence": {"id": "A" if kind == "first" else "B", "type_id": 0 if kind == "first" else 4000}}


@pytest.mark.parametrize(
    ("part", "content", "said"),
    [
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"}, "characters is truncated"),
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "EAAAAP////////////////////9hYmMA"}, "out of"),
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "BAAAAP8DAAA="}, "leads out of itself"),
        ("normalizer", {"type": "Sequence", "normalizers": [GROWING] * 8}, "make texts too long"),
        ("pre_tokenizer", {"type": "FixedLength", "length": 0}, "pieces of length 0"),
        ("post_processor", {"type": "BertProcessing", "sep": ["[SEP]", 4000], "cls": ["[CLS]", 3]}, "number 4,000"),
        (
            "post_processor",
            {
                "type": "TemplateProcessing", "single": [sequence("first")],
                "pair": [sequence("first"), sequence("second")], "special_tokens": {},
            },
            "the token type 4,000",
        ),
        (
            "post_processor",
            {
                "type": "TemplateProcessing", "pair": [sequence("first")],
                "single": [*[{"SpecialToken": {"id": "q", "type_id": 0}}] * 70, sequence("first")],
                "special_tokens": {"q": {"id": "q", "ids": [1], "tokens": ["q"]}},
            },
            "adds 70 tokens",
        ),
    ],
)  # fmt: skip
def test_parts_of_a_tokenizer_that_cannot_be_are_refused(part, content, said, folder):
    change(folder / "tokenizer.json", **{part: content})
    refused(folder, said)


def test_a_text_on_which_a_tokenizer_gives_up_gets_one_line(folder):
    pattern = {"Regex": "^(([a-z])+.)+[A-Z]([a-z])+$"}
    change(folder / "tokenizer.json", normalizer={"type": "Replace", "pattern": pattern, "content": "x"})
    with pytest.raises(FormatError, match=r"cannot read a text: its tokenizer\.json was altered") as e:
        next(polyseme.load(folder).encode_tokens(["a" * 33 + "!"]))
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("prefix", ["x", "##", "\u4e2d"])  # the library would panic, or abort the process
@pytest.mark.parametrize("merge", ["list", "line"])
def test_merges_that_lack_the_prefix_of_subwords_are_refused(prefix, merge, folders, tmp_path):
    folder = tmp_path / "m"
    shutil.copytree(folders("gpt2"), folder)
    record = json.loads((folder / "tokenizer.json").read_text())
    model = record["model"]
    if merge == "line":
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
    model["continuing_subword_prefix"] = prefix
    (folder / "tokenizer.json").write_text(json.dumps(record))
    refused(folder, "does not begin with")


def test_merges_of_subwords_with_a_prefix_are_read(tmp_path):
    made = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=["<unk>"], continuing_subword_prefix="##")
    made.train_from_iterator(["counting words counts", "的确 的话"], trainer)
    found = Pieces.read(made.to_str().encode(), b"{}", where="here")
    assert [found.names[n] for n in found.ids(["counts"])[0]] == made.encode("counts").tokens


def test_a_vocabulary_without_a_piece_for_the_unknown_is_refused(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    names = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    tokenizer = BertWordPieceTokenizer({name: number for number, name in enumerate(names)})
    tokenizer.save(str(folder / "tokenizer.json"))
    record = json.loads((folder / "tokenizer.json").read_text())
    record["added_tokens"] = [token for token in record["added_tokens"] if token["content"] != "[UNK]"]
    record["model"]["vocab"].pop("[UNK]", None)
    (folder / "tokenizer.json").write_text(json.dumps(record))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    refused(folder, "tokenizer that does not work")


@pytest.mark.parametrize("said", ["long", None, [], -3, 0.5])
def test_a_limit_that_is_no_number_is_as_good_as_none(said, folder):
    change(folder / "tokenizer_config.json", model_max_length=said)
    assert polyseme.load(folder).runner.limit == 64


@pytest.mark.parametrize(("number", "said"), [(5000, "pieces and a network of"), (2**31 - 1, "2,147,483,647")])
def test_a_tokenizer_larger_than_the_network_is_refused(number, said, folder):
    record = json.loads((folder / "tokenizer.json").read_text())
    record["model"]["vocab"]["surplus"] = number
    (folder / "tokenizer.json").write_text(json.dumps(record))
    refused(folder, said)


@pytest.mark.parametrize(
    ("name", "missing", "wanted"),
    [
        ("bert-tiny-zh", ("vocab.txt", "tokenizer.json", "tokenizer_config.json"), "tokenizer.json or vocab.txt"),
        ("bert-tiny-zh", ("vocab.txt", "tokenizer.json"), "tokenizer.json or vocab.txt"),
        ("gpt2-tiny", ("vocab.json", "merges.txt"), "tokenizer.json or vocab.json and merges.txt"),
    ],
)
def test_a_folder_without_a_vocabulary_is_refused(name, missing, wanted, shared_data, tmp_path):
    shutil.copytree(shared_data / "models/hf_tiny" / name, tmp_path / "m")
    for file in missing:
        (tmp_path / "m" / file).unlink()
    refused(tmp_path / "m", f"m has no tokenizer: copy {wanted} into it$")


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt", "special_tokens_map.json"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_only_regular_files_are_read_as_a_tokenizer(kind, name, folder):
    (folder / "tokenizer.json").unlink()
    if kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to("/dev/zero")
    refused(folder, f"{name} is not a regular file")


def test_files_beyond_the_size_of_a_tokenizer_are_not_read(folder):
    with (folder / "tokenizer.json").open("r+b") as file:
        file.truncate(1 << 33)
    refused(folder, "tokenizer.json is too large for a tokenizer: 8,589,934,592 bytes$")


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt"])
def test_a_folder_in_place_of_a_vocabulary_is_refused(name, folder):
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    (folder / name).mkdir()
    refused(folder, "has no tokenizer")


def test_a_truncated_vocabulary_is_refused_and_one_that_is_padded_is_not(shared_data, tmp_path):
    shutil.copytree(shared_data / "models/hf_tiny/bert-tiny-zh", tmp_path / "m")
    (tmp_path / "m/tokenizer.json").unlink()
    vocabulary = tmp_path / "m/vocab.txt"
    pieces = vocabulary.read_text(encoding="utf-8").splitlines()
    vocabulary.write_text("\n".join(pieces[:641]), encoding="utf-8")
    refused(tmp_path / "m", "vocab.txt is truncated: 641 pieces of 1,281$")
    vocabulary.write_text("\n".join(pieces[:1200]), encoding="utf-8")
    assert len(polyseme.load(tmp_path / "m").pieces) == 1200


def test_weights_spread_over_files_are_read_and_lead_nowhere_else(folder):
    whole = polyseme.load(folder)
    file = folder / "model.safetensors"
    file.rename(folder / "model-00001-of-00001.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-00001-of-00001.safetensors"}}))
    text = ["他打了个电话"]
    spread = next(polyseme.load(folder).encode_tokens(text)).layers
    np.testing.assert_array_equal(spread, next(whole.encode_tokens(text)).layers)
    index.write_text(json.dumps({"weight_map": {"a": "../../etc/passwd"}}))
    refused(folder, "does not say which files")


@pytest.mark.skipif(find_spec("sentencepiece") is not None, reason="sentencepiece is installed")
def test_a_tokenizer_that_needs_another_package_says_which(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    (folder / "spiece.model").write_bytes(b"\x0a\x0e\x0a\x05<unk>")
    change(folder / "config.json", model_type="albert")
    with pytest.raises(MissingExtra, match=r"pip install 'polyseme\[sentencepiece\]'"):
        read_tokenizer(folder)


def test_nothing_is_asked_of_the_network(folder, monkeypatch):
    def no_network(*_: object, **__: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    (folder / "tokenizer.json").unlink()
    refused(folder)
    with pytest.raises(PolysemeError):
        polyseme.load("bert-base-chinese")


# ---- TensorFlow checkpoints


@pytest.fixture
def checkpoint(shared_data, tmp_path) -> Path:
    source = shared_data / "models" / "tf_tiny" / "bert-tiny-zh"
    for name in ("bert_config.json", "vocab.txt", "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"):
        shutil.copyfile(source / name, tmp_path / name)
    return tmp_path


def test_the_checksum_is_that_of_the_standard():
    # RFC 3720, B.4: 32 bytes of zeros have the CRC-32C 0x8a9136aa; masked as LevelDB does.
    crc = 0x8A9136AA
    assert masked_crc32c(bytes(32)) == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize("name", ["bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"])
@pytest.mark.parametrize("place", [0.0, 0.3, 0.7, 0.999])
def test_a_checkpoint_with_a_changed_byte_is_refused(name, place, checkpoint):
    content = bytearray((checkpoint / name).read_bytes())
    content[int(place * len(content))] ^= 0x55
    (checkpoint / name).write_bytes(content)
    refused(checkpoint)


@pytest.mark.parametrize("name", ["bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001", "vocab.txt"])
@pytest.mark.parametrize("keep", [0, 40, 0.5, 0.99])
def test_a_checkpoint_that_is_cut_short_is_refused(name, keep, checkpoint):
    content = (checkpoint / name).read_bytes()
    (checkpoint / name).write_bytes(content[: keep if isinstance(keep, int) else int(keep * len(content))])
    refused(checkpoint)


@pytest.mark.parametrize("name", ["bert_config.json", "vocab.txt", "bert_model.ckpt.data-00000-of-00001"])
def test_a_checkpoint_that_lacks_a_file_says_so(name, checkpoint):
    (checkpoint / name).unlink()
    refused(checkpoint)


def test_settings_named_after_the_model_are_read_unless_there_are_several(checkpoint):
    expected = next(polyseme.load(checkpoint).encode_pieces(["他打了个电话。"])).layers
    (checkpoint / "bert_config.json").rename(checkpoint / "bert_config_rbt3.json")
    np.testing.assert_array_equal(next(polyseme.load(checkpoint).encode_pieces(["他打了个电话。"])).layers, expected)
    shutil.copyfile(checkpoint / "bert_config_rbt3.json", checkpoint / "bert_config_rbtl3.json")
    refused(checkpoint, "no bert_config.json next to it")


def test_of_several_checkpoints_the_one_named_as_latest_is_read(checkpoint):
    for part in ("index", "data-00000-of-00001"):
        shutil.copyfile(checkpoint / f"bert_model.ckpt.{part}", checkpoint / f"model.ckpt-9.{part}")
    refused(checkpoint, "several checkpoints")
    (checkpoint / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/model.ckpt-9"\n')
    assert polyseme.load(checkpoint).n_layers == 4
