"""ELMoForManyLangs folders of every shape their settings allow, against a NumPy biLM with the same weights."""

from __future__ import annotations

import copy
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import polyseme

NETWORK = {
    "encoder": {"name": "elmo", "projection_dim": 6, "cell_clip": 3, "proj_clip": 3, "dim": 10, "n_layers": 2},
    "token_embedder": {
        "name": "cnn", "activation": "relu", "filters": [[1, 3], [2, 4], [3, 5]], "n_highway": 2, "word_dim": 7,
        "char_dim": 4, "max_characters_per_token": 9,
    },
    "classifier": {"name": "sampled_softmax", "n_samples": 8192}, "dropout": 0.1,
}  # fmt: skip
SHAPES = {
    "words and characters": {},
    "characters only": {"word_dim": 0},
    "words only": {"char_dim": 0},
    "words only, by the other embedder": {"name": "lstm", "char_dim": 0, "max_characters_per_token": None},
    "one highway, tanh": {"n_highway": 1, "activation": "tanh"},
    "no highway": {"n_highway": 0},
    "one layer": {"n_layers": 1},
    "three layers": {"n_layers": 3},
    "no clips": {"cell_clip": 0, "proj_clip": 0},
    "tight clips": {"cell_clip": 0.2, "proj_clip": 0.1},
}
LONG = "好天气好天气好天气好"  # more than the nine characters that a word is cut to
CHARACTERS = {"<oov>": 3, "<bos>": 0, "<eos>": 5, "<bow>": 2, "<eow>": 7, "<pad>": 1, "好": 4, "天": 8, "气": 6}
WORDS = {"<oov>": 0, "<bos>": 2, "<eos>": 1, "<pad>": 3, "天气": 4, LONG: 6, LONG[:7]: 5}
SENTENCES = [["天气", "好"], [LONG, "晴", "天气"], ["好"]]


def network(changes):
    found = copy.deepcopy(NETWORK)
    for name, value in changes.items():
        part = found["token_embedder" if name in found["token_embedder"] else "encoder"]
        part[name] = value
        if value is None:
            del part[name]
    return found


def states(described):
    """Random weights, named as in the two state dicts of their program."""
    random = np.random.default_rng(4)
    encoder, token = described["encoder"], described["token_embedder"]
    hidden, size = encoder["dim"], encoder["projection_dim"]
    shapes, width = {}, token["word_dim"]
    if token["word_dim"]:
        shapes["word_emb_layer.embedding.weight"] = (len(WORDS), token["word_dim"])
    if token["char_dim"]:
        shapes["char_emb_layer.embedding.weight"] = (len(CHARACTERS), token["char_dim"])
        for i, (w, n) in enumerate(token["filters"]):
            shapes |= {f"convolutions.{i}.weight": (n, token["char_dim"], w), f"convolutions.{i}.bias": (n,)}
        total = sum(n for _, n in token["filters"])
        for k in range(token["n_highway"]):
            shapes |= {f"highways._layers.{k}.weight": (2 * total, total), f"highways._layers.{k}.bias": (2 * total,)}
        width += total
    shapes |= {"projection.weight": (size, width), "projection.bias": (size,)}
    cells = {}
    for name in (f"{way}_layer_{n}" for n in range(encoder["n_layers"]) for way in ("forward", "backward")):
        cells |= {
            f"{name}.input_linearity.weight": (4 * hidden, size), f"{name}.state_linearity.weight": (4 * hidden, size),
            f"{name}.state_linearity.bias": (4 * hidden,), f"{name}.state_projection.weight": (size, hidden),
        }  # fmt: skip
    return [{name: random.normal(0, 0.6, shape) for name, shape in group.items()} for group in (shapes, cells)]


def by_the_names_of_the_reference(token, cells, described):
    """The weights by the names of the NumPy biLM.

    Its highway gate weighs the transform, theirs the input, so the sign of the gate is inverted.
    """
    n_filters = sum(n for _, n in described["token_embedder"]["filters"])
    renamed = {"word_emb_layer.embedding.weight": "words", "char_emb_layer.embedding.weight": "characters"}
    weights = {}
    for name, array in token.items():
        if name.startswith("highways."):
            _, _, k, kind = name.split(".")
            weights[f"encoder.transforms.{k}.{kind}"] = array[:n_filters]
            weights[f"encoder.gates.{k}.{kind}"] = -array[n_filters:]
        else:
            weights[f"encoder.{renamed.get(name, name)}"] = array
    names = {"w_input": "input_linearity.weight", "w_recurrent": "state_linearity.weight"}
    names |= {"bias": "state_linearity.bias", "w_projection": "state_projection.weight"}
    for layer in range(described["encoder"]["n_layers"]):
        for ours, theirs in names.items():
            both = [cells[f"{way}_layer_{layer}.{theirs}"] for way in ("forward", "backward")]
            weights[f"layers.{layer}.{ours}"] = np.array(both)
    return weights


def read_by_their_program(word, token):
    """The letters and id of a word as their program reads it, which swaps the marks of word begin and end."""
    limit = token["max_characters_per_token"] if token["name"] == "cnn" else None
    word = word if limit is None or word in ("<bos>", "<eos>") else word[: limit - 2]
    letters = None
    if token["char_dim"]:
        inner = [word] if word in ("<bos>", "<eos>") else word
        ids = [CHARACTERS.get(c, CHARACTERS["<oov>"]) for c in inner]
        letters = [CHARACTERS["<eow>"], *ids, CHARACTERS["<bow>"]]
        letters += [CHARACTERS["<pad>"]] * (limit - len(letters))
    return letters, WORDS.get(word, WORDS["<oov>"]) if token["word_dim"] else None


@pytest.mark.parametrize("shape", SHAPES, ids=list(SHAPES))
def test_every_shape_of_a_configuration_is_read(shape, numpy_bilm, tmp_path):
    described = network(SHAPES[shape])
    encoder, token = described["encoder"], described["token_embedder"]
    token_state, encoder_state = states(described)
    for name, state in (("token_embedder", token_state), ("encoder", encoder_state)):
        torch.save({k: torch.from_numpy(v).float() for k, v in state.items()}, tmp_path / f"{name}.pkl")
    for name, table in (("char", CHARACTERS), ("word", WORDS)):
        (tmp_path / f"{name}.dic").write_text("".join(f"{t}\t{i}\n" for t, i in table.items()), encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps({"config_path": "network.json", "seed": 1}))
    (tmp_path / "network.json").write_text(json.dumps(described))
    model = polyseme.load(tmp_path)
    config = SimpleNamespace(
        max_characters=token.get("max_characters_per_token"), filters=token["filters"], activation=token["activation"],
        n_highway=token["n_highway"], project=True, n_layers=encoder["n_layers"], hidden=encoder["dim"],
        projection=encoder["projection_dim"], cell_clip=encoder["cell_clip"], projection_clip=encoder["proj_clip"],
        skip=True,
    )  # fmt: skip
    weights = by_the_names_of_the_reference(token_state, encoder_state, described)
    for sentence, found in zip(SENTENCES, model.encode_tokens(SENTENCES), strict=True):
        words = [read_by_their_program(word, token) for word in ["<bos>", *sentence, "<eos>"]]
        np.testing.assert_allclose(found.layers, numpy_bilm(weights, config, words), atol=5e-6)
