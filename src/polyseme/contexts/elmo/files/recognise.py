"""Recognises published ELMo files by content: pairs of bilm-tf, ELMoForManyLangs folders, saved AllenNLP models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polyseme.disk.files import open_plain, read_settings
from polyseme.errors import FormatError

_HDF5 = b"\x89HDF\r\n\x1a\n"
_STATE_KEY = b"_elmo_lstm._token_embedder"


def is_options(path: Path) -> bool:
    """Is this file an options.json of a biLM?"""
    try:
        read_options(path)
    except FormatError:
        return False
    return True


def read_options(path: str | Path) -> dict[str, Any]:
    """The contents of an options.json; raises if the JSON does not describe a biLM."""
    record = read_settings(Path(path))
    if not all(isinstance(record.get(part), dict) for part in ("lstm", "char_cnn")):
        raise FormatError(f"{path} does not describe a biLM: it has no 'lstm' and 'char_cnn'")
    return record


def is_hdf5(path: Path) -> bool:
    """Does this file start with the signature of HDF5?"""
    return _first_bytes(path, 8) == _HDF5


def _first_bytes(path: Path, n: int) -> bytes:
    """The first ``n`` bytes; empty if it is not a plain file that can be read."""
    try:
        with open_plain(path) as file:
            return file.read(n)
    except (OSError, FormatError):
        return b""


def is_weights(path: Path) -> bool:
    """Is this file the weights.hdf5 of a biLM?"""
    if not is_hdf5(path):
        return False
    import h5py

    try:
        with h5py.File(path, "r") as file:
            return "RNN_0" in file or "char_embed" in file
    except (OSError, RuntimeError, ValueError, KeyError):
        return "weights" in path.name  # damaged: the reader reports how


def is_allennlp_state(path: Path) -> bool:
    """Is this file the state dict of an AllenNLP model with an ELMo in it?"""
    head = _first_bytes(path, 1 << 20)
    return (head[:4] == b"PK\x03\x04" or head[:1] == b"\x80") and _STATE_KEY in head


def is_manylangs(folder: Path) -> bool:
    """Is this folder an ELMoForManyLangs model?"""
    return all((folder / name).is_file() for name in ("config.json", "encoder.pkl", "token_embedder.pkl"))


def tells_manylangs(path: Path, head: bytes) -> bool:
    """Is this an ELMoForManyLangs folder?"""
    return path.is_dir() and is_manylangs(path)


def tells_bilm(path: Path, head: bytes) -> bool:
    """Is this a folder with a biLM's options.json, or either of a biLM's two files?"""
    if path.is_dir():
        return any(is_options(file) for file in sorted(path.glob("*.json")))
    return is_weights(path) or (path.suffix == ".json" and is_options(path))


def tells_allennlp(path: Path, head: bytes) -> bool:
    """Is this the state dict of an AllenNLP model with an ELMo in it?"""
    return path.is_file() and is_allennlp_state(path)


def find_pair(path: str | Path) -> tuple[Path, Path]:
    """The options and weights files, from their folder or from one of the two."""
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    options = [p for p in sorted(folder.glob("*.json")) if is_options(p)]
    weights = [p for p in sorted(folder.iterdir()) if p.is_file() and is_weights(p)]
    if path.is_file():
        if is_hdf5(path):
            weights, options = [path], _like(path, options)
        else:
            read_options(path)  # raises if something is wrong with it
            options, weights = [path], _like(path, weights)
    for what, files in (("options.json", options), ("weights.hdf5", weights)):
        if not files:
            raise FormatError(f"{path} has no {what} next to it" if path.is_file() else f"{path} lacks a {what}")
        if len(files) > 1:
            names = ", ".join(p.name for p in files)
            raise FormatError(f"{folder} has several biLMs ({names}): give the path of one file")
    return options[0], weights[0]


def _like(path: Path, candidates: list[Path]) -> list[Path]:
    """The candidates with the same name as ``path`` apart from 'options' or 'weights'; all of them if none has."""

    def bare(p: Path) -> str:
        return p.stem.replace("options", "").replace("weights", "")

    return [p for p in candidates if bare(p) == bare(path)] or candidates
