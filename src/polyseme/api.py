"""``polyseme.train`` and ``polyseme.load``: the one place where names become classes."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from polyseme import catalog
from polyseme.disk.atomic import check_replaceable
from polyseme.disk.packed import first_bytes
from polyseme.errors import FormatError, OptionError
from polyseme.nouns import Progress, silent
from polyseme.options import identity_of, make_options, renamed
from polyseme.sentences.lift import lift
from polyseme.store.fingerprint import model_fingerprint
from polyseme.store.folder import MARKER, MODEL, Parts, model_names, read_curve, read_parts
from polyseme.store.model import About, Model
from polyseme.text.corpus import Corpus, is_corpus
from polyseme.text.data import Data, Given, fingerprint_of, read_data, reading_options
from polyseme.text.segment import Segmentation
from polyseme.text.vocabulary import words_to_bytes
from polyseme.training.checkpoint import Checkpoint
from polyseme.training.run import Run, Trainable
from polyseme.words.distil import Distilled, DistilOptions

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Model)

HEAD = 1 << 18  # bytes that a file is told by
DEEPEST = 8  # models within models


def class_of(name: str) -> type[Model]:
    """The class of a method or of a published format's models."""
    found: type[Model] = _named(catalog.find(name).where)
    return found


def options_of(name: str) -> type:
    """The class of a method's options, without importing what the method computes with."""
    found: type = _named(catalog.find(name).options)
    return found


# ---- loading


def load(path: str | Path) -> Any:
    """The model at ``path``, whatever its format."""
    name = recognise(path)
    if name == "polyseme":
        return open_folder(path)
    for form in catalog.FORMATS:
        if form.name == name:
            opened = _named(form.opens)
            return opened(path, load) if form.needs_others else opened(path)
    raise FormatError(f"{path} is not a model that polyseme reads: {catalog.REFUSALS[name]}")


def recognise(path: str | Path) -> str:
    """What is at this path, by content: a name of ``catalog.FORMATS`` or ``catalog.REFUSALS``, or ``polyseme``."""
    path = Path(path)
    if not path.exists():
        raise FormatError(f"{path} does not exist")
    if path.is_dir():
        for marker, name in catalog.FOLDERS:
            if (path / marker).exists():
                return name
    head = b"" if path.is_dir() else first_bytes(path, HEAD)
    if not head and not path.is_dir():
        return "empty"
    stranger = next((name for pattern, name in catalog.STRANGERS if pattern.match(head)), None)
    for form in catalog.FORMATS:
        tells: Callable[[Path, bytes], bool] = _named(form.tells)
        if (stranger is None or stranger in form.inside) and tells(path, head):
            return form.name
    if path.is_dir():
        return "folder"
    return stranger or ("binary" if b"\x00" in head else "text")


def open_folder(path: str | Path, *, depth: int = 0) -> Model:
    """The model in a folder of ours, with the models it is composed of."""
    path = Path(path)
    manifest = MODEL.read(path)
    try:
        cls = class_of(manifest["method"])
        options: Any = make_options(cls.Options, renamed(manifest["method"], manifest["options"]))
    except OptionError as error:
        raise FormatError(f"{path} was altered or made by another polyseme: {error}") from None
    if depth > DEEPEST:
        raise FormatError(f"{path} was altered: models within models, deeper than {DEEPEST}")
    parts = read_parts(path, manifest)
    models = {name: open_folder(path / name, depth=depth + 1) for name in model_names(path, manifest)}
    segmentation = manifest.get("segmentation")
    about = About(
        segmentation=Segmentation.from_json(segmentation, where=path / MARKER) if segmentation else None,
        corpus=manifest.get("corpus") or {},
        curve=read_curve(path),
    )
    return cls.from_parts(options, Parts(parts.tensors, parts.tables, parts.files, models), about)


# ---- training


def train(
    method: str,
    data: Given | Mapping[str, Given],
    *,
    out: str | Path | None = None,
    resume: bool = False,
    start: Model | str | Path | None = None,
    progress: Progress = silent,
    **options: Any,
) -> Any:
    """Train a method of the catalog and return the model.

    ``data`` is what the method learns from (``polyseme methods`` lists it): a Corpus, Parallel or Examples, the path of
    one, or files it is read from; for a method that learns from several sources, a mapping from their names. The
    options that say how files are read and cut (``segment``, ``columns``, ``encoding`` …: text/options.py) may stand
    among those of the method. With ``out`` the model is saved there, and unfinished work beside it in
    ``<out>.checkpoint``, which ``resume`` goes on from; the options that change the result must be the same then.
    Identical bits take one thread throughout. ``start`` is a model (or its path) to train further.
    """
    cls = class_of(method)
    if not issubclass(cls, Trainable):
        raise OptionError(f"{method} models are composed or read from files, not trained (polyseme methods)")
    row = catalog.find(method)
    known = {field.name for cls in reading_options(row.learns_from) for field in dataclasses.fields(cls)}
    reading = {name: options.pop(name) for name in list(options) if name in known}
    checked: Any = make_options(cls.Options, options)
    if start is not None and not cls.trains_further:
        raise OptionError(f"{method} models are not trained further: train on all the text at once, without start")
    started: Model | None = load(start) if isinstance(start, (str, Path)) else start
    if out is not None:
        check_replaceable(out, marker=MARKER)
    found = read_data(method, row.learns_from, data, reading, progress)
    return _train(cls, found, checked, out, Run(None, resume, started, progress, _named_models(checked)))


