"""Recognises published Transformers by the names of their files, without importing their libraries."""

from __future__ import annotations

from pathlib import Path

from polyseme.disk.files import read_settings
from polyseme.errors import FormatError

# In search order. An index lists the files of weights that are split over several.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
OF_OTHERS = ("tf_model.h5", "flax_model.msgpack", "model.onnx", "model.ckpt.index")


def tells_sentence_transformers(path: Path, head: bytes) -> bool:
    """Is this a sentence-transformers folder?"""
    return (path / "modules.json").is_file()


def tells_huggingface(path: Path, head: bytes) -> bool:
    """Is this a Hugging Face model folder?"""
    if not path.is_dir():
        return False
    if _has_weights(path):
        return True
    try:
        return "model_type" in read_settings(path / "config.json")
    except FormatError:
        return False


def tells_tensorflow(path: Path, head: bytes) -> bool:
    """Is this a folder with a TensorFlow checkpoint of BERT and no other weights, or one of the checkpoint's files?"""
    if path.is_dir():
        return not _has_weights(path) and (bool(indexes(path)) or (path / "bert_config.json").is_file())
    return bool(indexes(path.parent)) and (path.suffix == ".index" or ".data-" in path.name)


def _has_weights(folder: Path) -> bool:
    return any((folder / name).is_file() for name in WEIGHTS)


def indexes(folder: Path) -> list[Path]:
    """The .index files of TensorFlow checkpoints."""
    return [file for file in sorted(folder.glob("*.index")) if file.is_file()]
