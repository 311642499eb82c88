"""Vectors that bilm-tf, AllenNLP and ELMoForManyLangs themselves computed, within 2e-6."""

from __future__ import annotations

import json
import shutil

import h5py
import numpy as np
import pytest
import torch

import polyseme
from polyseme.contexts.elmo.files.bilm import read_bilm, read_cached_bilm, write_bilm

PAIRS = {"allennlp/elmo": "sentences.json", "bilm-tf/model": "lm_embeddings_sentences.json"}


@pytest.fixture(params=PAIRS)
def pair(request, shared_data):
    """The folder of a published biLM, its three streams of ten sentences, and the top layers its program computed."""
    folder = shared_data / "elmo" / request.param
    streams = json.loads((folder / PAIRS[request.param]).read_text(encoding="utf-8"))
    batches = [[stream[k].split() for stream in streams] for k in range(10)]
    wanted = []
    for k in range(10):
        row = []
        for number in range(3):
            with h5py.File(folder / f"lm_embeddings_{number}.hdf5") as file:
                row.append(np.concatenate(list(file[str(k)][...]), axis=-1))  # (2, T, P) → (T, 2P)
        wanted.append(row)
    return folder, batches, wanted


def test_stateful_reading_gives_the_program_s_own_vectors(pair):
    folder, batches, wanted = pair
    model = polyseme.load(folder)
    for batch, row in zip(batches, wanted, strict=True):
        for sentence, top in zip(model.encode_tokens(batch, stateful=True), row, strict=True):
            np.testing.assert_allclose(sentence.layers[-1], top, atol=2e-6)


def test_stateful_reading_in_batches_of_one_call_is_the_same(pair):
    folder, batches, wanted = pair
    model = polyseme.load(folder / "options.json")
    found = model.encode_tokens([s for b in batches for s in b], stateful=True, batch_size=3, layers="top")
    for sentence, top in zip(found, [top for row in wanted for top in row], strict=True):
        np.testing.assert_allclose(sentence.layers[0], top, atol=2e-6)


def test_stateless_reading_is_the_program_s_first_batch_and_never_changes(pair):
    folder, batches, wanted = pair
    model = polyseme.load(folder / "lm_weights.hdf5")
    for _ in range(3):
        for sentence, top in zip(model.encode_tokens(batches[0], layers="top"), wanted[0], strict=True):
            np.testing.assert_allclose(sentence.layers[0], top, atol=2e-6)
    later = np.concatenate([s.layers[0] for s in model.encode_tokens(batches[3], layers="top")])
    assert np.abs(later - np.concatenate(wanted[3])).max() > 0.1  # the program's own depend on what it read before


def test_a_written_pair_has_the_program_s_structure_and_loads_equal(pair, tmp_path):
    folder, batches, _ = pair
    model = polyseme.load(folder)
    write_bilm(model, tmp_path / "my_options.json", tmp_path / "my_weights.hdf5")
    theirs, ours = {}, {}
    for path, found in ((folder / "lm_weights.hdf5", theirs), (tmp_path / "my_weights.hdf5", ours)):
        with h5py.File(path) as file:
            file.visititems(
                lambda name, item, found=found: found.update({name: np.array(item) if hasattr(item, "shape") else None})
            )
    assert theirs.keys() == ours.keys()
    for name, array in theirs.items():
        if array is not None:
            assert ours[name].shape == array.shape
            np.testing.assert_allclose(ours[name], array, atol=1.2e-7)  # one rounding of the forget bias
    assert json.loads((tmp_path / "my_options.json").read_text()) == json.loads((folder / "options.json").read_text())
    again = polyseme.load(tmp_path)
    for one, other in zip(model.encode_tokens(batches[0]), again.encode_tokens(batches[0]), strict=True):
        np.testing.assert_array_equal(one.layers, other.layers)


def test_a_file_of_token_vectors_gives_what_spelling_gives(shared_data):
    folder = shared_data / "elmo" / "allennlp" / "elmo"
    words = (folder / "vocab_test.txt").read_text(encoding="utf-8").splitlines()
    files = (folder / "options.json", folder / "lm_weights.hdf5")
    cached = read_cached_bilm(*files, folder / "elmo_token_embeddings.hdf5", words)
    sentence = [["The", "U.S.", "school", "'s", "</S>"]]
    for one, other in zip(cached.encode_tokens(sentence), read_bilm(*files).encode_tokens(sentence), strict=True):
        np.testing.assert_allclose(one.layers, other.layers, atol=2e-6)


