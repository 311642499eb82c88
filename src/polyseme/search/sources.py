"""The model and the corpus that an index was made of: where they are, and whether they are still the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from polyseme.errors import FormatError
from polyseme.interfaces import ContextEncoder
from polyseme.store.folder import MARKER, files_of, model_fingerprint
from polyseme.text.corpus import Corpus

_TRIES = 10


def place(path: str | Path, index: str | Path) -> dict[str, str]:
    """The way to a source from the index; from the root too, where it does not be next to the index."""
    absolute = os.path.abspath(path)
    relative = os.path.relpath(absolute, os.path.abspath(index))
    beside = Path(relative).parts[:2] != ("..", "..")
    return {"relative": relative} if beside else {"path": absolute, "relative": relative}


def find(record: dict[str, Any], index: Path, what: str) -> Path:
    """Where a source is now; a FormatError with the option that corrects it where it is not found."""
    relative = record.get("relative")
    absolute = record.get("path", relative)
    if not isinstance(relative, str) or not isinstance(absolute, str):
        raise FormatError(f"{index} does not say where its {what} is: give it with --{what}")
    for path in (index / relative, index / absolute):
        if os.path.exists(path):
            return path.resolve()  # of a link to an index, .. is next to where the link leads
    raise FormatError(f"the {what} of {index} is no longer at {absolute}: give it with --{what}")


def open_corpus(record: dict[str, Any], index: Path, given: Corpus | str | Path | None) -> Corpus:
    """The index's corpus, the same as when it was indexed."""
    corpus = given if isinstance(given, Corpus) else Corpus.open(given or find(record, index, "corpus"))
    if corpus.fingerprint != record.get("fingerprint"):
        raise FormatError(
            f"{corpus.path} is not the corpus that {index} was built from, or was rebuilt: index it again"
        )
    return corpus


def encoder_path(record: dict[str, Any], index: Path, given: str | Path | None) -> Path:
    """Where the index's model is, the same as when it encoded the corpus."""
    path = Path(given) if given else find(record, index, "model")
    if not path.exists():
        raise FormatError(f"{path} does not exist")
    if model_fingerprint(path) != record.get("fingerprint"):
        raise _other_model(path, index)
    return path


def open_encoder(record: dict[str, Any], index: Path, given: str | Path | None) -> ContextEncoder:
    """The index's model, the same as when it encoded the corpus."""
    path = Path(given) if given else find(record, index, "model")
    if (path / MARKER).is_file():
        encoder_path(record, index, given)  # quickly told
    encoder, fingerprint = load_encoder(path)
    if fingerprint != record.get("fingerprint"):
        raise _other_model(path, index)
    return encoder


def check_encoder(encoder: ContextEncoder, record: dict[str, Any], index: Path) -> None:
    """Refuse a model that was loaded when its folder held another one than the index was made with."""
    fingerprint = _known_fingerprint(encoder)
    if fingerprint and fingerprint != record.get("fingerprint"):
        raise _other_model("the loaded model", index)


def _other_model(what: str | Path, index: Path) -> FormatError:
    return FormatError(f"{what} is not the model that {index} was built with, or was retrained: index again")


def load_encoder(path: str | Path) -> tuple[ContextEncoder, str]:
    """A model that gives a vector to every occurrence, and the fingerprint of the files it was read from."""
    from polyseme.api import load  # and with it all kinds of models, which a question does not always need

    for _ in range(_TRIES):
        before = _signature(Path(path))
        model = load(path)
        if not isinstance(model, ContextEncoder):
            raise FormatError(
                f"{path} gives a word the same vector everywhere: an index needs a contextual model such as elmo"
            )
        fingerprint = _known_fingerprint(model) or model_fingerprint(path)
        if _known_fingerprint(model) or _signature(Path(path)) == before:
            return model, fingerprint
    raise FormatError(f"{path} keeps being replaced: try again later")


def _known_fingerprint(model: Any) -> str:
    return str(getattr(getattr(model, "about", None), "fingerprint", ""))


def _signature(path: Path) -> list[tuple[int, ...]]:
    """Whether published files were replaced while they were read."""
    found = [os.stat(file) for file in files_of(path) if file.exists()]
    return [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns) for s in found]
