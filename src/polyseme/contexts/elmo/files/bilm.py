"""Reads and writes the published biLMs of bilm-tf and AllenNLP: an options.json and a weights.hdf5.

The file differs from ``BiLM``: matrices multiply from the right (x @ W), gates are in TensorFlow's order i, g, f, o,
the +1 of the forget gate is not included in its bias, and ``W_0`` stacks the input weights on the recurrent ones. Every
shape is compared with options.json before anything is read, so memory is bounded by what the file really holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyseme.contexts.elmo.alphabet import BYTE_ROWS, make_alphabet
from polyseme.contexts.elmo.bilm import BiLMConfig
from polyseme.contexts.elmo.files.recognise import find_pair, read_options
from polyseme.contexts.elmo.model import Elmo, filled
from polyseme.contexts.elmo.options import ElmoOptions, filters_text
from polyseme.disk.atomic import new_files, of_one_version
from polyseme.disk.disk_space import written_hdf5
from polyseme.disk.files import PlainFile
from polyseme.errors import FormatError, OptionError
from polyseme.neural.weights import arrays_of
from polyseme.options import make_options

_LSTM = "RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
_DAMAGES = (OSError, RuntimeError, ValueError, KeyError, TypeError, MemoryError)  # what h5py raises
_HIGHEST_RATIO = 64  # of a dataset's size to the file's size, since weights hardly compress


def open_bilm(path: str | Path) -> Elmo:
    """The biLM in a folder, or the one that a given file (options or weights) belongs to."""
    return read_bilm(*find_pair(path))


def read_bilm(options_file: str | Path, weight_file: str | Path) -> Elmo:
    """The biLM of these two files."""
    return of_one_version([options_file, weight_file], lambda: _read_bilm(options_file, weight_file))


def _read_bilm(options_file: str | Path, weight_file: str | Path) -> Elmo:
    options = elmo_options(read_options(options_file), where=str(options_file))
    alphabet = make_alphabet(options, characters=[], words=[])
    with _Weights(weight_file) as weights:
        project = options.filter_list() and "CNN_proj/W_proj" in weights
        config = _config(options, alphabet, bool(project), where=str(options_file))
        tensors = {**_token_tensors(weights, config), **_lstm_tensors(weights, config)}
    return Elmo(options, alphabet, filled(config, tensors))


def read_cached_bilm(
    options_file: str | Path, weight_file: str | Path, embedding_file: str | Path, vocabulary: list[str]
) -> Elmo:
    """The biLM reading word ids instead of characters, with bilm-tf's file of token vectors (``embedding``).

    That dataset has one row per word. ``<S>`` and ``</S>`` must be in the vocabulary; a word outside it gets the vector
    of ``<UNK>``, or zeros without it.
    """
    given = elmo_options(read_options(options_file), where=str(options_file))
    projection = given.value("projection")
    options = make_options(ElmoOptions, {**_shape(given), "alphabet": "words", "word_dim": projection})
    place = {word: row for row, word in enumerate(vocabulary)}
    for mark in ("<S>", "</S>"):
        if mark not in place:
            raise FormatError(f"the vocabulary lacks {mark}, so the sentence boundaries have no vector: add it")
    words = [word for word in vocabulary if word not in ("<S>", "</S>", "<UNK>")]
    alphabet = make_alphabet(options, characters=[], words=words)
    with _Weights(embedding_file) as file:
        table = file.read("embedding", (len(vocabulary), projection))
    unknown = table[place["<UNK>"]] if "<UNK>" in place else np.zeros(projection, dtype=np.float32)
    rows = [table[[place[word] for word in words]].reshape(-1, projection), unknown[None]]
    rows += [table[[place["<S>"], place["</S>"]]]]
    config = BiLMConfig.of(options, alphabet, project=False)
    with _Weights(weight_file) as weights:
        tensors = {"encoder.words": torch.from_numpy(np.concatenate(rows)), **_lstm_tensors(weights, config)}
    return Elmo(options, alphabet, filled(config, tensors))


def elmo_options(record: Mapping[str, Any], *, where: str) -> ElmoOptions:
    """Our options from the record that ``read_options`` returned."""
    lstm, cnn = record["lstm"], record["char_cnn"]
    try:
        filters = tuple((width, number) for width, number in cnn["filters"])
        if not filters or not all(type(n) is int and 0 < n <= 1 << 16 for pair in filters for n in pair):
            raise ValueError
        values = {
            "alphabet": "bytes",
            "char_dim": cnn["embedding"]["dim"],
            "max_characters": cnn.get("max_characters_per_token", 50),
            "filters": filters_text(filters),
            "activation": cnn.get("activation", "relu"),
            "n_highway": cnn.get("n_highway") or 0,
            "hidden": lstm["dim"],
            "projection": lstm["projection_dim"],
            "n_layers": lstm.get("n_layers", 1),
            "cell_clip": lstm.get("cell_clip") or 0,
            "projection_clip": lstm.get("proj_clip") or 0,
            "skip": bool(lstm.get("use_skip_connections")),
            "conventions": "bilm-tf",
        }
        return make_options(ElmoOptions, values)
    except KeyError as error:
        raise FormatError(f"{where} lacks {error}: it does not describe a biLM") from None
    except (TypeError, ValueError, AttributeError):
        raise FormatError(f"{where} does not describe a biLM: its values are of the wrong kind") from None
    except OptionError as error:
        raise FormatError(f"{where} does not describe a valid biLM: {error}") from None


def _shape(options: ElmoOptions) -> dict[str, Any]:
    return {name: value for name, value in vars(options).items() if value is not None}


def _config(options: ElmoOptions, alphabet: Any, project: bool, *, where: str) -> BiLMConfig:
    try:
        return BiLMConfig.of(options, alphabet, project=project)
    except OptionError as error:
        raise FormatError(f"{where} does not describe a valid biLM: {error}") from None


def _token_tensors(weights: _Weights, config: BiLMConfig) -> dict[str, Tensor]:
    arrays = {"encoder.characters": weights.read("char_embed", (BYTE_ROWS, config.char_dim))}
    for number, (width, count) in enumerate(config.filters):
        kernel = weights.read(f"CNN/W_cnn_{number}", (1, width, config.char_dim, count))
        arrays[f"encoder.convolutions.{number}.weight"] = kernel[0].transpose(2, 1, 0)
        arrays[f"encoder.convolutions.{number}.bias"] = weights.read(f"CNN/b_cnn_{number}", (count,))
    size = config.n_filters
    for number in range(config.n_highway):
        for ours, theirs in (("transforms", "transform"), ("gates", "carry")):
            matrix = weights.read(f"CNN_high_{number}/W_{theirs}", (size, size))
            arrays[f"encoder.{ours}.{number}.weight"] = matrix.T
            arrays[f"encoder.{ours}.{number}.bias"] = weights.read(f"CNN_high_{number}/b_{theirs}", (size,))
    if config.project:
        arrays["encoder.projection.weight"] = weights.read("CNN_proj/W_proj", (size, config.projection)).T
        arrays["encoder.projection.bias"] = weights.read("CNN_proj/b_proj", (config.projection,))
    elif size != config.projection:
        raise weights.lacks("CNN_proj/W_proj")
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def _lstm_tensors(weights: _Weights, config: BiLMConfig) -> dict[str, Tensor]:
    hidden, size = config.hidden, config.projection
    tensors: dict[str, Tensor] = {}
    for layer in range(config.n_layers):
        both: dict[str, list[NDArray[np.float32]]] = {"w_input": [], "w_recurrent": [], "bias": [], "w_projection": []}
        for direction in (0, 1):
            name = _LSTM.format(direction=direction, layer=layer)
            joint = _reordered(weights.read(name + "W_0", (2 * size, 4 * hidden))).T  # (4H, 2P)
            both["w_input"].append(joint[:, :size])
            both["w_recurrent"].append(joint[:, size:])
            bias = _reordered(weights.read(name + "B", (4 * hidden,)))
            bias[hidden : 2 * hidden] += 1
            both["bias"].append(bias)
            if size < hidden:
                both["w_projection"].append(weights.read(name + "W_P_0", (hidden, size)).T)
        tensors |= {f"layers.{layer}.{kind}": torch.from_numpy(np.stack(a)) for kind, a in both.items() if a}
    return tensors


def _reordered(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """Gates i, g, f, o ↔ i, f, g, o on the last axis."""
    i, second, third, o = np.split(array, 4, axis=-1)
    return np.concatenate([i, third, second, o], axis=-1)


class _Weights:
    """An HDF5 file whose datasets are read only if they have the expected shape and are stored in the file itself."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            with PlainFile(path) as plain:
                self._size = plain.size
            self._file = h5py.File(self.path, "r")
        except _DAMAGES:
            reason = "is truncated or is not an HDF5 file" if self.path.is_file() else "does not exist"
            raise FormatError(f"{path} {reason}") from None

    def __enter__(self) -> _Weights:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __contains__(self, name: str) -> bool:
        return self._dataset(name) is not None

    def lacks(self, name: str) -> FormatError:
        return FormatError(f"{self.path} lacks the dataset {name!r}: it does not belong to its options.json")

    def read(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """The dataset ``name``, which must have this shape."""
        dataset = self._dataset(name)
        if dataset is None:
            raise self.lacks(name)
        try:
            if dataset.shape != shape:
                raise FormatError(
                    f"{self.path}: {name!r} has the shape {dataset.shape}, but options.json describes {shape}"
                )
            if dataset.dtype.kind != "f" or dataset.nbytes > _HIGHEST_RATIO * self._size:
                raise FormatError(f"{self.path}: {name!r} does not contain the numbers it claims")
            if dataset.is_virtual or dataset.external or (dataset.size and not dataset.id.get_storage_size()):
                raise FormatError(f"{self.path}: {name!r} is not stored in this file")
            array: NDArray[np.float32] = dataset[...].astype(np.float32, copy=False)
        except _DAMAGES as error:
            raise self._damaged(name, error) from None
        if not np.isfinite(array).all():
            raise FormatError(f"{self.path}: {name!r} holds numbers that are not finite")
        return array

    def _dataset(self, name: str) -> Any:
        """The dataset of this path, or None. Links out of the file are refused."""
        here: Any = self._file
        try:
            for part in name.split("/"):
                link = here.get(part, getlink=True) if isinstance(here, h5py.Group) else None
                if link is None:
                    return None
                if not isinstance(link, h5py.HardLink):
                    raise FormatError(f"{self.path}: {name!r} is a link to another file")
                here = here[part]
        except _DAMAGES as error:
            raise self._damaged(name, error) from None
        return here if isinstance(here, h5py.Dataset) else None

    def _damaged(self, name: str, error: Exception) -> FormatError:
        reason = " ".join(str(error).strip("'\"").split())[:120]
        return FormatError(f"{self.path} is truncated or altered: {name!r} cannot be read ({reason})")


def write_bilm(model: Elmo, options_file: str | Path, weight_file: str | Path, *, force: bool = True) -> None:
    """Write the two files of bilm-tf into one folder. The format only supports biLMs that read bytes."""
    config = model.bilm.config
    if model.alphabet.kind != "bytes":
        raise FormatError(
            "bilm-tf files only hold biLMs that read bytes, but this one reads "
            f"{model.alphabet.kind}: save it as a model folder, or train with alphabet=bytes"
        )
    record = {
        "lstm": {
            "cell_clip": _plain(config.cell_clip),
            "use_skip_connections": config.skip,
            "n_layers": config.n_layers,
            "proj_clip": _plain(config.projection_clip),
            "projection_dim": config.projection,
            "dim": config.hidden,
        },
        "char_cnn": {
            "embedding": {"dim": config.char_dim},
            "filters": [list(pair) for pair in config.filters],
            "n_highway": config.n_highway,
            "n_characters": BYTE_ROWS + 1,
            "max_characters_per_token": config.max_characters,
            "activation": config.activation,
        },
    }
    if Path(options_file).parent != Path(weight_file).parent:
        raise OptionError("the two files of a biLM must be in the same folder")
    with new_files(options_file, Path(weight_file), force=force) as (options, weights):
        with written_hdf5(weights) as file:
            for name, array in _their_arrays(model).items():
                file.create_dataset(name, data=np.ascontiguousarray(array, dtype=np.float32))
        options.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _plain(clip: float) -> float | int | None:
    return (int(clip) if clip == int(clip) else clip) or None


def _their_arrays(model: Elmo) -> dict[str, NDArray[np.float32]]:
    config = model.bilm.config
    ours = arrays_of(model.bilm)
    theirs_by_name = {"char_embed": ours["encoder.characters"]}
    for number in range(len(config.filters)):
        theirs_by_name[f"CNN/W_cnn_{number}"] = ours[f"encoder.convolutions.{number}.weight"].transpose(2, 1, 0)[None]
        theirs_by_name[f"CNN/b_cnn_{number}"] = ours[f"encoder.convolutions.{number}.bias"]
    for number in range(config.n_highway):
        for kind, theirs in (("transforms", "transform"), ("gates", "carry")):
            theirs_by_name[f"CNN_high_{number}/W_{theirs}"] = ours[f"encoder.{kind}.{number}.weight"].T
            theirs_by_name[f"CNN_high_{number}/b_{theirs}"] = ours[f"encoder.{kind}.{number}.bias"]
    if config.project:
        theirs_by_name["CNN_proj/W_proj"] = ours["encoder.projection.weight"].T
        theirs_by_name["CNN_proj/b_proj"] = ours["encoder.projection.bias"]
    for layer in range(config.n_layers):
        for direction in (0, 1):
            name = _LSTM.format(direction=direction, layer=layer)
            weights = {kind: ours[f"layers.{layer}.{kind}"][direction] for kind in ("w_input", "w_recurrent", "bias")}
            joint = np.concatenate([weights["w_input"], weights["w_recurrent"]], axis=1).T
            bias = weights["bias"].copy()
            bias[config.hidden : 2 * config.hidden] -= 1
            theirs_by_name[name + "W_0"], theirs_by_name[name + "B"] = _reordered(joint), _reordered(bias)
            if config.projection < config.hidden:
                theirs_by_name[name + "W_P_0"] = ours[f"layers.{layer}.w_projection"][direction].T
    return theirs_by_name