def test_manylangs_gives_its_program_s_vectors_in_the_first_and_the_second_call(shared_data):
    folder = shared_data / "elmo" / "elmoformanylangs"
    sentences = json.loads((folder / "sents.json").read_text(encoding="utf-8"))
    wanted = np.load(folder / "expected.npz")
    model = polyseme.load(folder / "model")
    for number, sentence in enumerate(model.encode_tokens(sentences)):
        np.testing.assert_allclose(sentence.layers, wanted[f"layers_{number}"], atol=2e-6)
    for number, sentence in enumerate(model.encode_tokens(sentences, layers="mean")):
        np.testing.assert_allclose(sentence.layers[0], wanted[f"avg_{number}"], atol=2e-6)
    for name in ("layers", "second"):
        for number, sentence in enumerate(model.encode_tokens(sentences, stateful=True)):
            np.testing.assert_allclose(sentence.layers, wanted[f"{name}_{number}"], atol=2e-6)


def test_manylangs_survives_a_model_folder_of_ours(shared_data, tmp_path):
    folder = shared_data / "elmo" / "elmoformanylangs"
    sentences = json.loads((folder / "sents.json").read_text(encoding="utf-8"))
    wanted = np.load(folder / "expected.npz")
    polyseme.load(folder / "model").save(tmp_path / "m")
    for number, sentence in enumerate(polyseme.load(tmp_path / "m").encode_tokens(sentences)):
        np.testing.assert_allclose(sentence.layers, wanted[f"layers_{number}"], atol=2e-6)


def test_manylangs_reads_a_cut_word_by_its_beginning(shared_data):
    model = polyseme.load(shared_data / "elmo" / "elmoformanylangs" / "model")
    whole, cut = model.encode_tokens([["好" * 30], ["好" * 18]])
    np.testing.assert_allclose(whole.layers, cut.layers, atol=1e-6)


def test_an_allennlp_tagger_gives_its_elmo_and_the_mix_it_learned(shared_data):
    tagger = shared_data / "elmo" / "allennlp" / "simple_tagger_with_elmo" / "serialization" / "best.th"
    state = torch.load(tagger, weights_only=True)
    mix = {name.rsplit("scalar_mix_0.")[-1]: value for name, value in state.items() if "scalar_mix_0" in name}
    scalars = torch.cat([mix[f"scalar_parameters.{n}"] for n in range(3)]).double().numpy()
    weights = np.exp(scalars) / np.exp(scalars).sum() * float(mix["gamma"])
    sentence = [["The", "cat", "sat"]]
    (layers,) = polyseme.load(shared_data / "elmo" / "allennlp" / "elmo").encode_tokens(sentence)
    (mixed,) = polyseme.load(tagger).encode_tokens(sentence, layers="mix")
    np.testing.assert_allclose(mixed.layers[0], np.tensordot(weights, layers.layers, 1), atol=2e-6)


def test_files_may_have_any_name_and_lie_beside_others(shared_data, tmp_path):
    folder = shared_data / "elmo" / "allennlp" / "elmo"
    other = shared_data / "elmo" / "bilm-tf" / "model"
    for source, name in ((folder, "elmo_2x1024_128_2048cnn_1xhighway"), (other, "second")):
        shutil.copy(source / "options.json", tmp_path / f"{name}_options.json")
        shutil.copy(source / "lm_weights.hdf5", tmp_path / f"{name}_weights.hdf5")
    assert polyseme.load(tmp_path / "elmo_2x1024_128_2048cnn_1xhighway_weights.hdf5").options.skip
    assert not polyseme.load(tmp_path / "second_options.json").options.skip
    with pytest.raises(polyseme.PolysemeError, match="several biLMs"):
        polyseme.load(tmp_path)


def test_manylangs_gives_a_name_in_its_dictionary_the_row_it_has_there(shared_data):
    folder = shared_data / "elmo" / "elmoformanylangs" / "model"
    model = polyseme.load(folder)
    table = torch.load(folder / "token_embedder.pkl", weights_only=True)["word_emb_layer.embedding.weight"]
    rows = dict(line.split("\t") for line in (folder / "word.dic").read_text(encoding="utf-8").splitlines())
    for word in ("<pad>", "今", "<oov>", "<bos>", "<eos>"):
        own = model.bilm.encoder.words[model.alphabet.name_all([word])[0]]
        assert torch.equal(own, table[int(rows[word])].float())
