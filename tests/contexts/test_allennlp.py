"""Code written for AllenNLP's Elmo: the same calls, shapes and numbers."""

from __future__ import annotations

import inspect
import json

import h5py
import numpy as np
import pytest
import torch

from polyseme.contexts.elmo.allennlp import AllenNlpElmo, ElmoBiLm, ElmoEmbedder, ElmoTokenEmbedder, batch_to_ids
from polyseme.contexts.elmo.files.bilm import write_bilm

SENTENCES = [["First", "sentence", "."], ["Another", "."], [], ["有", "字", "的", "x" * 80]]


@pytest.fixture(scope="module")
def files(random_elmo, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bilm")
    pair = (folder / "options.json", folder / "weights.hdf5")
    model = random_elmo(max_characters=50, scale=1.5)
    write_bilm(model, *pair)
    return pair, model


def test_batch_to_ids_is_the_published_numbering():
    ids = batch_to_ids([["ab", "的"], ["x" * 99], []])
    assert ids.shape == (3, 2, 50)
    assert ids[0, 0, :6].tolist() == [259, 98, 99, 260, 261, 261]
    assert ids[0, 1, :5].tolist() == [259, *(b + 1 for b in "的".encode()), 260]
    assert ids[1, 0].tolist() == [259, *[121] * 48, 260]
    assert not ids[1, 1].any()
    assert not ids[2].any()
    assert batch_to_ids([["<S>", "</S>"]])[0, :, :3].tolist() == [[259, 257, 260], [259, 258, 260]]


def test_representations_are_mixes_of_the_encoder_s_layers(files):
    pair, model = files
    elmo = AllenNlpElmo(*pair, num_output_representations=2, dropout=0)
    with torch.no_grad():
        elmo.scalar_mix_1.scalars.copy_(torch.tensor([0.0, 2.0, 1.0]))
        elmo.scalar_mix_1.gamma.fill_(3.0)
    out = elmo(batch_to_ids(SENTENCES))
    assert out["mask"].int().tolist() == [[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]]
    mixes = (np.ones(3) / 3, 3 * np.exp([0, 2, 1]) / np.exp([0, 2, 1]).sum())
    for weights, found in zip(mixes, out["elmo_representations"], strict=True):
        assert found.shape == (4, 4, elmo.get_output_dim())
        for row, sentence in enumerate(model.encode_tokens(SENTENCES)):
            n = len(sentence.tokens)
            wanted = np.tensordot(weights, sentence.layers, 1)
            np.testing.assert_allclose(found[row, :n].detach().numpy(), wanted, atol=5e-6)
            assert not found[row, n:].any()


def test_a_bilm_of_fewer_letters_cuts_long_words_as_the_encoder_does(random_elmo, tmp_path):
    pair = (tmp_path / "options.json", tmp_path / "weights.hdf5")
    model = random_elmo(max_characters=12)
    write_bilm(model, *pair)
    words = ["short", "ten_letter", "eleven_char", "a_word_longer_than_that"]
    found = AllenNlpElmo(*pair, 1, dropout=0)(batch_to_ids([words]))["elmo_representations"][0][0]
    wanted = next(model.encode_tokens([words], layers="mean")).layers[0]
    np.testing.assert_allclose(found.detach().numpy(), wanted, atol=5e-6)


def test_more_dimensions_and_kept_boundaries(files):
    pair, _ = files
    ids = batch_to_ids(SENTENCES)
    flat, kept = AllenNlpElmo(*pair, 1, dropout=0), AllenNlpElmo(*pair, 1, dropout=0, keep_sentence_boundaries=True)
    one = flat(ids)
    deep = flat(ids.reshape(2, 2, *ids.shape[1:]))
    assert deep["mask"].shape == (2, 2, 4)
    assert torch.equal(deep["elmo_representations"][0].reshape(4, 4, -1), one["elmo_representations"][0])
    whole = kept(ids)
    assert whole["mask"].sum(dim=1).tolist() == [5, 4, 2, 6]
    assert torch.equal(whole["elmo_representations"][0][0, 1:4], one["elmo_representations"][0][0, :3])


def test_layer_norm_counts_the_boundaries_as_allennlp_does(files):
    pair, _ = files
    ids = batch_to_ids(SENTENCES)
    layers = ElmoBiLm(*pair)(ids)
    real = layers["mask"].numpy()
    planes = []
    for plane in layers["activations"]:
        values = plane.numpy().astype(np.float64)
        inside = values[real]
        planes.append((values - inside.mean()) / np.sqrt(inside.var() + 1e-13))
    wanted = np.mean(planes, axis=0)[0, 1:4]
    found = AllenNlpElmo(*pair, 1, dropout=0, do_layer_norm=True)(ids)["elmo_representations"][0]
    np.testing.assert_allclose(found[0, :3].detach().numpy(), wanted, atol=5e-6)


def test_gradients_flow_only_where_asked(files):
    pair, _ = files
    for requires_grad in (False, True):
        elmo = AllenNlpElmo(*pair, 1, requires_grad=requires_grad, dropout=0.5)
        representation = elmo(batch_to_ids(SENTENCES))["elmo_representations"][0]
        representation.pow(2).sum().backward()
        # The representation is γ times something that does not depend on γ, and γ = 1: ∂Σr²/∂γ = 2 Σr².
        wanted = 2 * representation.detach().pow(2).sum()
        torch.testing.assert_close(elmo.scalar_mix_0.gamma.grad[0], wanted, rtol=1e-4, atol=0)
        for name, parameter in elmo._elmo_lstm.named_parameters():
            assert (parameter.grad is not None and bool(parameter.grad.any())) is requires_grad, name


def test_dropout_in_training_only(files):
    pair, _ = files
    elmo = AllenNlpElmo(*pair, 1)
    ids = batch_to_ids(SENTENCES)
    share = float((elmo(ids)["elmo_representations"][0][0, :3] == 0).float().mean())
    assert 0.2 < share < 0.8
    elmo.eval()
    assert torch.equal(elmo(ids)["elmo_representations"][0], elmo(ids)["elmo_representations"][0])


def test_the_state_dict_carries_everything(files, random_elmo, tmp_path):
    pair, _ = files
    elmo = AllenNlpElmo(*pair, 1, dropout=0)
    other = (tmp_path / "options.json", tmp_path / "weights.hdf5")
    write_bilm(random_elmo(max_characters=50, seed=5), *other)
    again = AllenNlpElmo(*other, 1, dropout=0)
    again.load_state_dict(elmo.state_dict())
    ids = batch_to_ids(SENTENCES)
    assert torch.equal(elmo(ids)["elmo_representations"][0], again(ids)["elmo_representations"][0])


def test_a_cached_vocabulary_is_used_for_the_words_in_it_and_kept_beside_unknown_ones(files, monkeypatch):
    pair, _ = files
    words = ["<pad>", "First", "sentence", "."]
    cached, plain = AllenNlpElmo(*pair, 1, dropout=0, vocab_to_cache=words), AllenNlpElmo(*pair, 1, dropout=0)
    batch = [["First", "sentence", "."], ["unknown", "."]]
    number = torch.tensor([[1, 2, 3], [99, 3, 0]])
    spelt = []
    compute = ElmoBiLm._vectors
    monkeypatch.setattr(ElmoBiLm, "_vectors", lambda self, ids: spelt.append(len(ids)) or compute(self, ids))
    found = cached(batch_to_ids(batch), number)
    assert spelt == [3]  # the boundaries and the unknown word
    wanted = plain(batch_to_ids(batch))
    assert torch.equal(found["mask"], wanted["mask"])
    torch.testing.assert_close(found["elmo_representations"], wanted["elmo_representations"], atol=2e-6, rtol=0)
    alone = cached(number[:1])["elmo_representations"][0]
    torch.testing.assert_close(alone, wanted["elmo_representations"][0][:1], atol=2e-6, rtol=0)
    with pytest.raises(ValueError, match="outside the cached vocabulary"):
        cached(number)


def test_a_cached_vocabulary_is_trained_where_gradients_are_asked_for(files, caplog):
    pair, _ = files
    elmo = AllenNlpElmo(*pair, 1, requires_grad=True, dropout=0, vocab_to_cache=["<pad>", "First", "sentence", "."])
    assert "get their own trainable vectors" in caplog.text
    number = torch.tensor([[1, 3], [99, 0]])
    ids = batch_to_ids([["First", "."], ["unknown"]])
    elmo(ids, number)["elmo_representations"][0].pow(2).sum().backward()
    moved = elmo._elmo_lstm._cached.grad.abs().sum(dim=1) > 0
    assert moved.tolist() == [False, True, False, True]
    assert elmo._elmo_lstm.bilm.encoder.projection.weight.grad.any()  # the unknown word and the boundaries are spelt
    frozen = AllenNlpElmo(*pair, 1, dropout=0, vocab_to_cache=["<pad>", "First"])
    assert not frozen._elmo_lstm._cached.requires_grad
    caplog.clear()
    AllenNlpElmo(*pair, 1, requires_grad=True)
    assert not caplog.text


def test_word_ids_without_a_cached_vocabulary_are_left_aside_and_that_is_said(files, caplog):
    pair, _ = files
    elmo, ids = AllenNlpElmo(*pair, 1, dropout=0), batch_to_ids([["First", "."]])
    found = elmo(ids, torch.tensor([[7, 8]]))["elmo_representations"][0]
    assert "word ids are ignored" in caplog.text
    assert torch.equal(found, elmo(ids)["elmo_representations"][0])


def test_given_mix_weights_are_not_trained(files):
    pair, _ = files
    elmo = AllenNlpElmo(*pair, 1, dropout=0, scalar_mix_parameters=[-9e10, 1.0, -9e10])
    layers = elmo._elmo_lstm(batch_to_ids(SENTENCES))["activations"]
    found = elmo(batch_to_ids(SENTENCES))["elmo_representations"][0]
    torch.testing.assert_close(found[0, :3], layers[1][0, 1:4])
    assert not any(p.requires_grad for p in elmo.parameters())


def test_its_mixes_have_the_penalty_of_the_program_and_of_the_article(files):
    elmo, weights = AllenNlpElmo(*files[0], num_output_representations=2), np.array([[0.5, -1.0, 2.0], [0.0, 0.0, 3.0]])
    for mix, row in zip(elmo._scalar_mixes, weights, strict=True):
        mix.scalars.data = torch.from_numpy(row.astype(np.float32))
    shares = np.exp(weights) / np.exp(weights).sum(axis=1, keepdims=True)
    assert elmo.penalty(0.1).item() == pytest.approx(0.1 * (weights**2).sum(), rel=1e-5)
    assert elmo.penalty(0.1, "uniform").item() == pytest.approx(0.1 * ((shares - 1 / 3) ** 2).sum(), rel=1e-5)


def test_another_module_may_stand_in_for_the_bilm(files):
    pair, _ = files
    elmo = AllenNlpElmo(num_output_representations=1, module=ElmoBiLm(*pair), dropout=0)
    ids = batch_to_ids(SENTENCES)
    wanted = AllenNlpElmo(*pair, 1, dropout=0)(ids)["elmo_representations"][0]
    assert torch.equal(elmo(ids)["elmo_representations"][0], wanted)
    with pytest.raises(ValueError, match="not both"):
        AllenNlpElmo(*pair, 1, module=ElmoBiLm(*pair))
    with pytest.raises(ValueError, match="options_file is not given"):
        AllenNlpElmo()
    with pytest.raises(ValueError, match="nothing is downloaded"):
        AllenNlpElmo("https://example.org/options.json", pair[1], 1)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_stateful_on_request_gives_allennlp_s_own_vectors(shared_data, requires_grad):
    folder = shared_data / "elmo" / "allennlp" / "elmo"
    streams = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
    bilm = ElmoBiLm(folder / "options.json", folder / "lm_weights.hdf5", requires_grad, stateful=True)
    for k in range(5):
        batch = [stream[k].split() for stream in streams]
        top = bilm(batch_to_ids(batch))["activations"][-1].detach().numpy()
        for number, sentence in enumerate(batch):
            with h5py.File(folder / f"lm_embeddings_{number}.hdf5") as file:
                wanted = np.concatenate(list(file[str(k)][...]), axis=-1)
            np.testing.assert_allclose(top[number, 1 : len(sentence) + 1], wanted, atol=2e-6)


def test_the_embedder_of_the_first_versions(files):
    pair, model = files
    embedder = ElmoEmbedder(*pair)
    wanted = [s.layers for s in model.encode_tokens(SENTENCES)]
    for one, found in zip(wanted, embedder.embed_batch(SENTENCES), strict=True):
        np.testing.assert_allclose(found, one, atol=1e-6)
    assert embedder.embed_sentence(["a"]).shape == (3, 1, model.dim)
    planes, mask = embedder.batch_to_embeddings(SENTENCES)
    assert planes.shape == (4, 3, 4, model.dim)
    for one, found, real in zip(wanted, planes.numpy(), mask.numpy(), strict=True):
        np.testing.assert_allclose(found[:, real], one, atol=5e-6)
        assert not found[:, ~real].any()
    in_batches = ElmoEmbedder(*pair)
    in_batches.cuda_device = 0  # the loop of a GPU, walked on the CPU where the weights still are
    for one, found in zip(wanted, in_batches.embed_sentences(iter(SENTENCES), batch_size=3), strict=True):
        np.testing.assert_allclose(found, one, atol=5e-6)
    assert embedder.embed_batch([]) == []
    assert embedder.embed_batch([[]])[0].shape == (3, 0, model.dim)
    assert embedder.batch_to_embeddings([[]])[0].shape == (1, 3, 0, model.dim)
    with pytest.raises(ValueError, match="torch finds no such GPU"):
        ElmoEmbedder(*pair, cuda_device=99)


def test_the_embedder_writes_files_as_allennlp_does(files, tmp_path):
    pair, model = files
    embedder = ElmoEmbedder(options_file=pair[0], weight_file=pair[1], cuda_device=-1)
    lines, out = ["First sentence .\n", "有 字 .\n"], tmp_path / "out.hdf5"
    wanted = [s.layers for s in model.encode_tokens([line.split() for line in lines])]
    choices = {"all": wanted, "top": [w[2] for w in wanted], "average": [(w[0] + w[1] + w[2]) / 3 for w in wanted]}
    for output_format, arrays in choices.items():
        embedder.embed_file(lines, out, output_format, batch_size=1)
        with h5py.File(out) as file:
            assert json.loads(file["sentence_to_index"][0]) == {"First sentence .": "0", "有 字 .": "1"}
            for number, array in enumerate(arrays):
                np.testing.assert_allclose(file[str(number)][...], array, atol=1e-6)
    embedder.embed_file(lines, out, forget_sentences=True)
    with h5py.File(out) as file:
        assert set(file) == {"0", "1"}
    embedder.embed_file(lines, out, use_sentence_keys=True)
    with h5py.File(out) as file:
        assert set(file) == {"First sentence .", "有 字 ."}
    for wrong, match in (({"output_format": "first"}, "all, top"), ({"use_sentence_keys": True}, "occurs twice")):
        with pytest.raises(ValueError, match=match):
            embedder.embed_file([lines[0]] * 2, out, **wrong)
    with pytest.raises(ValueError, match="line 2 is empty"):
        embedder.embed_file([lines[0], "\n"], out)


def test_the_token_embedder_is_one_mix_projected(files):
    pair, _ = files
    ids = batch_to_ids(SENTENCES)
    wanted = AllenNlpElmo(*pair, 1, dropout=0)(ids)["elmo_representations"][0]
    plain = ElmoTokenEmbedder(*pair, dropout=0)
    assert plain.get_output_dim() == wanted.shape[2]
    assert torch.equal(plain(ids), wanted)
    assert torch.equal(plain(elmo_tokens=ids), wanted)
    assert torch.equal(plain(inputs=ids), wanted)
    projected = ElmoTokenEmbedder(
        options_file=pair[0], weight_file=pair[1], do_layer_norm=False, dropout=0, requires_grad=False,
        projection_dim=4, vocab_to_cache=["<pad>", "First"], scalar_mix_parameters=[0.0, 0.0, 0.0],
    )  # fmt: skip
    linear = projected._projection
    found = projected(ids.reshape(2, 2, *ids.shape[1:]))
    assert found.shape == (2, 2, 4, projected.get_output_dim())
    np.testing.assert_allclose(
        found.detach().numpy().reshape(4, 4, 4),
        wanted.detach().numpy() @ linear.weight.detach().numpy().T + linear.bias.detach().numpy(),
        atol=1e-5,
    )
    with pytest.raises(ValueError, match="character ids are needed"):
        plain()


# Parameters of AllenNLP's classes, in their order; calls by position or by name must mean the same here.
SIGNATURES = {
    AllenNlpElmo.__init__: "options_file weight_file num_output_representations requires_grad do_layer_norm dropout "
    "vocab_to_cache keep_sentence_boundaries scalar_mix_parameters module",
    AllenNlpElmo.forward: "inputs word_inputs",
    ElmoBiLm.__init__: "options_file weight_file requires_grad vocab_to_cache",
    ElmoBiLm.forward: "inputs word_inputs",
    ElmoTokenEmbedder.__init__: "options_file weight_file do_layer_norm dropout requires_grad projection_dim "
    "vocab_to_cache scalar_mix_parameters",
    ElmoTokenEmbedder.forward: "elmo_tokens word_inputs",
    ElmoEmbedder.__init__: "options_file weight_file cuda_device",
    ElmoEmbedder.batch_to_embeddings: "batch",
    ElmoEmbedder.embed_sentence: "sentence",
    ElmoEmbedder.embed_batch: "batch",
    ElmoEmbedder.embed_sentences: "sentences batch_size",
    ElmoEmbedder.embed_file: "input_file output_file_path output_format batch_size forget_sentences use_sentence_keys",
    batch_to_ids: "batch",
}


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda function: function.__qualname__)
def test_parameters_have_allennlp_s_names_and_order(function):
    parameters = inspect.signature(function).parameters.values()
    by_position = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"]
    assert by_position == SIGNATURES[function].split()
