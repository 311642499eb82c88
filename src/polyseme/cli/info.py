"""``polyseme info``: what is this text, table, corpus, model or index?"""

from __future__ import annotations

import itertools
import os
from typing import Any

import click

from polyseme.cli.flags import ColumnsFlag, given_flags, with_flags
from polyseme.cli.show import json_option, print_json, print_table
from polyseme.text.options import CUTTING, READING, Reading

WORDS_SHOWN = 10
SAMPLE = 3  # rows of a table
LONGEST = 60  # characters of a cell that are shown
VERIFIED = {True: "every byte", False: "sizes and checksums of small files"}
NO_TEXT = ("pickle", "tar", "npy", "hdf5", "safetensors")  # and no model: why, says the refusal to load it


@with_flags(Reading)
@click.command()
@click.argument("path")
@click.option("--columns", type=ColumnsFlag(), help="Tables: which columns are which; default: guessed.")
@click.option("--min-count", type=click.IntRange(1), default=5, show_default=True, help="For the vocabulary size.")
@click.option("--verify", is_flag=True, help="Corpora, models and indexes: check every byte of their files.")
@json_option
@click.pass_context
def info(ctx: click.Context, /, path: str, min_count: int, verify: bool, as_json: bool, **_: Any) -> None:
    """What is this text, table, corpus, model or index? PATH is a file or folder, or - for text on stdin."""
    kind = _kind(path)
    reading = given_flags(ctx, READING)
    if kind == "corpus":
        facts = _corpus(path, min_count, verify)
    elif kind == "polyseme":
        facts = _model(path, verify)
    elif kind == "index":
        facts = _index(path, verify)
    elif kind == "texts":
        facts = _text_index(path, verify)
    elif kind == "text":
        facts = _table(path, reading, ctx.params["columns"]) or _text(path, min_count, reading)
    else:
        facts = _published(path, kind)
    if as_json:
        print_json(facts)
    else:
        if facts["kind"] in ("model", "index"):
            facts["options"] = _changed(facts.get("method"), facts["options"])
        shown = [(name.removeprefix("n_").replace("_", " "), _shown(value)) for name, value in facts.items()]
        print_table(("what", "is"), shown)


def _kind(path: str) -> str:
    """corpus, index, polyseme (a model folder), text, or the name of a published format."""
    from polyseme.api import recognise
    from polyseme.catalog import REFUSALS

    if path == "-" or not (os.path.isfile(path) or os.path.isdir(path)):
        return "text"  # a pipe, or nothing, which the reader says
    kind = recognise(path)
    return kind if kind not in REFUSALS or kind in ("corpus", "index", "texts", *NO_TEXT) else "text"


def _table(path: str, reading: dict[str, Any], columns: dict[str, Any] | None) -> dict[str, Any] | None:
    """Facts about labelled or parallel data; None if the path is text, or declared to be."""
    from polyseme.data.examples import Examples
    from polyseme.data.parallel import Parallel
    from polyseme.data.training_data import recognise_data

    if "format" in reading or not (os.path.isfile(path) or os.path.isdir(path)):  # a pipe can be read only once
        return None
    told = recognise_data(path)
    if told is None and not columns:
        return None
    how = {name: reading[name] for name in (*CUTTING, "encoding") if name in reading}
    if (told and told.kind == "parallel" and not columns) or (columns and "source" in columns):
        pairs = Parallel.read(path, columns=columns, errors="skip", **how)
        sample: list[Any] = [{"source": a, "target": b} for a, b in itertools.islice(pairs, SAMPLE)]
        ways = [one.to_json() for one in pairs.segmentations]
        return {**pairs.facts, "segmentations": ways, "sample": sample, "fingerprint": pairs.fingerprint}
    without = bool(columns) and "label" not in (columns or {})
    kind = told.kind if told and not columns else None
    examples = Examples.read(path, kind=kind, columns=columns, errors="skip", unlabelled=without, **how)
    sample = [_named(row) for row in itertools.islice(examples, SAMPLE)]
    way = examples.segmentation.to_json()
    return {**examples.facts, "segmentation": way, "sample": sample, "fingerprint": examples.fingerprint}


