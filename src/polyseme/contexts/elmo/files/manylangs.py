"""ELMoForManyLangs folders (哈工大多语言 ELMo): two json files, char.dic, word.dic and two state dicts.

Che et al., "Towards Better UD Parsing: Deep Contextualized Word Embeddings, Ensemble, and Treebank Concatenation",
CoNLL 2018 shared task. A word is read as a word embedding and as Unicode characters. Their program swaps the ids for
the beginning and the end of a word, both in training and in use, so this reader does too.
"""

from __future__ import annotations

import os
from pathlib import Path, PureWindowsPath
from typing import Any

import torch
from torch import Tensor

from polyseme.contexts.elmo.alphabet import make_alphabet
from polyseme.contexts.elmo.bilm import BiLMConfig
from polyseme.contexts.elmo.files.allennlp import highway_tensors, lstm_tensors
from polyseme.contexts.elmo.model import Elmo, filled
from polyseme.contexts.elmo.options import ElmoOptions, filters_text
from polyseme.disk.files import read_settings, read_small
from polyseme.errors import FormatError, OptionError
from polyseme.neural.weights import Tensors
from polyseme.options import make_options

# In the order of our tables: unknown, begin and end of sentence, begin and end of word (swapped), padding.
_LETTER_SPECIALS = ("<oov>", "<bos>", "<eos>", "<eow>", "<bow>", "<pad>")
_WORD_SPECIALS = ("<oov>", "<bos>", "<eos>")
_LONGEST_DICTIONARY = 1 << 30
_NO_CUT = 1000  # characters: longer than a word of any dictionary
# The network of all languages they published; their program has it under two names.
_PUBLISHED_NAMES = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
_PUBLISHED: dict[str, Any] = {
    "encoder": {"name": "elmo", "projection_dim": 512, "cell_clip": 3, "proj_clip": 3, "dim": 4096, "n_layers": 2},
    "token_embedder": {
        "name": "cnn", "activation": "relu", "n_highway": 2, "word_dim": 100, "char_dim": 50,
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]], "max_characters_per_token": 50,
    },
}  # fmt: skip


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
        raise FormatError(f"{folder} does not describe a valid biLM: {error}") from None
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
        reads = {"chars": token["char_dim"] > 0, "words": token["word_dim"] > 0}
        _check_kinds(folder, str(encoder["name"]), str(token["name"]), spells=reads["chars"])
        values: dict[str, Any] = {
            "alphabet": "+".join(kind for kind, used in reads.items() if used),
            "word_dim": token["word_dim"] or None,
            **(_spelling(token) if reads["chars"] else {"n_highway": 0}),
            # Their 'cnn' embedder truncates words before it looks them up; their 'lstm' embedder does not.
            "max_characters": token["max_characters_per_token"] if token["name"].lower() == "cnn" else _NO_CUT,
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
        raise FormatError(f"{folder} does not describe a valid biLM: {error}") from None


def _check_kinds(folder: Path, encoder: str, token_embedder: str, *, spells: bool) -> None:
    if encoder.lower() != "elmo":
        raise FormatError(f"{folder} has an encoder of type {encoder!r}; only 'elmo' is supported")
    if token_embedder.lower() == "lstm" and spells:
        # The published program fails here, since it concatenates a matrix with 3-D tensors: no such weights can exist.
        raise FormatError(
            f"{folder} has a token_embedder of type 'lstm' that reads characters, which "
            "ELMoForManyLangs itself cannot run; only 'cnn' is supported"
        )
    if token_embedder.lower() not in ("cnn", "lstm"):
        raise FormatError(f"{folder} has a token_embedder of type {token_embedder!r}; only 'cnn' is supported")


def _spelling(token: dict[str, Any]) -> dict[str, Any]:
    """Our options of the character CNN."""
    filters = tuple((width, number) for width, number in token["filters"])
    if not filters or not all(type(n) is int and 0 < n <= 1 << 16 for pair in filters for n in pair):
        raise ValueError
    return {
        "char_dim": token["char_dim"],
        "filters": filters_text(filters),
        "activation": token["activation"],
        "n_highway": token["n_highway"],
    }


def _network(folder: Path) -> dict[str, Any]:
    """The description of the network: the file that ``config_path`` names, searched for inside the folder only.

    Downloaded folders name a file on their authors' disk and do not contain it, since their program includes it.
    """
    name = read_settings(folder / "config.json").get("config_path")
    if not isinstance(name, str):
        raise FormatError(f"{folder / 'config.json'} does not name the file of the network ('config_path')")
    named = PureWindowsPath(name)  # splits at both kinds of slashes, whatever system wrote it
    outside = named.anchor or ".." in named.parts
    for path in (folder / named.name, *(() if outside else (folder.joinpath(*named.parts),))):
        if os.path.isfile(path):  # also False for an invalid path
            return read_settings(path)
    if named.name in _PUBLISHED_NAMES:
        return _PUBLISHED
    missing = named.name[:80] or "the file of the network"
    raise FormatError(f"{folder} lacks {missing}: config.json names it; copy it there")


def _dictionary(path: Path) -> dict[str, int]:
    """Lines of ``token<TAB>id``; a line with the id alone is for U+3000, which their reader strips."""
    number_of = {}
    try:
        lines = read_small(path, _LONGEST_DICTIONARY).decode("utf-8").split("\n")
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
        number_of[token] = int(identity)
    return number_of


def _rows(table: Tensor, ids: dict[str, int], tokens: list[str], where: Path) -> Tensor:
    missing = [token for token in tokens if token not in ids]
    if missing:
        raise FormatError(f"{where} lacks {missing[0]!r}")
    wanted = [ids[token] for token in tokens]
    if max(wanted) >= len(table):
        raise FormatError(f"{where} has the id {max(wanted)}, but the weights have {len(table)} rows")
    return table[torch.tensor(wanted)]


def _convolution_tensors(tensors: Tensors, config: BiLMConfig) -> dict[str, Tensor]:
    renamed = highway_tensors(tensors, "highways._layers.", config.n_highway, config.n_filters)
    for number, (width, count) in enumerate(config.filters):
        weight = tensors.get(f"convolutions.{number}.weight", (count, config.char_dim, width))
        renamed[f"encoder.convolutions.{number}.weight"] = weight
        renamed[f"encoder.convolutions.{number}.bias"] = tensors.get(f"convolutions.{number}.bias", (count,))
    return renamed