def _train(
    cls: type[Trainable], data: Data | Mapping[str, Data], options: Any, out: str | Path | None, run: Run
) -> Model:
    if out is not None:
        identity = {
            "method": cls.method,
            "options": {**identity_of(options), **_fingerprints(options, run.models)},
            "corpus": fingerprint_of(data),
            "model to train further": None if run.start is None else _words_of(run.start),
        }
        run.checkpoint = _checkpoint(out, identity, run.resume)
    return _saved(cls.train(data, options, run), out, run)


def _checkpoint(out: str | Path, identity: dict[str, Any], resume: bool) -> Checkpoint:
    """Where unfinished work is kept; says what becomes of what is there."""
    kept = Checkpoint(Path(f"{out}.checkpoint"), identity)
    if kept.path.exists() and not resume:
        log.warning("starting over: %s of an earlier run will be replaced (resume goes on with it)", kept.path)
    elif resume and not kept.path.exists():
        log.warning("there is no %s to go on from: training starts at the beginning", kept.path)
    return kept


def _saved(model: M, out: str | Path | None, run: Run) -> M:
    """The model, saved where that was asked for; then nothing is left to resume."""
    if run.checkpoint is not None and out is not None and _writes_the_model():
        model.save(out)
        run.checkpoint.remove()
    return model


def distil(
    model: Model | str | Path,
    data: Corpus | str | Path | Sequence[str | Path],
    *,
    out: str | Path | None = None,
    resume: bool = False,
    progress: Progress = silent,
    **options: Any,
) -> Distilled:
    """Word vectors of a context encoder: the mean over each word's occurrences in a text.

    ``model`` is the encoder, best as a path: then ``resume`` can tell that it is still the same. ``data`` is a corpus,
    its path, or raw text, which is cut as the model's own text was. ``options`` are those of ``DistilOptions``.
    """
    if out is not None:
        check_replaceable(out, marker=MARKER)
    opened = load(model) if isinstance(model, (str, Path)) else model
    encoder = lift(opened, "contexts")
    checked = make_options(DistilOptions, {**options, "encoder": opened.method})
    if isinstance(data, (str, Path)) and is_corpus(data):
        data = Corpus.open(data)
    corpus = data if isinstance(data, Corpus) else Corpus.build(data, segment=opened.segmentation, progress=progress)
    run = Run(None, resume, None, progress)
    if out is not None:
        identity = {
            "method": Distilled.method,
            "options": identity_of(checked),
            "corpus": corpus.fingerprint,
            "model": model_fingerprint(model) if isinstance(model, (str, Path)) else None,
        }
        run.checkpoint = _checkpoint(out, identity, resume)
    return _saved(Distilled.of(encoder, corpus, checked, run), out, run)


def _named_models(options: Any) -> dict[str, Model]:
    """The models that options name, opened."""
    fields = [field for field in dataclasses.fields(options) if field.metadata.get("names") == "model"]
    return {field.name: load(path) for field in fields if (path := getattr(options, field.name))}


def _fingerprints(options: Any, models: dict[str, Model]) -> dict[str, str]:
    """The content of the models that options name."""
    return {name: model_fingerprint(getattr(options, name)) for name in models}


def _words_of(start: Model) -> str:
    """What a checkpoint depends on in the model it went on from: which rows are of which words, and their counts."""
    digest, parts = hashlib.sha256(), start.parts()
    for name, words in sorted(parts.tables.items()):
        digest.update(words_to_bytes([name, *words]))
    if "counts" in parts.tensors:
        digest.update(parts.tensors["counts"].tobytes())
    return f"{start.method} {digest.hexdigest()[:16]}"


def _writes_the_model() -> bool:
    """Of several processes started by torchrun, all hold the same model and the first one writes it."""
    return os.environ.get("RANK", "0") == "0"


def _named(where: str) -> Any:
    module, name = where.split(":")
    return getattr(import_module(module), name)
