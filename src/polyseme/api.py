"""``polyseme.train``, ``fit`` and ``load``: the only place that maps names to classes."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from polyseme import catalog
from polyseme.data.training_data import Given, fingerprint_of, read_data, reading_options
from polyseme.disk.files import first_bytes
from polyseme.disk.folders import OpenFolder, steady
from polyseme.disk.mapped import watching
from polyseme.display import shown
from polyseme.errors import FormatError, OptionError
from polyseme.extras import needed_for
from polyseme.interfaces import ContextEncoder, Progress, SentenceEncoder
from polyseme.old_folders import renamed
from polyseme.options import identity_of, make_options
from polyseme.store.folder import MARKER, MODEL, Parts, folder_fingerprint, model_fingerprint, read_curve, read_parts
from polyseme.store.model import About, Model
from polyseme.text.corpus import Corpus, is_corpus
from polyseme.text.segment import Segmentation
from polyseme.text.vocabulary import words_to_bytes
from polyseme.training.run import Output, Run, Trainable, output
from polyseme.words.distil import Distilled, DistilOptions
from polyseme.words.vectors import WordVectors

if TYPE_CHECKING:
    from polyseme.tasks.fit import FitPlan
    from polyseme.tasks.model import TaskModel

    class ContextModel(Model, ContextEncoder):
        """A context model as returned by ``train`` and ``load``, for type checkers."""

    class SentenceModel(Model, SentenceEncoder):
        """A sentence model as returned by ``train`` and ``load``, for type checkers."""


log = logging.getLogger(__name__)

HEAD = 1 << 18  # bytes that a file is recognised by
KINDS: dict[str, type] = {"words": WordVectors, "contexts": ContextEncoder, "sentences": SentenceEncoder}

# The methods of the catalog by the kind of their models, so that type checkers know what ``train`` gives.
WordMethod = Literal[
    "onehot", "counts", "svd", "nnlm", "word2vec", "glove", "fasttext", "wordrank", "polyglot", "cw2vec"
]
ContextMethod = Literal["elmo", "cove", "bert", "gpt", "mtdnn", "xlm", "ulmfit"]
SentenceMethod = Literal[
    "bow", "tfidf", "lsa", "dan", "textcnn", "dcnn", "rnn", "bilstm-max", "self-attention", "han", "infersent",
    "skip-thought", "quick-thought", "gensen", "use", "conversation", "softbow", "doc2vec", "rae",
]  # fmt: skip


def class_of(name: str) -> type[Model]:
    """The class of a method, or of the models of a published format."""
    with needed_for(name):
        method_class: type[Model] = _named(catalog.find(name).where)
        if method_class.computes_with:
            import_module(method_class.computes_with)
    return method_class


def options_of(name: str) -> type:
    """The options class of a method, without importing torch or numba."""
    options_class: type = _named(catalog.find(name).options)
    return options_class


# ---- loading


@overload
def load(path: str | Path) -> Any: ...
@overload
def load(path: str | Path, kind: Literal["words"]) -> WordVectors: ...
@overload
def load(path: str | Path, kind: Literal["contexts"]) -> ContextModel: ...
@overload
def load(path: str | Path, kind: Literal["sentences"]) -> SentenceModel: ...


def load(path: str | Path, kind: str | None = None) -> Any:
    """Load the model at ``path``, whatever its format.

    With ``kind`` (``words``, ``contexts``, ``sentences``) it must be a model of that kind, which type checkers then
    know.
    """
    opened = steady(path, lambda: _load(path))
    if kind is not None:
        if kind not in KINDS:
            raise OptionError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
        if not isinstance(opened, KINDS[kind]):
            known = next((name for name, noun in KINDS.items() if isinstance(opened, noun)), "a task")
            raise FormatError(f"{path} is a model of {known}, not of {kind}")
    return opened


def _load(path: str | Path) -> Any:
    name = recognise(path)
    if name == "polyseme":
        return open_folder(path)
    for form in catalog.FORMATS:
        if form.name == name:
            with needed_for(f"{path} ({name})"):
                opened = _named(form.opens)
                return opened(path, load) if form.needs_others else opened(path)
    raise FormatError(f"{path} is not a model that polyseme reads: {catalog.REFUSALS[name]}")


def recognise(path: str | Path) -> str:
    """What is at this path, by content: a name in ``catalog.FORMATS`` or ``catalog.REFUSALS``, or ``polyseme``."""
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


def open_folder(path: str | Path) -> Model:
    """The model in a polyseme folder, with the models it is composed of."""
    with MODEL.open(path) as folder:
        folder.verify()
        return model_in(folder)


def model_in(folder: OpenFolder) -> Model:
    """The model in an opened folder."""
    manifest, path = folder.found, folder.path
    try:
        cls = class_of(manifest["method"])
        options: Any = make_options(cls.Options, renamed(manifest["method"], manifest["options"]))
    except OptionError as error:
        raise FormatError(f"{path} was modified or written by another version of polyseme: {error}") from None
    with watching() as watch:
        parts = read_parts(folder)
        models = {name: model_in(inner) for name, inner in folder.inner.items()}
    segmentation, corpus = manifest.get("segmentation"), manifest.get("corpus")
    about = About(
        segmentation=Segmentation.from_json(segmentation, where=path / MARKER) if segmentation else None,
        corpus=corpus if isinstance(corpus, dict) else {},
        curve=read_curve(folder),
        recipe=str(manifest.get("recipe") or ""),
        fingerprint=folder_fingerprint(folder),
    )
    model = cls.from_parts(options, Parts(parts.tensors, parts.tables, parts.files, models), about)
    model.watch = watch
    return model


# ---- training


@overload
def train(method: WordMethod, data: Given | Mapping[str, Given], **how: Any) -> WordVectors: ...
@overload
def train(method: ContextMethod, data: Given | Mapping[str, Given], **how: Any) -> ContextModel: ...
@overload
def train(method: SentenceMethod, data: Given | Mapping[str, Given], **how: Any) -> SentenceModel: ...
@overload
def train(method: str, data: Given | Mapping[str, Given], **how: Any) -> Any: ...


def train(
    method: str,
    data: Given | Mapping[str, Given],
    *,
    out: str | Path | None = None,
    resume: bool = False,
    start: Model | str | Path | None = None,
    force: bool = False,
    progress: Progress = shown,
    **options: Any,
) -> Any:
    """Train a method of the catalog and return the model.

    ``data`` is what the method is trained on (see ``polyseme methods``): a Corpus, Parallel or Examples, the path of
    one, or the files to read it from; for a method with several sources, a mapping from their names. Options for
    reading and segmenting files (``segment``, ``columns``, ``encoding`` …: text/options.py) may be given together with
    those of the method. With ``out`` the model is saved there, and unfinished work next to it in ``<out>.checkpoint``;
    ``resume`` continues from it and requires the same options, except those that only change the speed. Results are
    bit-identical only with one thread throughout. ``start`` is a model (or its path) to train further. Another model,
    corpus or index at ``out`` is only replaced with ``force``; a folder that polyseme did not write is never replaced.
    """
    cls = class_of(method)
    if not issubclass(cls, Trainable):
        raise OptionError(f"{method} models are composed or loaded from files, not trained (polyseme methods)")
    row = catalog.find(method)
    known = {field.name for cls in reading_options(row.learns_from) for field in dataclasses.fields(cls)}
    reading = {name: options.pop(name) for name in list(options) if name in known}
    checked: Any = make_options(cls.Options, options)
    if start is not None and not cls.trains_further:
        raise OptionError(f"{method} models cannot be trained further: train on all the text at once, without start")
    started: Model | None = load(start) if isinstance(start, (str, Path)) else start
    run = Run(None, resume, started, progress, _named_models(checked))
    with output(out, method, run, force=force) as place:
        training_data = read_data(method, row.learns_from, data, reading, progress)
        identity = {
            "method": method,
            "options": {**identity_of(checked), **_fingerprints(checked, run.models)},
            "corpus": fingerprint_of(training_data),
            "model to train further": None if started is None else _words_of(started),
        }
        place.begin(identity, *([] if started is None else [started.about.fingerprint]))
        return place.saved(cls.train(training_data, checked, run))


def distil(
    model: Model | str | Path,
    data: Corpus | str | Path | Sequence[str | Path],
    *,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress = shown,
    **options: Any,
) -> Distilled:
    """Turn a context encoder into word vectors: the mean over each word's occurrences in a text.

    ``model`` is the encoder, preferably as a path, so that ``resume`` can check that it is the same. ``data`` is a
    corpus, its path, or raw text, segmented like the model's training text. ``options`` are those of ``DistilOptions``.
    """
    run = Run(None, resume, None, progress)
    with output(out, Distilled.method, run, force=force) as place:
        return _distilled(model, data, options, run, place)


def _distilled(
    model: Model | str | Path,
    data: Corpus | str | Path | Sequence[str | Path],
    options: dict[str, Any],
    run: Run,
    place: Output,
) -> Distilled:
    opened = load(model) if isinstance(model, (str, Path)) else model
    from polyseme.sentences.lift import lift  # whose models of sentences a question about words does not wait for

    encoder = lift(opened, "contexts")
    checked = make_options(DistilOptions, {**options, "encoder": opened.method})
    corpus = text_for(opened, data, run.progress)
    known = opened.about.fingerprint or (model_fingerprint(model) if isinstance(model, (str, Path)) else "")
    identity = {
        "method": Distilled.method,
        "options": identity_of(checked),
        "corpus": corpus.fingerprint,
        "model": known or None,
    }
    place.begin(identity, known)
    return place.saved(Distilled.of(encoder, corpus, checked, run))


def text_for(model: Model, data: Corpus | str | Path | Sequence[str | Path], progress: Progress = shown) -> Corpus:
    """The given corpus, the one at a path, or one built from text files, segmented like the model's training text."""
    if isinstance(data, Corpus):
        return data
    sources = [data] if isinstance(data, (str, Path)) else list(data)
    if len(sources) == 1 and is_corpus(sources[0]):
        return Corpus.open(sources[0])
    return Corpus.build(sources, segment=model.segmentation, progress=progress)