def _named(row: Any) -> dict[str, Any]:
    """A row as a mapping from field names, including its answers."""
    fields: dict[str, Any] = row._asdict()
    if "answers" in fields:
        fields["answers"] = [answer._asdict() for answer in fields["answers"]]
    return fields


def _text(path: str, min_count: int, reading: dict[str, Any]) -> dict[str, Any]:
    from polyseme.text.survey import survey

    return {"kind": "text", **survey(path, min_count=min_count, **reading)}


def _corpus(path: str, min_count: int, verify: bool) -> dict[str, Any]:
    from polyseme.text.corpus import Corpus
    from polyseme.text.corpus_files import CORPUS

    corpus = Corpus.open(path)
    if verify:
        with CORPUS.open(path) as folder:
            folder.verify(everything=True)
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
    from polyseme.api import model_in
    from polyseme.store.folder import MODEL, read_curve

    with MODEL.open(path) as folder:
        folder.verify(everything=verify)
        manifest = folder.found
        size = model_in(folder).size() if manifest.get("kind") == "words" else {}  # memory-mapped: no work
        curve = read_curve(folder)
        made_of = {name: inner.found["method"] for name, inner in folder.inner.items()}
    return {
        "kind": "model",
        "method": manifest["method"],
        **size,
        **({"last_report": curve[-1]} if curve else {}),
        "options": manifest["options"],
        **({"made_of": made_of} if made_of else {}),  # a composed model: the methods of those below it
        "corpus": manifest.get("corpus"),
        "segmentation": manifest.get("segmentation"),
        "polyseme": manifest.get("polyseme"),
        "format": manifest["format"],
        "files": {name: seal["size"] for name, seal in manifest["files"].items()},
        "verified": VERIFIED[verify],
    }


def _index(path: str, verify: bool) -> dict[str, Any]:
    from polyseme.search.occurrences.index_folder import INDEX

    with INDEX.open(path) as folder:
        folder.verify(everything=verify)
        manifest = folder.found
    return {
        "kind": "index",
        **manifest["facts"],
        "options": manifest["options"],
        "model": manifest["model"].get("path", manifest["model"].get("relative")),
        "corpus": manifest["corpus"].get("path", manifest["corpus"].get("relative")),
        "files": {name: seal["size"] for name, seal in manifest["files"].items()},
        "verified": VERIFIED[verify],
    }


def _text_index(path: str, verify: bool) -> dict[str, Any]:
    from polyseme.search.texts.text_vectors import INDEX

    with INDEX.open(path) as folder:
        folder.verify(everything=verify)
        manifest = folder.found
    return {
        "kind": "text index",
        **manifest["facts"],
        "sources": manifest["sources"][:10],
        "segmentation": manifest["segmentation"],
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
        **model.size(),
        "options": dict(vars(model.options)),
        "corpus": model.about.corpus,
    }


def _changed(method: str | None, options: dict[str, Any]) -> dict[str, Any] | str:
    """The options of a model or index that differ from the defaults; --json prints all."""
    from polyseme.api import options_of
    from polyseme.old_folders import renamed
    from polyseme.options import changed_options, make_options

    if method is None:
        from polyseme.search.occurrences.build import IndexOptions

        changed = changed_options(make_options(IndexOptions, options))
    else:
        changed = changed_options(make_options(options_of(method), renamed(method, options)))
    return changed or "the defaults (--json lists them)"


def _shown(value: Any) -> Any:
    """Nested facts on one line; the words of a sample separated."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(v)}" for name, v in value.items() if v not in ([], {}, None, "")) or None
    if isinstance(value, list) and value and isinstance(value[0], dict) and "method" not in value[0]:
        return "\n".join(" | ".join(map(_short, row.values())) for row in value)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "\n".join(map(_shown, value))
    if isinstance(value, list) and value and isinstance(value[0], list) and isinstance((value[0] or [""])[-1], float):
        return ", ".join(f"{word} {_shown(score)}" for word, score in value)
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "\n".join(" | ".join(words) for words in value)
    if isinstance(value, list):
        return " ".join(map(str, value)) or None
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value


def _short(value: Any) -> str:
    """A cell on one line: the start of a text, words separated by spaces, answers by their text."""
    words = value if isinstance(value, list) else [value]
    text = " ".join(str(word["text"] if isinstance(word, dict) else word) for word in words).replace("\n", " ")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
