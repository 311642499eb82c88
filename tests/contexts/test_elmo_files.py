"""Published files that are cut, altered, hostile or of another kind get one line each, and take no memory."""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
import zipfile

import h5py
import numpy as np
import pytest
import torch

import polyseme
from polyseme.contexts.elmo.files.bilm import read_bilm, read_cached_bilm, write_bilm
from polyseme.errors import FormatError

CELL = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"


@pytest.fixture
def pair(random_elmo, tmp_path):
    """A pair of files that we wrote ourselves."""
    write_bilm(random_elmo(), tmp_path / "options.json", tmp_path / "weights.hdf5")
    return tmp_path


def refused(path, match):
    with pytest.raises(FormatError, match=match) as error:
        polyseme.load(path)
    assert "\n" not in str(error.value)


def change(folder, **values):
    """Alter options.json: lstm__dim=3 sets record["lstm"]["dim"]."""
    file = folder / "options.json"
    record = json.loads(file.read_text())
    for name, value in values.items():
        *path, last = name.split("__")
        here = record
        for part in path:
            here = here[part]
        if value is ...:
            del here[last]
        else:
            here[last] = value
    file.write_text(json.dumps(record))


SHAPES = [
    *({}, {"n_highway": 0}, {"hidden": 6}, {"filters": "1x2 2x4"}, {"skip": False}),
    *({"cell_clip": 0.0, "projection_clip": 2.5}, {"activation": "tanh", "n_layers": 3}),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_pair_of_every_shape_is_written_and_read(shape, random_elmo, tmp_path):
    model = random_elmo(**shape)
    write_bilm(model, tmp_path / "options.json", tmp_path / "weights.hdf5")
    (one,), (other,) = (m.encode_tokens([["a", "猫", "b"]]) for m in (model, polyseme.load(tmp_path)))
    np.testing.assert_allclose(other.layers, one.layers, atol=1e-6)


def test_n_highway_may_be_null_or_left_out(random_elmo, tmp_path):
    write_bilm(random_elmo(n_highway=0), tmp_path / "options.json", tmp_path / "weights.hdf5")
    for value in (None, ...):
        change(tmp_path, char_cnn__n_highway=value)
        assert polyseme.load(tmp_path).bilm.config.n_highway == 0


def test_only_a_bilm_of_bytes_can_be_written(random_elmo, tmp_path):
    with pytest.raises(FormatError, match="reads chars"):
        write_bilm(random_elmo(alphabet="chars"), tmp_path / "o.json", tmp_path / "w.hdf5")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name", ["char_embed", "CNN/b_cnn_1", "CNN_high_0/W_carry", "CNN_proj/W_proj", f"{CELL}/W_P_0", "RNN_0"]
)
def test_a_missing_dataset_is_named(pair, name):
    with h5py.File(pair / "weights.hdf5", "a") as file:
        del file[name]
    refused(pair, f"lacks the dataset '{name}")


@pytest.mark.parametrize("name", ["char_embed", "CNN/W_cnn_0", f"{CELL}/W_0"])
def test_a_wrong_shape_is_told_with_both_shapes(pair, name):
    with h5py.File(pair / "weights.hdf5", "a") as file:
        kept = file[name][...]
        del file[name]
        file[name] = kept[..., :-1]
    refused(pair, f"'{name}' has the shape .* describes")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_cut_file_is_refused(pair, share):
    data = (pair / "weights.hdf5").read_bytes()
    (pair / "weights.hdf5").write_bytes(data[: int(len(data) * share)])
    with pytest.raises(FormatError):
        polyseme.load(pair)
    with pytest.raises(FormatError):
        read_bilm(pair / "options.json", pair / "weights.hdf5")


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes_are_refused(pair, seed):
    noise = np.random.default_rng(seed).bytes(5000)
    (pair / "weights.hdf5").write_bytes(noise)
    with pytest.raises(FormatError, match="not an HDF5 file"):
        read_bilm(pair / "options.json", pair / "weights.hdf5")
    (pair / "weights.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n" + noise)
    refused(pair, "truncated or is not an HDF5 file")
    refused(pair / "weights.hdf5", "truncated or is not an HDF5 file")


