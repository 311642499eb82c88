"""``polyseme.train``: a method by name, on a corpus or raw text."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polyseme import catalog
from polyseme.atomic import check_replaceable
from polyseme.errors import OptionError
from polyseme.options import make_options, options_to_json
from polyseme.store.checkpoint import Checkpoint
from polyseme.store.folder import MARKER
from polyseme.store.load import load
from polyseme.store.model import Model, Run
from polyseme.text.corpus import READING, Corpus, is_corpus
from polyseme.text.vocabulary import words_to_bytes
from polyseme.types import Progress, silent

log = logging.getLogger(__name__)

HOW = {"threads", "memory"}  # options that say how the work is done, not what is learned: resuming may change them


def train(
    method: str,
    corpus: Corpus | str | Path | Sequence[str | Path],
    *,
    out: str | Path | None = None,
    resume: bool = False,
    start: Model | str | Path | None = None,
    progress: Progress = silent,
    **options: Any,
) -> Any:
    """Train a method of the catalog and return the model.

    ``corpus`` is a Corpus, the path of one, or raw text files; then the options of ``Corpus.build`` that say how text
    is read and cut (``segment``, ``encoding`` …) may stand among those of the method. With ``out`` the model is saved
    there, and unfinished work beside it in ``<out>.checkpoint``, which ``resume`` goes on from; the options must be the
    same then, but for ``threads`` and ``memory``. Identical bits take one thread throughout. ``start`` is a model (or
    its path) to train further.
    """
    cls: type[Model] = catalog.find(method).load_class()
    reading = {name: options.pop(name) for name in READING if name in options}
    checked: Any = make_options(cls.Options, options)
    if isinstance(start, (str, Path)):
        start = load(start)
    if out is not None:
        check_replaceable(out, marker=MARKER)
    if isinstance(corpus, (str, Path)) and is_corpus(corpus):
        corpus = Corpus.open(corpus)
    if isinstance(corpus, Corpus):
        if reading:
            raise OptionError(
                f"{corpus.path} is a corpus, whose text was read and cut when it was built: leave out "
                f"{' and '.join(reading)}, or build the corpus anew with it"
            )
        return _train(cls, corpus, checked, out, resume, start, progress)
    built = Corpus.build(corpus, progress=progress, **reading)  # lives as long as this object
    return _train(cls, built, checked, out, resume, start, progress)


def _train(
    cls: type[Model], corpus: Corpus, options: Any, out: str | Path | None, resume: bool, start: Any, progress: Progress
) -> Model:
    checkpoint = None
    if out is not None:
        identity = {
            "method": cls.method,
            "options": {name: value for name, value in options_to_json(options).items() if name not in HOW},
            "corpus": corpus.fingerprint,
            "model to train further": None if start is None else _words_of(start),
        }
        checkpoint = Checkpoint(Path(f"{out}.checkpoint"), identity)
        if checkpoint.path.exists() and not resume:
            log.warning(
                "starting over: %s of an earlier run will be replaced (resume goes on with it)", checkpoint.path
            )
        elif resume and not checkpoint.path.exists():
            log.warning("there is no %s to go on from: training starts at the beginning", checkpoint.path)
    run = Run(checkpoint, resume, start, progress)
    model = cls.train(corpus, options, run)
    if checkpoint is not None and out is not None and _writes_the_model():
        model.save(out)
        checkpoint.remove()
    return model


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
