"""Published Transformers give what transformers gives, one vector for each word, whatever the batch and the length."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tiny_transformers import KINDS, SIZES, TEXTS, save_tokenizer, theirs, wordpiece

import polyseme
from polyseme.contexts.transformer.encode import windows
from polyseme.contexts.transformer.files.huggingface import write_huggingface
from polyseme.contexts.transformer.network import TokenBatch
from polyseme.errors import OptionError

every_kind = pytest.mark.parametrize("name", KINDS)


@every_kind
def test_its_pieces_have_the_states_that_transformers_gives(name, folders):
    encoder = polyseme.load(folders(name))
    for text, found in zip(TEXTS, encoder.encode_pieces(TEXTS), strict=True):
        states, pieces, _ = theirs(folders(name), text)
        assert found.tokens == pieces
        np.testing.assert_allclose(found.layers, states, atol=1e-5)


@every_kind
def test_a_word_is_the_mean_of_the_pieces_that_stand_in_it(name, folders):
    encoder = polyseme.load(folders(name))
    text = TEXTS[2]
    found = next(encoder.encode_tokens([text]))
    states, _, spans = theirs(folders(name), text)
    assert "".join(found.tokens) == text.replace(" ", "")
    place = 0
    for number, word in enumerate(found.tokens):
        place = text.index(word, place)
        own = [n for n, (start, end) in enumerate(spans) if start < place + len(word) and end > place]
        np.testing.assert_allclose(found.layers[:, number], states[:, own].mean(axis=1), atol=1e-5)
        place += len(word)


@every_kind
def test_the_answer_does_not_depend_on_the_batch(name, folders):
    encoder = polyseme.load(folders(name))
    texts = [*TEXTS, "他", "", "learning " * 30]
    for text, found in zip(texts, encoder.encode_tokens(texts), strict=True):
        np.testing.assert_allclose(next(encoder.encode_tokens([text])).layers, found.layers, atol=2e-6)


@every_kind
def test_it_is_saved_to_equal_vectors_and_written_for_transformers(name, folders, tmp_path):
    encoder = polyseme.load(folders(name))
    encoder.save(tmp_path / "ours")
    write_huggingface(encoder, tmp_path / "theirs")
    again = polyseme.load(tmp_path / "ours")
    assert again.options == encoder.options
    expected = next(encoder.encode_pieces(TEXTS[2:])).layers
    np.testing.assert_array_equal(next(again.encode_pieces(TEXTS[2:])).layers, expected)
    states, _, _ = theirs(tmp_path / "theirs", TEXTS[2])
    np.testing.assert_allclose(states, expected, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "albert", "gpt2", "distilbert"])  # the last two read no token types
def test_a_pair_has_the_same_states_in_what_is_written_for_transformers(name, folders, tmp_path):
    encoder = polyseme.load(folders(name))
    write_huggingface(encoder, tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    network = transformers.AutoModel.from_pretrained(tmp_path, local_files_only=True).eval()
    with torch.inference_mode():
        given = tokenizer(TEXTS[1], TEXTS[2], return_tensors="pt")
        states = network(**given, output_hidden_states=True).hidden_states
    found = next(encoder.encode_pieces([(TEXTS[1], TEXTS[2])]))
    np.testing.assert_allclose(found.layers, torch.stack(states)[:, 0], atol=1e-5)


def test_xlnet_is_told_which_subwords_are_of_the_same_text_of_a_pair(tmp_path):
    torch.manual_seed(3)
    whole = transformers.XLNetModel(
        transformers.XLNetConfig(vocab_size=400, d_model=32, n_layer=2, n_head=4, d_inner=48)
    ).eval()
    for name, parameter in whole.named_parameters():
        if "seg" in name or "r_s_bias" in name:
            torch.nn.init.normal_(parameter)  # as if they had been learned: new ones hardly tell
    whole.save_pretrained(tmp_path)
    save_tokenizer(tmp_path, wordpiece())
    encoder = polyseme.load(tmp_path)
    ids, types = encoder.pieces.pair(TEXTS[1], TEXTS[2])
    with torch.inference_mode():
        given = {"input_ids": torch.from_numpy(ids)[None], "token_type_ids": torch.from_numpy(types)[None]}
        states = torch.stack(whole(**given, output_hidden_states=True).hidden_states)[:, 0]
        without = torch.stack(whole(given["input_ids"], output_hidden_states=True).hidden_states)[:, 0]
    found = next(encoder.encode_pieces([(TEXTS[1], TEXTS[2])]))
    np.testing.assert_allclose(found.layers, states, atol=1e-5)
    assert np.abs(found.layers - without.numpy()).max() > 1e-3


T5 = transformers.T5Config(vocab_size=400, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
MARIAN = transformers.MarianConfig(
    vocab_size=400, decoder_vocab_size=400, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
    decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64, pad_token_id=0,
    decoder_start_token_id=0, eos_token_id=3,
)  # fmt: skip


@pytest.mark.parametrize(("cls", "config"), [("T5EncoderModel", T5), ("T5Model", T5), ("MarianMTModel", MARIAN)])
def test_of_a_network_that_writes_too_the_encoder_is_read(cls, config, tmp_path):
    torch.manual_seed(3)
    whole = getattr(transformers, cls)(copy.deepcopy(config)).eval()
    whole.save_pretrained(tmp_path)
    save_tokenizer(tmp_path, wordpiece())
    encoder = polyseme.load(tmp_path)
    ids = torch.tensor([encoder.pieces.tokenizer.encode(TEXTS[0]).ids])
    with torch.inference_mode():
        states = whole.get_encoder()(ids, output_hidden_states=True).hidden_states
    found = next(encoder.encode_pieces(TEXTS[:1])).layers
    np.testing.assert_allclose(found, torch.stack(states)[:, 0], atol=1e-5)
    encoder.save(tmp_path / "ours")
    np.testing.assert_array_equal(next(polyseme.load(tmp_path / "ours").encode_pieces(TEXTS[:1])).layers, found)


def test_the_top_layer_is_what_the_network_gives_in_the_end(tmp_path):
    torch.manual_seed(3)
    sizes = {**SIZES, "max_position_embeddings": 60}
    whole = transformers.CLIPTextModel(transformers.CLIPTextConfig(**sizes)).eval()
    for parameter in whole.parameters():  # its last normalisation changes nothing as it is made
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    whole.save_pretrained(tmp_path)
    save_tokenizer(tmp_path, wordpiece())
    encoder = polyseme.load(tmp_path)
    ids = torch.tensor([encoder.pieces.tokenizer.encode(TEXTS[0]).ids])
    with torch.inference_mode():
        expected = whole(ids).last_hidden_state[0]
    np.testing.assert_allclose(next(encoder.encode_pieces(TEXTS[:1])).layers[-1], expected, atol=1e-5)


def test_settings_that_do_not_name_the_architecture_are_read_by_the_names_of_the_weights(folders, tmp_path):
    shutil.copytree(folders("bert"), tmp_path / "old")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "old" / name).unlink()
    numbers = wordpiece()[0].get_vocab()
    (tmp_path / "old/vocab.txt").write_text("\n".join(sorted(numbers, key=numbers.__getitem__)), encoding="utf-8")
    settings = json.loads((folders("bert") / "config.json").read_text())
    for name in ("model_type", "architectures"):
        settings.pop(name)
    (tmp_path / "old/config.json").write_text(json.dumps(settings))
    encoder = polyseme.load(tmp_path / "old")
    assert encoder.language == "masked"
    states, pieces, _ = theirs(folders("bert"), TEXTS[1])
    found = next(encoder.encode_pieces(TEXTS[1:2]))
    assert found.tokens == pieces
    np.testing.assert_allclose(found.layers, states, atol=1e-5)


def test_a_roformer_cuts_words_with_jieba_wherever_it_is_saved(tmp_path):
    torch.manual_seed(3)
    text = "他打了个电话，明天去公园 A"
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"他打了个电话明天去公园，", "电话", "明天", "公园", "a"]
    whole = transformers.RoFormerForMaskedLM(transformers.RoFormerConfig(**{**SIZES, "vocab_size": len(names)})).eval()
    whole.save_pretrained(tmp_path / "m")
    (tmp_path / "m/vocab.txt").write_text("\n".join(names), encoding="utf-8")
    pieces = ["[CLS]", "他", "打", "了", "个", "电话", "，", "明天", "去", "公园", "a", "[SEP]"]  # 打了个 is no piece
    with torch.inference_mode():
        ids = torch.tensor([[names.index(piece) for piece in pieces]])
        states = torch.stack(whole(ids, output_hidden_states=True).hidden_states)[:, 0]
    encoder = polyseme.load(tmp_path / "m")
    encoder.save(tmp_path / "ours")
    write_huggingface(encoder, tmp_path / "theirs")
    for folder in ("m", "ours", "theirs"):
        found = next(polyseme.load(tmp_path / folder).encode_pieces([text]))
        assert found.tokens == pieces
        np.testing.assert_allclose(found.layers, states, atol=1e-5)
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs", local_files_only=True)
    assert again.convert_ids_to_tokens(again(text)["input_ids"]) == pieces


@pytest.mark.parametrize("name", ["albert", "gpt2"])
def test_a_vocabulary_of_bert_is_read_whatever_the_architecture(name, folders, tmp_path):
    shutil.copytree(folders(name), tmp_path / "m")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "m" / file).unlink()
    numbers = wordpiece()[0].get_vocab()
    (tmp_path / "m/vocab.txt").write_text("\n".join(sorted(numbers, key=numbers.__getitem__)), encoding="utf-8")
    tokenizer = transformers.BertTokenizer.from_pretrained(tmp_path / "m", local_files_only=True)
    network = transformers.AutoModel.from_pretrained(folders(name), local_files_only=True).eval()
    ids = tokenizer(TEXTS[1], return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        states = network(ids, output_hidden_states=True).hidden_states
    found = next(polyseme.load(tmp_path / "m").encode_pieces(TEXTS[1:2]))
    assert found.tokens == tokenizer.convert_ids_to_tokens(ids[0])
    np.testing.assert_allclose(found.layers, torch.stack(states)[:, 0], atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("setting", ["dtype", "torch_dtype", None])
@pytest.mark.parametrize("form", ["safetensors", "bin", "several safetensors"])
def test_weights_of_another_precision_are_computed_with_in_float32(dtype, setting, form, folders, tmp_path):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(folders("roberta") / name, tmp_path / name)
    settings = json.loads((folders("roberta") / "config.json").read_text())
    settings.pop("dtype")
    (tmp_path / "config.json").write_text(json.dumps(settings if setting is None else {**settings, setting: dtype}))
    weights = load_file(folders("roberta") / "model.safetensors")
    weights = {name: tensor.to(getattr(torch, dtype)) for name, tensor in weights.items()}
    if form == "bin":
        torch.save(weights, tmp_path / "pytorch_model.bin")
    elif form == "safetensors":
        save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    else:
        places = {name: f"model-0000{number % 2 + 1}-of-00002.safetensors" for number, name in enumerate(weights)}
        for file in set(places.values()):
            save_file({n: t for n, t in weights.items() if places[n] == file}, tmp_path / file, {"format": "pt"})
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    states, _, _ = theirs(tmp_path, TEXTS[0])
    assert states.dtype == np.float32
    np.testing.assert_allclose(next(polyseme.load(tmp_path).encode_pieces(TEXTS[:1])).layers, states, atol=1e-5)


def test_settings_of_a_tokenizer_that_list_thousands_of_tokens_are_read(folders, tmp_path):
    shutil.copytree(folders("bert"), tmp_path / "m")
    file = tmp_path / "m/tokenizer_config.json"
    unused = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": False}
    tokens = {str(n): {"content": f"<unused{n}>{' ' * 100}", **unused} for n in range(300, 6300)}
    file.write_text(json.dumps({**json.loads(file.read_text()), "extra": tokens}))
    assert file.stat().st_size > 1 << 20  # as in Gemma's
    assert polyseme.load(tmp_path / "m").n_layers == 3


def test_a_limit_that_is_set_as_the_longest_sequence_is_kept(tmp_path):
    config = transformers.MptConfig(vocab_size=400, d_model=32, n_heads=4, n_layers=1, max_seq_len=16)
    transformers.MptModel(config).save_pretrained(tmp_path)
    save_tokenizer(tmp_path, wordpiece())
    assert next(polyseme.load(tmp_path).encode_tokens(["learning " * 20])).layers.shape == (2, 20, 32)


def test_a_language_model_keeps_its_head_through_saving_and_writing(folders, tmp_path):
    encoder = polyseme.load(folders("bert"))
    write_huggingface(encoder, tmp_path / "theirs")
    whole = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "theirs", local_files_only=True).eval()
    ids = torch.tensor([[2, 7, 8, 9, 3]])
    with torch.inference_mode():
        np.testing.assert_allclose(encoder.network.logits(TokenBatch(ids)), whole(ids).logits, atol=1e-5)


MOBILE = {"embedding_size": 16, "intra_bottleneck_size": 16, "num_feedforward_networks": 2}


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("Bert", {}),
        ("Albert", {"embedding_size": 16}),
        ("MobileBert", MOBILE),
        ("MobileBert", {**MOBILE, "classifier_activation": True}),
        ("MegatronBert", {}),
    ],
)
def test_pairs_are_judged_as_by_transformers(name, settings, tmp_path):
    torch.manual_seed(3)
    config = getattr(transformers, f"{name}Config")(**SIZES, **settings)
    whole = getattr(transformers, f"{name}ForPreTraining")(config).eval()
    for parameter in whole.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    whole.save_pretrained(tmp_path)
    save_tokenizer(tmp_path, wordpiece())
    network = polyseme.load(tmp_path).network
    assert network.tells_pairs
    ids, types = torch.randint(5, 300, (3, 8)), torch.tensor([[0] * 4 + [1] * 4] * 3)
    with torch.inference_mode():
        found = network.pair_scores(network.top(TokenBatch(ids, None, types)))
        told = whole(ids, token_type_ids=types)
    expected = told.sop_logits if name == "Albert" else told.seq_relationship_logits
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("pooling", ["first", "last"])
def test_a_word_can_be_its_first_or_last_piece(pooling, folders, tmp_path):
    encoder = polyseme.load(folders("bert"))
    encoder.options = type(encoder.options)(pieces=pooling)
    pieces = next(encoder.encode_pieces(["电话"]))
    word = next(encoder.encode_tokens([["电话"]]))
    assert len(pieces.tokens) == 4  # [CLS], two characters, [SEP]
    np.testing.assert_array_equal(word.layers[:, 0], pieces.layers[:, 1 if pooling == "first" else 2])


def test_words_that_are_given_are_read_as_the_text_they_make(folders):
    encoder = polyseme.load(folders("roberta"))
    raw = next(encoder.encode_tokens(["Deep learning works well for 中文 and English"]))
    given = next(encoder.encode_tokens([["Deep", "learning", "works", "well", "for", "中文", "and", "English"]]))
    # No space is put beside Chinese characters, so 中文 and its right neighbour differ from the raw text.
    np.testing.assert_array_equal(raw.layers[0, :5], given.layers[0, :5])
    assert raw.tokens == given.tokens


def test_a_long_sentence_is_read_to_its_end_in_windows(folders):
    encoder = polyseme.load(folders("bert"))
    words = ["电话", "公园", "明天"] * 40
    long = next(encoder.encode_tokens([words]))
    assert long.layers.shape[1] == 120
    alone = next(encoder.encode_tokens([words[:12]]))
    changed = next(encoder.encode_tokens([[*words[:-1], "他"]]))
    assert not np.allclose(long.layers[-1, -1], changed.layers[-1, -1])
    assert np.isfinite(long.layers).all()
    assert (long.layers != 0).any(axis=2).all()
    np.testing.assert_allclose(long.layers[0, 0], alone.layers[0, 0], atol=1e-6)  # layer 0 knows no neighbours


@pytest.mark.parametrize("n", [0, 1, 9, 10, 11, 24, 25, 100])
@pytest.mark.parametrize("causal", [False, True])
def test_windows_answer_for_every_place_once(n, causal):
    found = windows(n, 10, causal=causal)
    answered = [place for window in found for place in range(window.first, window.last)]
    assert answered == list(range(n))
    assert all(window.start <= window.first <= window.last <= window.end <= n for window in found)
    assert all(window.end - window.start <= 10 for window in found)
    if causal:
        assert all(window.start == 0 or window.first - window.start >= 5 for window in found)


def test_odd_words_have_an_answer(folders):
    encoder = polyseme.load(folders("bert"))
    words = ["", " ", "。", "\x00", "😀👩‍👩‍👧", "ａｂｃ", "x" * 3000, "\ud800", "a\nb", "e\u0301"]
    found = next(encoder.encode_tokens([words]))
    assert found.tokens == words
    assert found.layers.shape == (3, len(words), 32)
    assert np.isfinite(found.layers).all()


def test_layers_are_chosen_by_name_or_number(folders):
    encoder = polyseme.load(folders("bert"))
    text = TEXTS[1:2]
    every = next(encoder.encode_tokens(text)).layers
    np.testing.assert_allclose(next(encoder.encode_tokens(text, layers="top")).layers, every[-1:], atol=1e-6)
    np.testing.assert_allclose(next(encoder.encode_tokens(text, layers=1)).layers, every[1:2], atol=1e-6)
    np.testing.assert_allclose(next(encoder.encode_tokens(text, layers="mean")).layers[0], every.mean(0), atol=1e-6)
    with pytest.raises(OptionError, match="layers must be all"):
        encoder.encode_tokens(text, layers=7)


@pytest.mark.parametrize("name", ["hf_tiny/bert-tiny-zh", "tf_tiny/bert-tiny-zh", "hf_tiny/gpt2-tiny"])
def test_the_tiny_checkpoints_agree_with_their_reference_outputs(name, shared_data):
    folder = shared_data / "models" / name
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    encoder = polyseme.load(folder)
    expected = np.load(folder / "reference_outputs.npz")
    given = json.loads((folder / "reference_inputs.json").read_text(encoding="utf-8"))
    texts = [tuple(pair) if pair[1] else pair[0] for pair in given.get("sentences", [])] or [given["text"]]
    pieces = given["tokens"] if "sentences" in given else [given["tokens"]]
    for number, found in enumerate(encoder.encode_pieces(texts)):
        assert found.tokens == pieces[number]
        states = expected["hidden_states"][:, number, : len(found.tokens)]
        np.testing.assert_allclose(found.layers, states, atol=1e-5)
    batch = TokenBatch(
        *(torch.from_numpy(expected[n]) for n in ("input_ids", "attention_mask", "token_type_ids") if n in expected)
    )
    logits = expected["mlm_logits" if "mlm_logits" in expected else "logits"]
    with torch.inference_mode():
        np.testing.assert_allclose(encoder.network.logits(batch), logits, atol=1e-5)


def test_a_tensorflow_bert_is_also_opened_by_one_of_its_files(shared_data):
    folder: Path = shared_data / "models" / "tf_tiny" / "bert-tiny-zh"
    text = ["中国的首都是北京。"]
    by_folder = next(polyseme.load(folder).encode_tokens(text)).layers
    by_file = next(polyseme.load(folder / "bert_model.ckpt.index").encode_tokens(text)).layers
    np.testing.assert_array_equal(by_folder, by_file)
