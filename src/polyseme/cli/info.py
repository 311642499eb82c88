"""``polyseme info``: what is this text, corpus, model or index?"""

from __future__ import annotations

import os
from typing import Any

import click

from polyseme.cli.corpus import segmentation_of, text_options
from polyseme.cli.show import json_option, print_json, print_table

WORDS_SHOWN = 10
VERIFIED = {True: "every byte", False: "sizes and checksums of small files"}
NO_TEXT = ("pickle", "tar", "npy", "hdf5", "safetensors")  # and no model: why, says the refusal to load it


@click.command()
@click.argument("path")
@text_options
@click.option("--min-count", type=click.IntRange(1), default=5, show_default=True, help="For the vocabulary's size.")
@click.option("--verify", is_flag=True, help="Of a corpus, model or index: check every byte of its files.")
@json_option
def info(path: str, min_count: int, verify: bool, as_json: bool, **flags: Any) -> None:
    """What is this text, corpus, model or index? PATH is a file or folder, or - for text on stdin."""
    kind = _kind(path)
    if kind == "corpus":
        facts = _corpus(path, min_count, verify)
    elif kind == "polyseme":
        facts = _model(path, verify)
    elif kind == "index":
        facts = _index(path, verify)
    elif kind == "text":
        facts = _text(path, min_count, flags)
    else:
        facts = _published(path, kind)
    if as_json:
        print_json(facts)
    else:
        print_table(("what", "is"), [(name.replace("_", " "), _shown(value)) for name, value in facts.items()])


def _kind(path: str) -> str:
    """corpus, index, polyseme (a model folder), text, or the name of a published format."""
    from polyseme.api import recognise
    from polyseme.catalog import REFUSALS

    if path == "-" or not (os.path.isfile(path) or os.path.isdir(path)):
        return "text"  # a pipe, or nothing, which the reader says
    kind = recognise(path)
    return kind if kind not in REFUSALS or kind in ("corpus", "index", *NO_TEXT) else "text"


def _text(path: str, min_count: int, flags: dict[str, Any]) -> dict[str, Any]:
    from polyseme.text.survey import survey

    names = ("segment", "words", "normalise", "script", "case")
    segmentation = segmentation_of(**{name: flags.pop(name) for name in names})
    return {"kind": "text", **survey(path, segmentation=segmentation, min_count=min_count, **flags)}


def _corpus(path: str, min_count: int, verify: bool) -> dict[str, Any]:
    from polyseme.text.corpus import Corpus
    from polyseme.text.layout import CORPUS

    corpus = Corpus.open(path)
    if verify:
        CORPUS.verify(path, CORPUS.read(path), everything=True)
    return {
        "kind": "corpus",
        **corpus.facts,
        "vocabulary": len(corpus.vocabulary),
        "min_count": min_count,
        "vocabulary_after_min_count": len(corpus.vocabulary.cut(min_count=min_count)),
        "most_frequent": corpus.vocabulary.words[:WORDS_SHOWN],
        "tags": corpus.tag_names,
        "segmentation": corpus.segmentation.to_json(),
        "sample": [corpus.sentence(i) for i in range(min(3, len(corpus)))],
        "fingerprint": corpus.fingerprint,
        "verified": VERIFIED[verify],
    }


def _model(path: str, verify: bool) -> dict[str, Any]:
    from polyseme.api import load
    from polyseme.store.folder import MODEL

    manifest = MODEL.read(path)
    MODEL.verify(path, manifest, everything=verify)
    return {
        "kind": "model",
        "method": manifest["method"],
        **(_size(load(path)) if manifest.get("kind") == "words" else {}),  # which is memory-mapped: no work
        "options": manifest["options"],
        **_made_of(path, manifest),
        "corpus": manifest.get("corpus"),
        "segmentation": manifest.get("segmentation"),
        "polyseme": manifest.get("polyseme"),
        "format": manifest["format"],
        "files": {name: seal["size"] for name, seal in manifest["files"].items()},
        "verified": VERIFIED[verify],
    }


def _made_of(path: str, manifest: dict[str, Any]) -> dict[str, Any]:
    """Of a composed model, the methods of the models in the folders below it."""
    from polyseme.store.folder import MODEL, model_names

    names = model_names(path, manifest)
    return {"made_of": {name: MODEL.read(os.path.join(path, name))["method"] for name in names}} if names else {}


def _index(path: str, verify: bool) -> dict[str, Any]:
    from polyseme.search.layout import INDEX

    manifest = INDEX.read(path)
    INDEX.verify(path, manifest, everything=verify)
    return {
        "kind": "index",
        **manifest["facts"],
        "options": manifest["options"],
        "model": manifest["model"].get("path"),
        "corpus": manifest["corpus"].get("path"),
        "files": {name: seal["size"] for name, seal in manifest["files"].items()},
        "verified": VERIFIED[verify],
    }


def _published(path: str, kind: str) -> dict[str, Any]:
    from polyseme.api import load

    model = load(path)
    return {
        "kind": "model",
        "format": kind,
        "method": model.method,
        **_size(model),
        "options": dict(vars(model.options)),
        "corpus": model.about.corpus,
    }


def _size(model: Any) -> dict[str, int]:
    """How many vectors a model of words has; of any model, how long its vectors are."""
    if hasattr(model, "vector_size"):
        return {"words": len(model), "dim": model.vector_size}
    return {**({"layers": model.n_layers} if hasattr(model, "n_layers") else {}), "dim": model.dim}


def _shown(value: Any) -> Any:
    """Nested facts on one line; a sample with its words set apart."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(v)}" for name, v in value.items() if v not in ([], {}, None, "")) or None
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "\n".join(" | ".join(words) for words in value)
    if isinstance(value, list):
        return " ".join(map(str, value)) or None
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
