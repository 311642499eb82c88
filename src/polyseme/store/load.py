"""``polyseme.load``: a model from a folder of ours or from a published file, told apart by content."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from polyseme.errors import FormatError
from polyseme.store.recognise import recognise

# format → the function that opens it. Strings, since the rooms of methods stand above this one.
OPENERS = {
    "polyseme": "polyseme.store.model:open_folder",
    "word2vec": "polyseme.words.published:open_vectors",
    "fasttext": "polyseme.words.published:open_fasttext",
    "elmo": "polyseme.contexts.bilm_file:open_bilm",
    "manylangs": "polyseme.contexts.manylangs:open_manylangs",
    "allennlp": "polyseme.contexts.allennlp_state:open_allennlp",
}

# format → what it is, and what to do with it.
REFUSALS = {
    "corpus": "it is a corpus: Corpus.open reads it",
    "index": "it is an index of occurrences: polyseme senses reads it",
    "folder": "it is a folder with none of the files that tell a model",
    "text": "it looks like plain text: polyseme train makes a model of it",
    "empty": "it is empty",
    "pickle": "it is a pickle, which could run code; save it in an open format (gensim: save_word2vec_format)",
    "zip": "it is a zip archive (.npz, torch or packed files): unpack it, or save it again in an open format",
    "tar": "it is a tar archive: unpack it",
    "npy": "it is a NumPy array, without the words that belong to it",
    "hdf5": "it is an HDF5 file: name the folder it lies in, with its options beside it",
    "safetensors": "it is a safetensors file: name the folder it lies in, with its configuration beside it",
    "json": "it is a JSON file: name the folder it lies in",
    "binary": "it is a binary file of no format that is known here, or it is damaged",
}


def load(path: str | Path) -> Any:
    """The model at ``path``, whatever its format."""
    name = recognise(path)
    if name not in OPENERS:
        raise FormatError(f"{path} is not a model that polyseme reads: {REFUSALS[name]}")
    module, function = OPENERS[name].split(":")
    return getattr(import_module(module), function)(path)
