"""Hugging Face folders: config.json, the weights, and a tokenizer in any of its forms.

Weights are read as data (safetensors, or torch files that contain only tensors), the tokenizer by ``AutoTokenizer`` of
``transformers`` from local files. Code in the folder is never executed.

A tokenizer in a file of its own: a WordPiece vocabulary (vocab.txt), or tokenizer.json with its settings beside.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import CONFIG_MAPPING, AutoTokenizer, BertTokenizer, PreTrainedConfig

from polyseme.contexts.transformer.files.recognise import OF_OTHERS, WEIGHTS
from polyseme.contexts.transformer.files.tensorflow import read_wordpiece
from polyseme.contexts.transformer.files.word_bpe import read_word_bpe, with_normalisation, word_bpe
from polyseme.contexts.transformer.model import TransformerEncoder, check_vocabulary
from polyseme.contexts.transformer.network import build, configuration
from polyseme.contexts.transformer.offline import offline, panics_as, reason
from polyseme.contexts.transformer.options import TransformerOptions
from polyseme.contexts.transformer.tokenizer import SPECIALS, Pieces
from polyseme.disk.files import read_settings
from polyseme.disk.folders import new_export
from polyseme.errors import FormatError, MissingExtra
from polyseme.neural.weights import read_tensors
from polyseme.store import safetensors_file as tensor_file
from polyseme.store.model import About
from polyseme.text.tokenizer_files import check_tokenizer

log = logging.getLogger(__name__)

_CONFIGS = ("config.json", "bert_config.json")  # the second in the first releases of Chinese BERTs for torch
# Files that transformers may read a tokenizer from instead of those that its class names.
_VOCABULARIES = ("tokenizer.*json", "vocab*", "*.model", "*.spm", "*.tiktoken", "tekken.json")
# Rows of a network that stand for no subword: their number is rounded up.
_LARGEST_UNUSED_SHARE = 0.2
_MOST_UNUSED_ROWS = 128  # of a small vocabulary, whatever the share
_OF_TOKENIZERS = (*_VOCABULARIES, "merges.txt", "special_tokens_map.json", "added_tokens.json", "chat_template*")
_LARGEST_OF_TOKENIZERS = 256 << 20
_PADDING = ("eos_token", "sep_token", "bos_token", "unk_token")  # tokens to pad with, in search order
_TOKENIZER_CLASS = re.compile(r"\w*(Tokenizer|TokenizerFast|TokenizersBackend)")


def open_huggingface(path: str | Path) -> TransformerEncoder:
    """The encoder in a Hugging Face folder."""
    folder = Path(path)
    file = next((folder / name for name in _CONFIGS if (folder / name).is_file()), folder / _CONFIGS[0])
    record = read_settings(file)
    tensors = None
    if "model_type" not in record:  # as in the first years: the names of the weights tell it
        tensors = read_weights(folder)
        record["model_type"] = next((k for name in tensors if (k := name.partition(".")[0]) in CONFIG_MAPPING), None)
    config = configuration(record, where=file)
    network = build(config, read_weights(folder) if tensors is None else tensors, where=folder)
    pieces = read_tokenizer(folder, config)
    check_vocabulary(network, pieces, where=folder)
    _check_lines(folder, len(pieces.names), network.vocabulary_size)
    return TransformerEncoder(TransformerOptions(), network, pieces, about=About(corpus={"source": folder.name}))


def _check_lines(folder: Path, n_pieces: int, rows: int) -> None:
    """Refuse a list of subwords that was cut: unlike JSON it still can be read, and has far fewer than the network."""
    if (folder / "tokenizer.json").is_file() or not (folder / "vocab.txt").is_file():
        return
    if rows - n_pieces > max(_LARGEST_UNUSED_SHARE * rows, _MOST_UNUSED_ROWS):
        raise FormatError(f"{folder / 'vocab.txt'} is truncated: {n_pieces:,} pieces of {rows:,}")


def write_huggingface(model: TransformerEncoder, path: str | Path, *, force: bool = False) -> None:
    """Write a folder for ``transformers``: AutoModel, AutoTokenizer, and AutoModelFor…LM if there is a head."""
    with new_export(path, "transformers", force=force) as folder:
        write_into(model, folder)


def write_into(model: TransformerEncoder, folder: Path, *, pads: bool = False) -> None:
    """Write the model's files into an existing folder; with ``pads``, its tokenizer is given a padding token."""
    parts = model.parts()
    files = dict(parts.files)
    if model.segmentation.script != "keep":
        script = model.segmentation.script
        log.warning(
            "the exported tokenizer does not convert text to %s Chinese, as is done here: convert it first", script
        )
    files["tokenizer.json"] = with_normalisation(files["tokenizer.json"], model.segmentation)
    files["tokenizer_config.json"] = _with_inputs(files["tokenizer_config.json"], types=model.network.n_types > 0)
    if pads and "pad_token" not in model.pieces.specials:
        files["tokenizer_config.json"] = _with_padding(files["tokenizer_config.json"])
    prefix = model.network.whole.base_model_prefix
    left_out = ("mix.",) if model.network.knows_pooler else ("mix.", "pooler.", f"{prefix}.pooler.")
    tensors = {name: array for name, array in parts.tensors.items() if not name.startswith(left_out)}
    if model.pieces.n_known:
        tensors = _with_unknown_rows(tensors, model.pieces, model.network.vocabulary_size)
        config = {**json.loads(files["config.json"]), "vocab_size": model.pieces.n_numbers}
        files["config.json"] = json.dumps(config, indent=2).encode()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    tensor_file.write(folder / "model.safetensors", tensors, {"format": "pt"})


