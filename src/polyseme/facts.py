"""What is at a path: text, labelled or parallel data, a corpus, a model or an index, as facts. 这里是什么

>>> polyseme.describe("novel.txt").facts["tokens"]
>>> polyseme.describe("my.elmo", verify=True)            # hashes every byte of its files
>>> polyseme.describe("train.tsv").to_json()             # what ``polyseme info --json`` prints

Nothing is computed with a model, and torch is imported only for a published model that cannot be opened without it.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyseme import catalog
from polyseme.catalog.options_zh import in_chinese
from polyseme.disk.folders import Manifest, OpenFolder
from polyseme.display import facts_table
from polyseme.errors import OptionError, close_matches
from polyseme.old_folders import renamed
from polyseme.options import changed_options, make_options, options_to_json
from polyseme.text.options import CUTTING, READING

_MOST_FREQUENT = 10  # words that are shown of a vocabulary
_SAMPLE = 3  # rows of a table, sentences of a corpus
_SOURCES = 10  # that are shown of a text index
_VERIFIED = {True: "every byte", False: "sizes and checksums of small files"}
_NO_TEXT = ("pickle", "tar", "npy", "hdf5", "safetensors")  # and no model: the refusal to load it says why


@dataclass(frozen=True, repr=False)
class Description:
    """Facts about what is at a path, in the order in which a person reads them; ``kind`` says what it is."""

    path: str
    facts: dict[str, Any]

    @property
    def kind(self) -> str:
        """text, corpus, model, index, text index, parallel, or a kind of labelled data: texts, pairs, tags …"""
        return str(self.facts["kind"])

    def to_json(self) -> dict[str, Any]:
        """The facts, for programs."""
        return self.facts

    def changed_options(self) -> dict[str, Any]:
        """The options of a model or an index that differ from their defaults."""
        method, options = self.facts.get("method"), self.facts.get("options", {})
        if method is None:
            from polyseme.search.occurrences.build import IndexOptions

            return changed_options(make_options(IndexOptions, options))
        from polyseme.api import options_of

        return changed_options(make_options(options_of(method), renamed(method, options)))

    def __repr__(self) -> str:
        return f"Description({self.path}: {self.kind})"

    def _repr_html_(self) -> str:
        return facts_table(self.path, self.facts)


def describe(
    path: str | Path,
    *,
    min_count: int = 5,
    columns: Mapping[str, Any] | None = None,
    verify: bool = False,
    **reading: Any,
) -> Description:
    """What is at ``path``: a file or folder of text, a table, a corpus, a model or an index; ``-`` is text on stdin.

    ``min_count`` is for the size of a vocabulary, ``columns`` says which columns of a table are which, and ``reading``
    are options for reading and segmenting text (``segment``, ``encoding``, ``format`` …), as for ``Corpus.build``.
    ``verify`` checks every byte of the files of a corpus, a model or an index.
    """
    for name in reading.keys() - set(READING):
        raise OptionError(f"unknown option {name!r}{close_matches(name, READING)}")
    path = str(path)
    form = _recognised(path)
    if form == "corpus":
        facts = _corpus_facts(path, min_count, verify)
    elif form == "polyseme":
        facts = _folder_facts(path, verify)
    elif form == "index":
        facts = _index_facts(path, verify)
    elif form == "texts":
        facts = _text_index_facts(path, verify)
    elif form == "text":
        facts = _table_facts(path, reading, columns) or _text_facts(path, min_count, reading)
    else:
        facts = _published_facts(path, form)
    return Description(path, facts)


def explained_options(model: Any) -> list[dict[str, Any]]:
    """The options of an opened model: name, value, and what it means in English and Chinese; none for other things."""
    options, method = getattr(model, "options", None), getattr(model, "method", "")
    if options is None:
        return []
    values = options_to_json(options)
    helps = {field.name: field.metadata.get("help", "") for field in dataclasses.fields(options)}
    return [
        {"name": name, "value": values[name], "help": meaning, "chinese": in_chinese(method, name)}
        for name, meaning in helps.items()
    ]


def _recognised(path: str) -> str:
    """corpus, index, texts, polyseme (a model folder), text, or the name of a published format."""
    from polyseme.api import recognise

    if path == "-" or not (os.path.isfile(path) or os.path.isdir(path)):
        return "text"  # a pipe, or nothing, which the reader says
    form = recognise(path)
    return form if form not in catalog.REFUSALS or form in ("corpus", "index", "texts", *_NO_TEXT) else "text"


def _text_facts(path: str, min_count: int, reading: Mapping[str, Any]) -> dict[str, Any]:
    from polyseme.text.survey import survey

    return {"kind": "text", **survey(path, min_count=min_count, **reading)}


def _table_facts(path: str, reading: Mapping[str, Any], columns: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Facts about labelled or parallel data; None if the path is text, or declared to be."""
    from polyseme.data.examples import Examples
    from polyseme.data.parallel import Parallel
    from polyseme.data.training_data import recognise_data

    if "format" in reading or not (os.path.isfile(path) or os.path.isdir(path)):  # a pipe can be read only once
        return None
    layout = recognise_data(path)
    if layout is None and not columns:
        return None
    how = {name: reading[name] for name in (*CUTTING, "encoding") if name in reading}
    if "source" in columns if columns else layout and layout.kind == "parallel":
        pairs = Parallel.read(path, columns=columns, errors="skip", **how)
        aligned = [{"source": source, "target": target} for source, target in itertools.islice(pairs, _SAMPLE)]
        cuts = [segmentation.to_json() for segmentation in pairs.segmentations]
        return {**pairs.facts, "segmentations": cuts, "sample": aligned, "fingerprint": pairs.fingerprint}
    unlabelled = bool(columns) and "label" not in (columns or {})
    kind = layout.kind if layout and not columns else None
    examples = Examples.read(path, kind=kind, columns=columns, errors="skip", unlabelled=unlabelled, **how)
    sample = [_row_fields(row) for row in itertools.islice(examples, _SAMPLE)]
    cut = examples.segmentation.to_json()
    return {**examples.facts, "segmentation": cut, "sample": sample, "fingerprint": examples.fingerprint}