# ---- tasks


def fit(
    task: str,
    train: Given,
    dev: Given | None = None,
    encoder: Model | str | Path | Sequence[Model | str | Path] | None = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress = shown,
    **options: Any,
) -> Any:
    """Train a task (``catalog.TASKS``) on labelled examples and return its model.

    ``encoder`` is a model or its path, or several, whose vectors are concatenated; without one, embeddings are learned
    from the examples. Without ``dev`` a fraction of the examples (``held_out``) is used for early stopping. ``out``,
    ``resume`` and ``force`` are as in ``train``, and options for reading files may be given together with those of the
    task.
    """
    run = Run(None, resume, None, progress)
    with output(out, task, run, force=force) as place:
        plan = plan_fit(task, train, dev, encoder, progress=progress, **options)
        place.begin(plan.identity(), *plan.fingerprints)
        return place.saved(plan.fit(run))


def plan_fit(
    task: str,
    train: Given,
    dev: Given | None = None,
    encoder: Model | str | Path | Sequence[Model | str | Path] | None = None,
    *,
    progress: Progress = shown,
    **options: Any,
) -> FitPlan:
    """Everything ``fit`` needs: examples read, encoders opened, options checked. Folds and seeds reuse it."""
    row = catalog.find_task(task)
    with needed_for(f"fit {task}"):
        from polyseme.tasks.fit import FitPlan, with_head
    known = {field.name for cls in reading_options(row.learns_from) for field in dataclasses.fields(cls)}
    reading = {name: options.pop(name) for name in list(options) if name in known}
    checked: Any = make_options(_named(row.options), options)
    given_encoders = [] if encoder is None else list(encoder) if isinstance(encoder, (list, tuple)) else [encoder]
    encoders = [load(given) if isinstance(given, (str, Path)) else given for given in given_encoders]
    prints = [
        getattr(getattr(encoder, "about", None), "fingerprint", "")
        or (model_fingerprint(given) if isinstance(given, (str, Path)) else "")
        for encoder, given in zip(encoders, given_encoders, strict=True)
    ]
    examples: Any = read_data(task, row.learns_from, train, reading, progress)
    held: Any = None
    if dev is not None:
        held = read_data(task, row.learns_from, dev, reading, progress, like=examples.facts)
    checked = with_head(task, checked, encoders, examples)
    return FitPlan(task, _named(row.where), checked, examples, held, encoders, prints)


