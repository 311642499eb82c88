"""ELMoForManyLangs folders (哈工大多语言 ELMo): two json files, char.dic, word.dic and two state dicts.

Che et al., "Towards Better UD Parsing: Deep Contextualized Word Embeddings, Ensemble, and Treebank Concatenation",
CoNLL 2018 shared task. A word is its own vector beside its Unicode spelling. Their program exchanges the ids of the
begin and the end of a word, in training and in use alike, so a faithful reader does too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polyseme.contexts.bilm import BiLMConfig
from polyseme.contexts.elmo import Elmo, filled, make_alphabet
from polyseme.contexts.elmo_options import ElmoOptions, filters_text
from polyseme.contexts.torch_file import Tensors, highway_tensors, lstm_tensors
from polyseme.errors import FormatError, OptionError
from polyseme.options import make_options

_LONGEST_JSON = 1 << 20
# In the order of our tables: unknown, begin and end of the sentence, then of the word (exchanged), padding.
_LETTER_SPECIALS = ("<oov>", "<bos>", "<eos>", "<eow>", "<bow>", "<pad>")
_WORD_SPECIALS = ("<oov>", "<bos>", "<eos>")


def open_manylangs(path: str | Path) -> Elmo:
    """The biLM in an ELMoForManyLangs folder."""
    folder = Path(path)
    options, reads = _options(folder)
    characters = _dictionary(folder / "char.dic") if reads["chars"] else {}
    words = _dictionary(folder / "word.dic") if reads["words"] else {}
    letters = [token for token in characters if len(token) == 1]
    known = [token for token in words if token not in _WORD_SPECIALS]
    alphabet = make_alphabet(options, characters=letters, words=known)
    try:
        config = BiLMConfig.of(options, alphabet, project=True)
    except OptionError as error:
        raise FormatError(f"{folder} describes a biLM that cannot be: {error}") from None
    token_file = Tensors(folder / "token_embedder.pkl")
    tensors = _convolution_tensors(token_file, config) if reads["chars"] else {}
    if reads["chars"]:
        table = token_file.get("char_emb_layer.embedding.weight", (None, config.char_dim))
        tensors["encoder.characters"] = _rows(table, characters, [*letters, *_LETTER_SPECIALS], folder / "char.dic")
    if reads["words"]:
        table = token_file.get("word_emb_layer.embedding.weight", (None, config.word_dim))
        tensors["encoder.words"] = _rows(table, words, [*known, *_WORD_SPECIALS], folder / "word.dic")
    tensors["encoder.projection.weight"] = token_file.get("projection.weight", (config.projection, config.token_dim))
    tensors["encoder.projection.bias"] = token_file.get("projection.bias", (config.projection,))
    encoder = Tensors(folder / "encoder.pkl")
    tensors |= lstm_tensors(encoder, config.n_layers, config.hidden, config.projection)
    return Elmo(options, alphabet, filled(config, tensors))


def _options(folder: Path) -> tuple[ElmoOptions, dict[str, bool]]:
    """Our options from the two json files, and whether characters and words are read."""
    network = _network(folder)
    try:
        encoder, token = network["encoder"], network["token_embedder"]
        for part, name, known in (("encoder", encoder["name"], "elmo"), ("token_embedder", token["name"], "cnn")):
            if str(name).lower() != known:
                raise FormatError(f"{folder} has a {part} of the kind {name!r}; only {known!r} can be read")
        reads = {"chars": token["char_dim"] > 0, "words": token["word_dim"] > 0}
        filters = tuple((width, number) for width, number in token["filters"])
        if not all(type(n) is int and 0 < n <= 1 << 16 for pair in filters for n in pair):
            raise ValueError
        values: dict[str, Any] = {
            "alphabet": "+".join(kind for kind, used in reads.items() if used),
            "char_dim": token["char_dim"] or None,
            "word_dim": token["word_dim"] or None,
            "max_characters": token["max_characters_per_token"],
            "filters": filters_text(filters) or None,
            "activation": token["activation"],
            "n_highway": token["n_highway"] if reads["chars"] else 0,
            "hidden": encoder["dim"],
            "projection": encoder["projection_dim"],
            "n_layers": encoder["n_layers"],
            "cell_clip": encoder["cell_clip"] or 0,
            "projection_clip": encoder["proj_clip"] or 0,
            "conventions": "manylangs",
        }
        return make_options(ElmoOptions, values), reads
    except KeyError as error:
        raise FormatError(f"{folder} lacks {error} in the description of its network") from None
    except (TypeError, ValueError, AttributeError):
        raise FormatError(f"{folder} does not describe its network: values of the wrong kind") from None
    except OptionError as error:
        raise FormatError(f"{folder} describes a biLM that cannot be: {error}") from None


def _network(folder: Path) -> dict[str, Any]:
    """The network's description: the file that ``config_path`` names, looked for inside the folder only."""
    name = _json(folder / "config.json").get("config_path")
    if not isinstance(name, str):
        raise FormatError(f"{folder / 'config.json'} does not name the file of the network ('config_path')")
    basename = name.replace("\\", "/").rsplit("/", 1)[-1]
    path = folder / basename
    if not basename or not path.is_file():
        raise FormatError(
            f"{folder} lacks {basename or 'the file of the network'}: config.json names it; copy it there"
        )
    return _json(path)


def _json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LONGEST_JSON:
            raise FormatError(f"{path} is too large to be a configuration")
        record = json.loads(path.read_bytes())
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise FormatError(f"{path} is not JSON") from None
    if not isinstance(record, dict):
        raise FormatError(f"{path} is not a table of settings")
    return record


def _dictionary(path: Path) -> dict[str, int]:
    """``token<TAB>id`` a line; a line with the id alone speaks of U+3000, which their reader strips."""
    found = {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise FormatError(f"{path} is not UTF-8 text") from None
    for number, line in enumerate(lines, 1):
        fields = line.strip().split("\t")
        if fields == [""]:
            continue
        token, identity = ("\u3000", fields[0]) if len(fields) == 1 else (fields[0], fields[1])
        if not identity.isdecimal() or len(identity) > 12:
            raise FormatError(f"{path}, line {number}: {line.strip()[:40]!r} is not a token and its id")
        found[token] = int(identity)
    return found


def _rows(table: Tensor, ids: dict[str, int], tokens: list[str], where: Path) -> Tensor:
    missing = [token for token in tokens if token not in ids]
    if missing:
        raise FormatError(f"{where} lacks {missing[0]!r}")
    wanted = [ids[token] for token in tokens]
    if max(wanted) >= len(table):
        raise FormatError(f"{where} has the id {max(wanted)}, and the weights have {len(table)} rows")
    return table[torch.tensor(wanted)]


def _convolution_tensors(tensors: Tensors, config: BiLMConfig) -> dict[str, Tensor]:
    found = highway_tensors(tensors, "highways._layers.", config.n_highway, config.n_filters)
    for number, (width, count) in enumerate(config.filters):
        weight = tensors.get(f"convolutions.{number}.weight", (count, config.char_dim, width))
        found[f"encoder.convolutions.{number}.weight"] = weight
        found[f"encoder.convolutions.{number}.bias"] = tensors.get(f"convolutions.{number}.bias", (count,))
    return found