def _with_inputs(settings: bytes, *, types: bool) -> bytes:
    """The settings of a tokenizer that gives the network what it reads: without them, some give no token types."""
    names = ["input_ids", *(["token_type_ids"] if types else []), "attention_mask"]
    return json.dumps({**json.loads(settings), "model_input_names": names}, ensure_ascii=False, indent=2).encode()


def _with_padding(settings: bytes) -> bytes:
    """The settings of a tokenizer with a padding token: the end token, which no mask lets the network see."""
    record = json.loads(settings)
    token = next((record[name] for name in _PADDING if name in record), None)
    if token is None:
        log.warning("the tokenizer has no special token to pad texts with, which sentence-transformers needs")
        return settings
    return json.dumps({**record, "pad_token": token}, ensure_ascii=False, indent=2).encode()


def _with_unknown_rows(tensors: Mapping[str, NDArray[Any]], pieces: Pieces, size: int) -> dict[str, NDArray[Any]]:
    """The tensors, with a copy of the unknown token's row for each subword that the network does not know.

    ``transformers`` looks up the numbers of all subwords. The language model does not predict the new ones.
    """
    n_unknown = pieces.n_numbers - pieces.n_known
    widened = dict(tensors)
    for name, array in tensors.items():
        if array.ndim and len(array) == size:
            row = array[pieces.id_of("unk") or 0] if array.ndim > 1 else -1e4
            rows = np.full((n_unknown, *array.shape[1:]), row, dtype=array.dtype)
            widened[name] = np.concatenate([array[: pieces.n_known], rows])
    return widened


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of a folder, from one file or several."""
    name = next((name for name in WEIGHTS if (folder / name).is_file()), None)
    if name is None:
        others = [name for name in OF_OTHERS if (folder / name).is_file()]
        hint = f"; {others[0]} belongs to another library, which can save it as safetensors" if others else ""
        raise FormatError(f"{folder} has no weights: neither {WEIGHTS[0]} nor {WEIGHTS[2]}{hint}")
    files = _listed(folder, folder / name) if name.endswith(".json") else [folder / name]
    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors |= _safe_tensors(file) if file.suffix == ".safetensors" else read_tensors(file)
    return tensors


def _listed(folder: Path, index: Path) -> list[Path]:
    """The files that an index lists for the weights."""
    places = read_settings(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(n, str) and n == Path(n).name for n in places.values()):
        raise FormatError(f"{index} does not say which files the weights are in")
    return [folder / name for name in sorted(set(places.values()))]


def _safe_tensors(file: Path) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = load_file(file)
    except OSError as error:
        raise FormatError(f"{file} cannot be read: {error.strerror or error}") from None
    except (SafetensorError, RuntimeError, ValueError, TypeError, KeyError) as error:
        raise FormatError(f"{file} is truncated or is not a safetensors file ({reason(error)})") from None
    return tensors


def read_tokenizer(folder: Path, config: PreTrainedConfig | None = None) -> Pieces:
    """The tokenizer of a folder: tokenizer.json, vocab.txt, vocab.json with merges.txt, or a SentencePiece model."""
    settings: dict[str, Any] = {}
    if (folder / "tokenizer_config.json").exists():
        settings = read_settings(folder / "tokenizer_config.json")
    named = settings.get("tokenizer_class")
    if settings.get("auto_map") or (named and not _TOKENIZER_CLASS.fullmatch(str(named))):
        raise FormatError(f"{folder / 'tokenizer_config.json'} asks to run its own code, which is not executed")
    _check_files(folder)
    if kind := word_bpe(folder, settings, config):
        return read_word_bpe(folder, kind, settings, config)
    try:
        for file in folder.glob("tokenizer.*json"):
            check_tokenizer(file.read_bytes())
        with offline(), panics_as(ValueError, "it was altered"):
            tokenizer = AutoTokenizer.from_pretrained(
                str(folder), config=config, local_files_only=True, trust_remote_code=False
            )
            if _is_without_files(tokenizer, folder) and (folder / "vocab.txt").is_file():
                # Chinese ALBERT and GPT-2 have BERT's vocabulary, which the classes of their architectures do not read.
                tokenizer = BertTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:  # transformers raises errors of many kinds
        if _only_sentencepiece(folder) and find_spec("sentencepiece") is None:
            raise MissingExtra(f"{folder}: its SentencePiece tokenizer", "sentencepiece", "sentencepiece") from None
        raise FormatError(f"{folder} has no tokenizer that can be read ({reason(error)})") from None
    if _is_invented(tokenizer, folder):
        raise FormatError(f"{folder} has no tokenizer: copy {_wanted(tokenizer)} into it")
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise FormatError(f"{folder} has a Python-only tokenizer ({type(tokenizer).__name__})")
    piece_settings = {name: getattr(tokenizer, name, None) for name in SPECIALS}
    piece_settings |= {"model_max_length": tokenizer.model_max_length, "known_pieces": settings.get("known_pieces")}
    piece_settings["tokenizer_class"] = type(tokenizer).__name__
    try:
        with panics_as(ValueError, "it was altered"):
            return Pieces(tokenizer.backend_tokenizer, piece_settings)
    except Exception as error:  # the tokenizers library raises bare exceptions
        raise FormatError(f"{folder} has a tokenizer that does not work ({reason(error)})") from None


def _check_files(folder: Path) -> None:
    """Refuse pipes and devices, which may never end, and files that are too large for a tokenizer."""
    for file in (file for form in _OF_TOKENIZERS for file in folder.glob(form)):
        if file.exists() and not file.is_dir() and not file.is_file():
            raise FormatError(f"{file} is not a regular file (but a pipe or device)")
        if file.is_file() and file.stat().st_size > _LARGEST_OF_TOKENIZERS:
            raise FormatError(f"{file} is too large for a tokenizer: {file.stat().st_size:,} bytes")


def _is_invented(tokenizer: Any, folder: Path) -> bool:
    """Whether ``transformers`` made a tokenizer without any file of a vocabulary, out of special tokens only."""
    files = (file for form in _VOCABULARIES for file in folder.glob(form))
    return _is_without_files(tokenizer, folder) and not any(file.is_file() for file in files)


def _is_without_files(tokenizer: Any, folder: Path) -> bool:
    """Whether none of the files is there that its class reads. Tokenizers of bytes and characters need no file."""
    names = {name for name in tokenizer.vocab_files_names.values() if isinstance(name, str)}
    return bool(names) and not any((folder / name).is_file() for name in names)


def _wanted(tokenizer: Any) -> str:
    """The files that a tokenizer of this class is read from."""
    names = [str(name) for key, name in tokenizer.vocab_files_names.items() if key != "tokenizer_file"]
    return f"tokenizer.json or {' and '.join(names)}"


def _only_sentencepiece(folder: Path) -> bool:
    return any(folder.glob("*.model")) and not (folder / "tokenizer.json").exists()


def read_vocabulary(path: str | Path) -> Pieces:
    """The tokenizer in this file."""
    file = Path(path)
    if file.name == "tokenizer.json":
        return read_tokenizer(file.parent)
    if file.suffix == ".txt":
        return read_wordpiece(file, 0)
    raise FormatError(f"{file} is neither a vocabulary (vocab.txt) nor tokenizer.json: give one, or a model's folder")