def _row_fields(row: Any) -> dict[str, Any]:
    """A row as a mapping from field names, including its answers."""
    fields: dict[str, Any] = row._asdict()
    if "answers" in fields:
        fields["answers"] = [answer._asdict() for answer in fields["answers"]]
    return fields


def _corpus_facts(path: str, min_count: int, verify: bool) -> dict[str, Any]:
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
        "most_frequent": corpus.vocabulary.words[:_MOST_FREQUENT],
        "tags": corpus.tag_names,
        "segmentation": corpus.segmentation.to_json(),
        "sample": [corpus.sentence(number) for number in range(min(_SAMPLE, len(corpus)))],
        "fingerprint": corpus.fingerprint,
        "verified": _VERIFIED[verify],
    }


def _folder_facts(path: str, verify: bool) -> dict[str, Any]:
    """Facts about a model in a folder of ours."""
    from polyseme.api import model_in
    from polyseme.store.folder import MODEL, read_curve

    with MODEL.open(path) as folder:
        folder.verify(everything=verify)
        manifest = folder.found
        size = model_in(folder).size() if manifest.get("kind") == "words" else {}  # memory-mapped: no work
        curve = read_curve(folder)
        made_of = {name: inner.found["method"] for name, inner in folder.inner.items()}
        files = _file_sizes(folder)
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
        "files": files,
        "verified": _VERIFIED[verify],
    }


def _published_facts(path: str, form: str) -> dict[str, Any]:
    """Facts about a model in a published format, which has to be opened."""
    from polyseme.api import load

    model = load(path)
    return {
        "kind": "model",
        "format": form,
        "method": model.method,
        **model.size(),
        "options": dict(vars(model.options)),
        "corpus": model.about.corpus,
    }


def _index_facts(path: str, verify: bool) -> dict[str, Any]:
    from polyseme.search.occurrences.index_folder import INDEX

    manifest, files = _read_manifest(INDEX, path, verify)
    return {
        "kind": "index",
        **manifest["facts"],
        "options": manifest["options"],
        "model": manifest["model"].get("path", manifest["model"].get("relative")),
        "corpus": manifest["corpus"].get("path", manifest["corpus"].get("relative")),
        "files": files,
        "verified": _VERIFIED[verify],
    }


def _text_index_facts(path: str, verify: bool) -> dict[str, Any]:
    from polyseme.search.texts.text_vectors import INDEX

    manifest, files = _read_manifest(INDEX, path, verify)
    return {
        "kind": "text index",
        **manifest["facts"],
        "sources": manifest["sources"][:_SOURCES],
        "segmentation": manifest["segmentation"],
        "files": files,
        "verified": _VERIFIED[verify],
    }


def _read_manifest(manifest: Manifest, path: str, verify: bool) -> tuple[dict[str, Any], dict[str, int]]:
    """The description in a folder, and the sizes of its files, which are checked."""
    with manifest.open(path) as folder:
        folder.verify(everything=verify)
        return folder.found, _file_sizes(folder)


def _file_sizes(folder: OpenFolder) -> dict[str, int]:
    return {name: seal["size"] for name, seal in folder.found["files"].items()}