def load_task(path: str | Path) -> TaskModel:
    """The task model at ``path``: a polyseme folder, or a supervised fastText file."""
    model = load(path)
    with needed_for(f"{path}: predicting"):
        from polyseme.tasks.fit import as_task
    return as_task(model, path)


def _named_models(options: Any) -> dict[str, Any]:
    """Open the models and tokenizers named by options."""
    openers = {"model": load, "tokenizer": _tokenizer}
    named = [(field.name, openers.get(field.metadata.get("names") or "")) for field in dataclasses.fields(options)]
    return {name: opened(path) for name, opened in named if opened is not None and (path := getattr(options, name))}


def _tokenizer(path: str) -> Any:
    """A model whose tokenizer is wanted, or the tokenizer in a file of its own."""
    if not Path(path).is_file():
        return load(path)
    return _named("polyseme.contexts.transformer.files.huggingface:read_vocabulary")(path)


def _fingerprints(options: Any, models: dict[str, Any]) -> dict[str, str]:
    """Fingerprints of the models named by options."""
    return {name: model_fingerprint(getattr(options, name)) for name in models}


def _words_of(start: Model) -> str:
    """What a checkpoint depends on in the model it continues from: the words of its rows, and their counts."""
    digest, parts = hashlib.sha256(), start.parts()
    for name, words in sorted(parts.tables.items()):
        digest.update(words_to_bytes([name, *words]))
    if "counts" in parts.tensors:
        digest.update(parts.tensors["counts"].tobytes())
    return f"{start.method} {digest.hexdigest()[:16]}"


def _named(where: str) -> Any:
    module, name = where.split(":")
    return getattr(import_module(module), name)
