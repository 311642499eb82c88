"""A biLM in plain NumPy and float64, written from the papers and the file formats, one slot and step at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from polyseme.contexts.elmo.alphabet import make_alphabet
from polyseme.contexts.elmo.bilm import BiLM, BiLMConfig
from polyseme.contexts.elmo.model import Elmo
from polyseme.contexts.elmo.options import ElmoOptions


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def word_vector(weights, config, letters, word_id):
    """The vector of a word; ``letters``: exactly max_characters ids including padding, or None without characters."""
    parts = []
    if word_id is not None:
        parts.append(weights["encoder.words"][word_id])
    if letters is not None:
        assert len(letters) == config.max_characters
        embedded = weights["encoder.characters"][letters]  # (slots, d)
        found = []
        for number, (width, _) in enumerate(config.filters):
            kernel = weights[f"encoder.convolutions.{number}.weight"]  # (n, d, width)
            windows = [embedded[s : s + width].T for s in range(len(letters) - width + 1)]
            values = [np.einsum("ndw,dw->n", kernel, window) for window in windows]
            found.append(np.max(values, axis=0) + weights[f"encoder.convolutions.{number}.bias"])
        x = np.concatenate(found)
        x = np.maximum(x, 0) if config.activation == "relu" else np.tanh(x)
        for k in range(config.n_highway):
            gate = sigmoid(weights[f"encoder.gates.{k}.weight"] @ x + weights[f"encoder.gates.{k}.bias"])
            new = np.maximum(weights[f"encoder.transforms.{k}.weight"] @ x + weights[f"encoder.transforms.{k}.bias"], 0)
            x = gate * new + (1 - gate) * x
        parts.append(x)
    x = np.concatenate(parts)
    if config.project:
        x = weights["encoder.projection.weight"] @ x + weights["encoder.projection.bias"]
    return x


def one_direction(weights, config, direction, inputs):
    """All layers of one direction, ``(L, T, P)``, reading ``inputs (T, P)`` from first to last."""
    layers = []
    x = inputs
    for layer in range(config.n_layers):
        w = {name: weights[f"layers.{layer}.{name}"][direction] for name in ("w_input", "w_recurrent", "bias")}
        projection = weights.get(f"layers.{layer}.w_projection")
        h, c = np.zeros(config.projection), np.zeros(config.hidden)
        out = []
        for token in x:
            i, f, g, o = np.split(w["w_input"] @ token + w["w_recurrent"] @ h + w["bias"], 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            if config.cell_clip:
                c = np.clip(c, -config.cell_clip, config.cell_clip)
            h = sigmoid(o) * np.tanh(c)
            if projection is not None:
                h = projection[direction] @ h
                if config.projection_clip:
                    h = np.clip(h, -config.projection_clip, config.projection_clip)
            out.append(h + token if layer and config.skip else h)
        x = np.array(out).reshape(len(inputs), config.projection)
        layers.append(x)
    return layers


def reference(weights, config, words, *, boundaries=False) -> np.ndarray:
    """All layers ``(L+1, T, 2P)`` of a sentence given as [(letters, word id), …], as a rule without its boundaries."""
    weights = {name: np.asarray(array, dtype=np.float64) for name, array in weights.items()}
    x = np.array([word_vector(weights, config, letters, word_id) for letters, word_id in words])
    forward = one_direction(weights, config, 0, x)
    backward = [plane[::-1] for plane in one_direction(weights, config, 1, x[::-1])]
    planes = [np.concatenate([x, x], axis=1)]
    planes += [np.concatenate(pair, axis=1) for pair in zip(forward, backward, strict=True)]
    return np.array(planes) if boundaries else np.array(planes)[:, 1:-1]


@pytest.fixture(scope="session")
def numpy_bilm() -> Callable[..., np.ndarray]:
    return reference


@pytest.fixture(scope="session")
def random_elmo() -> Callable[..., Elmo]:
    """A function that makes an Elmo with random weights, large enough for every clip and gate to matter."""

    def make(*, seed: int = 0, scale: float = 2.0, characters=(), words=(), classes=None, **options: Any) -> Elmo:
        sizes = {"alphabet": "bytes", "char_dim": 4, "max_characters": 12, "filters": "1x4 2x6 3x8", "n_highway": 1}
        sizes |= {"word_dim": 5, "hidden": 10, "projection": 6}
        chosen = ElmoOptions(**{**sizes, **options})
        alphabet = make_alphabet(chosen, characters=list(characters), words=list(words))
        n_classes = len(classes) + 3 if classes else 0
        bilm = BiLM(BiLMConfig.of(chosen, alphabet, n_classes=n_classes))
        generator = torch.Generator().manual_seed(seed)
        bilm.reset_parameters(generator)
        with torch.no_grad():
            for parameter in bilm.parameters():
                parameter.mul_(scale).add_(0.1 * torch.randn(parameter.shape, generator=generator))
        return Elmo(chosen, alphabet, bilm, classes=classes)

    return make


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: it is fastest for small products, and two are slow on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
