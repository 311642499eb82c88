"""Published formats, how each is recognised by content, and the messages for other files."""

from __future__ import annotations

import re

from polyseme.catalog.methods import Format

# In the order in which they are asked.
FORMATS: tuple[Format, ...] = (
    Format(
        "allennlp", "polyseme.contexts.elmo.files.recognise:tells_allennlp",
        "polyseme.contexts.elmo.files.allennlp:open_allennlp", inside=("zip", "pickle"),
    ),
    Format(
        "cove", "polyseme.contexts.cove.files:tells", "polyseme.contexts.cove.files:open_cove",
        inside=("zip", "pickle"), needs_others=True,
    ),
    Format(
        "infersent",
        "polyseme.sentences.files.published:tells_infersent",
        "polyseme.sentences.files.published:open_infersent",
        inside=("zip", "pickle"), needs_others=True,
    ),
    Format(
        "use-multilingual",
        "polyseme.sentences.files.published:tells_use",
        "polyseme.sentences.files.published:open_use",
        inside=("zip",),
    ),
    Format(
        "manylangs", "polyseme.contexts.elmo.files.recognise:tells_manylangs",
        "polyseme.contexts.elmo.files.manylangs:open_manylangs",
    ),
    Format(
        "elmo", "polyseme.contexts.elmo.files.recognise:tells_bilm", "polyseme.contexts.elmo.files.bilm:open_bilm",
        inside=("hdf5", "json"),
    ),
    Format(
        "sentence-transformers", "polyseme.contexts.transformer.files.recognise:tells_sentence_transformers",
        "polyseme.sentences.files.sentence_transformers:open_sentence_transformers",
    ),
    Format(
        "tensorflow-bert", "polyseme.contexts.transformer.files.recognise:tells_tensorflow",
        "polyseme.contexts.transformer.files.tensorflow:open_tensorflow",
    ),
    Format(
        "huggingface", "polyseme.contexts.transformer.files.recognise:tells_huggingface",
        "polyseme.contexts.transformer.files.huggingface:open_huggingface",
    ),
    Format(
        "polyglot", "polyseme.words.files.polyglot:tells", "polyseme.words.files.polyglot:open_polyglot",
        inside=("pickle",),
    ),
    Format("fasttext", "polyseme.words.files.fasttext:tells", "polyseme.words.files.models:open_fasttext"),
    Format("word2vec", "polyseme.words.files.word2vec:tells", "polyseme.words.files.models:open_vectors"),
)  # fmt: skip

# Folders of ours: the file that tells them, and what they are.
FOLDERS = (("model.json", "polyseme"), ("corpus.json", "corpus"), ("index.json", "index"), ("texts.json", "texts"))

# How files of other programs begin: told apart so that a refusal can say what they are.
STRANGERS = (
    (re.compile(rb"\x80[\x01-\x05]"), "pickle"),
    (re.compile(rb"(\(i|c)[A-Za-z_][\w.]*\n\w+\n"), "pickle"),  # the text protocol
    (re.compile(rb"PK\x03\x04"), "zip"),
    (re.compile(rb".{257}ustar", re.DOTALL), "tar"),
    (re.compile(rb"\x93NUMPY"), "npy"),
    (re.compile(rb"\x89HDF\r\n\x1a\n"), "hdf5"),
    (re.compile(rb".{5}\x00\x00\x00\{", re.DOTALL), "safetensors"),
    (re.compile(rb"\s*\{\s*[\"}]"), "json"),
)

# What is not a model: what it is, and what to do with it.
REFUSALS = {
    "corpus": "it is a corpus, which methods are trained on",
    "index": "it is an index of occurrences: polyseme uses reads it",
    "texts": "it is a text index: polyseme search MODEL INDEX QUERY searches it",
    "folder": "it is a folder without any model file",
    "text": "it looks like plain text: train a model on it with polyseme train",
    "empty": "it is empty",
    "pickle": "it is a pickle, which could run code; save it in an open format (gensim: save_word2vec_format)",
    "zip": "it is a zip archive (.npz, torch or packed files): unpack it, or save it again in an open format",
    "tar": "it is a tar archive: unpack it",
    "npy": "it is a NumPy array without its words",
    "hdf5": "it is an HDF5 file: give the folder that contains it and its options",
    "safetensors": "it is a safetensors file: give the folder that contains it and its configuration",
    "json": "it is a JSON file: give the folder that contains it",
    "binary": "it is a binary file of unknown format, or damaged",
}