def test_flipped_bytes_never_get_further_than_a_format_error(pair):
    """Most flips hit numbers and go unseen; those that hit the structure must be refused in one line."""
    data = (pair / "weights.hdf5").read_bytes()
    generator = np.random.default_rng(11)
    outcomes = set()
    for _ in range(60):
        altered = bytearray(data)
        for place in generator.integers(min(len(data), 6000), size=4):
            altered[place] = generator.integers(256)
        (pair / "weights.hdf5").write_bytes(altered)
        try:
            list(polyseme.load(pair).encode_tokens([["a"]]))
            outcomes.add("read")
        except FormatError as error:
            assert "\n" not in str(error)
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}


def test_a_shape_that_lies_takes_no_memory(pair):
    change(pair, lstm__dim=65536, lstm__projection_dim=16384)
    with h5py.File(pair / "weights.hdf5", "a") as file:
        for direction in (0, 1):
            for layer in (0, 1):
                group = file[f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"]
                for name, shape in (("W_0", (32768, 262144)), ("B", (262144,)), ("W_P_0", (65536, 16384))):
                    del group[name]
                    group.create_dataset(name, shape, dtype="f4", chunks=(1,) * (len(shape) - 1) + (1024,))
        for name in ("W_proj", "b_proj"):
            del file[f"CNN_proj/{name}"]
        file.create_dataset("CNN_proj/W_proj", (18, 16384), dtype="f4", chunks=(1, 1024))
        file.create_dataset("CNN_proj/b_proj", (16384,), dtype="f4", chunks=(1024,))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(pair, "does not contain the numbers|not stored in this file")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_links_out_of_the_file_are_not_followed(pair, tmp_path):
    secret = tmp_path / "other.h5"
    with h5py.File(secret, "w") as file:
        file["b"] = np.zeros(4, dtype="f4")
    with h5py.File(pair / "weights.hdf5", "a") as file:
        del file["CNN/b_cnn_0"]
        file["CNN/b_cnn_0"] = h5py.ExternalLink(str(secret), "b")
    refused(pair / "options.json", "link to another file")
    raw = tmp_path / "raw"
    raw.write_bytes(bytes(16))
    with h5py.File(pair / "weights.hdf5", "a") as file:
        del file["CNN/b_cnn_0"]
        file["CNN"].create_dataset("b_cnn_0", (4,), dtype="f4", external=[(str(raw), 0, 16)])
    refused(pair / "options.json", "not stored in this file")


@pytest.mark.parametrize(
    "data", [np.array([b"x"] * 4), np.zeros(4, dtype=complex), np.arange(4), np.full(4, np.nan, "f4")]
)
def test_other_things_than_numbers_are_refused(pair, data):
    with h5py.File(pair / "weights.hdf5", "a") as file:
        del file["CNN/b_cnn_0"]
        file["CNN/b_cnn_0"] = data
    refused(pair, "does not contain the numbers|not finite")


HOSTILE = {
    "a huge dimension": {"lstm__dim": 10**12},
    "a huge number of layers": {"lstm__n_layers": 10**9},
    "huge filters": {"char_cnn__filters": [[1, 10**15]]},
    "a negative dimension": {"lstm__projection_dim": -4},
    "a text for a number": {"lstm__dim": "10"},
    "a float for a number": {"char_cnn__embedding__dim": 4.5},
    "true for a number": {"lstm__n_layers": True},
    "no filters": {"char_cnn__filters": []},
    "filters of another shape": {"char_cnn__filters": [[1, 2, 3]]},
    "filters wider than a word": {"char_cnn__max_characters_per_token": 3, "char_cnn__filters": [[9, 4]]},
    "an unknown activation": {"char_cnn__activation": "exec"},
    "a list for a table": {"char_cnn__embedding": [4]},
    "a missing size": {"lstm__dim": ...},
    "a projection that widens": {"lstm__projection_dim": 11},
    "not a number": {"lstm__cell_clip": float("nan")},
    "a clip beyond float32": {"lstm__proj_clip": 1e300},
}


@pytest.mark.parametrize("values", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_options_are_refused(pair, values):
    change(pair, **values)
    refused(pair, "options.json")


def test_json_that_is_none_or_too_deep_is_refused(pair):
    for text in ("[" * 100_000, '{"lstm": {}', "\x00\xff", '{"lstm": 1, "char_cnn": 2}', ""):
        (pair / "options.json").write_text(text, encoding="latin-1")
        with pytest.raises(FormatError):
            read_bilm(pair / "options.json", pair / "weights.hdf5")
        refused(pair / "weights.hdf5", "no options.json next to it")


def test_one_file_without_the_other_says_which_is_missing(pair):
    os.remove(pair / "weights.hdf5")
    refused(pair, "lacks a weights.hdf5")
    refused(pair / "options.json", "no weights.hdf5 next to it")


def test_a_vocabulary_without_boundaries_is_refused_rather_than_misread(pair):
    with h5py.File(pair / "tokens.h5", "w") as file:
        file["embedding"] = np.ones((3, 6), dtype="f4")
    files = (pair / "options.json", pair / "weights.hdf5", pair / "tokens.h5")
    with pytest.raises(FormatError, match="</S>"):
        read_cached_bilm(*files, ["<S>", "a", "b"])
    with pytest.raises(FormatError, match="shape"):
        read_cached_bilm(*files, ["<S>", "</S>", "a", "b"])
    known = read_cached_bilm(*files, ["<S>", "</S>", "a"])
    (found,) = known.encode_tokens([["a", "unseen"]], layers=0)
    assert found.layers[0, 0].tolist() == [1.0] * 12
    assert not found.layers[0, 1].any()


# ---- torch's own files


class Evil:
    def __reduce__(self):
        return (os.system, ("touch /nonexistent/never",))


@pytest.fixture
def manylangs(shared_data, tmp_path):
    shutil.copytree(shared_data / "elmo" / "elmoformanylangs" / "model", tmp_path / "m")
    for file in (tmp_path / "m").iterdir():
        file.chmod(0o644)
    (tmp_path / "m").chmod(0o755)
    return tmp_path / "m"


def test_a_pickle_that_would_run_code_is_refused(manylangs):
    (manylangs / "encoder.pkl").write_bytes(pickle.dumps({"a": Evil()}))
    refused(manylangs, "encoder.pkl is truncated or is not a tensor file that is safe to read")
    torch.save({"forward_layer_0.input_linearity.weight": Evil()}, manylangs / "encoder.pkl")
    refused(manylangs, "encoder.pkl is truncated or is not a tensor file that is safe to read")


@pytest.mark.parametrize("share", [0.0, 0.2, 0.7, 0.99])
def test_a_cut_state_dict_is_refused(manylangs, share):
    data = (manylangs / "token_embedder.pkl").read_bytes()
    (manylangs / "token_embedder.pkl").write_bytes(data[: int(len(data) * share)])
    refused(manylangs, "token_embedder.pkl")


def test_tensors_larger_than_their_file_are_refused(manylangs):
    state = torch.load(manylangs / "encoder.pkl", weights_only=True)
    name = "forward_layer_0.input_linearity.weight"
    torch.save({**state, name: torch.zeros(1).expand(48, 10**9)}, manylangs / "encoder.pkl")
    refused(manylangs, "more numbers than the file contains")
    with zipfile.ZipFile(manylangs / "encoder.pkl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(50_000_000))
    refused(manylangs, "claims more data than its size")


def _network(**changes):
    """The JSON text of a network's description, with some settings changed."""
    parts = {
        "encoder": {"name": "elmo", "projection_dim": 8, "cell_clip": 3, "proj_clip": 3, "dim": 12, "n_layers": 2},
        "token_embedder": {
            "name": "cnn", "activation": "relu", "filters": [[1, 4], [2, 4], [3, 8]], "n_highway": 2, "word_dim": 6,
            "char_dim": 5, "max_characters_per_token": 20,
        },
    }  # fmt: skip
    return json.dumps({name: {**part, **changes.get(name, {})} for name, part in parts.items()})


@pytest.mark.parametrize("config_path", ["tiny_cnn.json", "/home/them/tiny_cnn.json", "C:\\them\\tiny_cnn.json",
                                         "../x/tiny_cnn.json", "configs/tiny_cnn.json"])  # fmt: skip
def test_the_network_s_file_is_found_in_the_folder_wherever_it_was_once(manylangs, config_path):
    (manylangs / "config.json").write_text(json.dumps({"config_path": config_path}))
    assert polyseme.load(manylangs).dim == 16
    (manylangs / "configs").mkdir()
    (manylangs / "tiny_cnn.json").rename(manylangs / "configs" / "tiny_cnn.json")
    if config_path == "configs/tiny_cnn.json":
        assert polyseme.load(manylangs).dim == 16
    else:
        refused(manylangs, "lacks tiny_cnn.json")


def test_a_published_folder_needs_no_file_of_its_network(manylangs):
    name = "cnn_50_100_512_4096_sample.json"
    (manylangs / "config.json").write_text(json.dumps({"config_path": f"/home/them/{name}"}))
    # These weights are far smaller than the published ones, so it is told what was looked for.
    refused(manylangs, r"'highways._layers.0.weight' has the shape \(32, 16\), not \(4096, 2048\)")
    (manylangs / "tiny_cnn.json").rename(manylangs / name)  # a file in the folder is asked first
    assert polyseme.load(manylangs).dim == 16


def test_manylangs_files_that_do_not_fit_together_are_told(manylangs):
    for name, text, match in (
        ("word.dic", "今\t999\n<oov>\t0\n<bos>\t1\n<eos>\t2\n", "has the id 999"),
        ("word.dic", "今\t1\n", "lacks '<oov>'"),
        ("word.dic", "今\tx\n", "line 1"),
        ("config.json", '{"config_path": "../../../etc/passwd"}', "lacks passwd"),
        ("config.json", json.dumps({"config_path": "x" * 5000}), "lacks xxx"),
        ("config.json", json.dumps({"config_path": "x\0y"}), "lacks x"),
        ("config.json", json.dumps({"config_path": ""}), "lacks the file of the network"),
        ("config.json", "[]", "not a table"),
        ("tiny_cnn.json", _network(encoder={"name": "lstm"}), "an encoder of type 'lstm'"),
        ("tiny_cnn.json", _network(token_embedder={"name": "lstm"}), "which ELMoForManyLangs itself cannot run"),
        ("tiny_cnn.json", _network(token_embedder={"name": "bpe"}), "a token_embedder of type 'bpe'"),
        ("tiny_cnn.json", _network(token_embedder={"char_dim": 0, "word_dim": 0}), "not describe a valid biLM"),
        ("tiny_cnn.json", _network(token_embedder={"filters": [[1, "x"]]}), "values of the wrong kind"),
        ("tiny_cnn.json", _network(token_embedder={"filters": []}), "values of the wrong kind"),
        ("tiny_cnn.json", '{"encoder": {}}', "lacks"),
    ):
        kept = (manylangs / name).read_bytes()
        (manylangs / name).write_text(text, encoding="utf-8")
        refused(manylangs, match)
        (manylangs / name).write_bytes(kept)
    (manylangs / "char.dic").unlink()
    refused(manylangs, "char.dic cannot be read")


def test_a_model_folder_with_altered_weights_is_refused(random_elmo):
    model = random_elmo()
    parts = model.parts()
    for name, array, match in (
        ("layers.0.bias", np.zeros((2, 3), dtype="f4"), "shape"),
        ("mix.gamma", np.zeros(2, dtype="f4"), "mix.gamma"),
        ("extra", np.zeros(1, dtype="f4"), "do not describe"),
    ):
        broken = type(parts)({**parts.tensors, name: array}, parts.tables)
        with pytest.raises(FormatError, match=match):
            type(model).from_parts(model.options, broken, model.about)
    fewer = {name: array for name, array in parts.tensors.items() if name != "layers.1.w_input"}
    with pytest.raises(FormatError, match=r"lacks the weights 'layers\.1\.w_input'"):
        type(model).from_parts(model.options, type(parts)(fewer, parts.tables), model.about)
