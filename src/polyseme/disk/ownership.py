"""Decide what may be replaced: only a corpus, model or index of ours that is complete and unchanged.

A folder is ours if its description matches its own checksum and lists exactly the files in the folder, with their
sizes. If a person added files to the folder or edited the model card, it is not replaced. A result made from the same
input is replaced without asking: the same files, or the same recipe (a checksum of method, options and data). Any other
result of ours is replaced only with ``force``.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyseme.disk.atomic import check_place, followed
from polyseme.disk.description import MARKERS, check_seal, inner_models, parse
from polyseme.disk.files import open_plain, read_small
from polyseme.errors import FormatError, as_given

CARD = "README.md"
_CHOOSE = "choose another output path"


@dataclass(frozen=True)
class ExistingResult:
    """A folder of ours that already exists at an output path."""

    kind: str  # corpus | model | index | text index | export
    found: dict[str, Any]

    def __str__(self) -> str:
        """What the folder is and what it was made from, for messages."""
        facts = self.found.get("facts")
        if self.kind == "model":
            text = self.found.get("corpus")
            tokens = text.get("tokens") if isinstance(text, dict) else None
            made = f" trained on {tokens:,} tokens" if isinstance(tokens, int) else ""
            return f"a model of {self.found.get('method')}{made}"
        if self.kind == "corpus":
            sources = self.found.get("sources")
            names = [Path(str(name)).name for name in sources] if isinstance(sources, list) else []
            more = " …" if len(names) > 2 else ""
            return f"a corpus of {' and '.join(names[:2])}{more}"
        if self.kind == "export":
            return f"a model that was written for {self.found.get('form')}"
        if self.kind == "text index":
            number = facts.get("n_texts") if isinstance(facts, dict) else None
            return f"a text index of {number} texts"
        number = facts.get("n_occurrences") if isinstance(facts, dict) else None
        sources = [self.found.get(name) for name in ("model", "corpus")]
        names = [_last_name(source) for source in sources if isinstance(source, dict)]
        return f"an index of {number} occurrences, made of {' and '.join(filter(None, names))}"

    def same(self, kind: str, new: dict[str, Any]) -> bool:
        """Whether a new result is of the same kind and has the same recipe or files."""
        recipe = new.get("recipe")
        return self.kind == kind and (
            (bool(recipe) and recipe == self.found.get("recipe")) or self.found["files"] == new.get("files")
        )


def recipe(identity: Any) -> str:
    """A checksum of everything that determines a result."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()


def standing(path: Path) -> ExistingResult | None:
    """The result of ours at this path; None if the path is free or an empty folder.

    Raises FormatError if what is there is not ours, or is incomplete or changed.
    """
    if not os.path.lexists(path):
        return None
    if not os.path.isdir(path):
        raise FormatError(f"{path} is a file, and the result is a folder: {_CHOOSE}")
    names = set(os.listdir(path))
    if not names:
        return None
    markers = names & set(MARKERS)
    if len(markers) != 1:
        raise FormatError(f"{path} is a folder with files that polyseme did not write: {_CHOOSE}")
    return ExistingResult(MARKERS[marker := markers.pop()], _checked(path, marker, names))


def _checked(path: Path, marker: str, names: set[str]) -> dict[str, Any]:
    """The description of a folder, after checking that it has all of its files unchanged and no others."""
    try:
        manifest = parse(read_small(path / marker), path / marker)
        check_seal(manifest, path / marker)
        inner = inner_models(manifest, path / marker)
    except (FormatError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise FormatError(f"{path} was not written by polyseme, or was altered ({reason}): {_CHOOSE}") from None
    if "polyseme" not in manifest:
        raise FormatError(f"{path} is a folder with files that polyseme did not write: {_CHOOSE}")
    folders: dict[str, Any] = manifest.get("folders") or {}  # only exports have them
    expected = {marker, *manifest["files"], *inner, *folders}
    if CARD in names and (path / CARD).is_file() and not _edited(path / CARD, manifest):
        expected.add(CARD)
    missing, more = expected - names, names - expected
    if missing:
        raise FormatError(f"{path} is incomplete ({_some(missing)} is missing): delete it or {_CHOOSE}")
    if more:
        what = f"{CARD} was edited" if more == {CARD} else f"{_some(more)} is not polyseme's"
        raise FormatError(f"{path} contains your own changes ({what}): move it away or {_CHOOSE}")
    for place, seals in [(path, manifest["files"]), *((path / name, seals) for name, seals in folders.items())]:
        if place != path and set(os.listdir(place)) != set(seals):
            raise FormatError(f"{place} contains your own changes, or is incomplete: move it away or {_CHOOSE}")
        for name, seal in seals.items():
            if not (place / name).is_file() or (place / name).stat().st_size != seal["size"]:
                raise FormatError(f"{place} was altered ({name} was changed): delete it or {_CHOOSE}")
    for name in inner:
        if standing(path / name) is None:
            raise FormatError(f"{path} is incomplete ({name} is empty): delete it or {_CHOOSE}")
    return manifest


def check_replaceable(
    path: str | Path, kind: str, *, recipe: str | None = None, force: bool = False, **known: Any
) -> None:
    """Refuse to overwrite anything but an earlier version of the same result; call it before long work.

    ``recipe`` and ``known``, entries of the description, say what the new result will be, as far as it is known yet.
    """
    path = followed(path)
    check_place(path)
    if os.path.isdir(path) and path.resolve() == Path.cwd():
        raise FormatError(f"{path} is the current folder, which cannot be replaced: {_CHOOSE}")
    existing = standing(path)
    if existing is None or force:
        return
    differs = existing.kind != kind or any(existing.found.get(name) != _as_json(value) for name, value in known.items())
    if differs or (recipe is not None and existing.found.get("recipe") != recipe):
        raise _in_the_way(path, existing)


def check_new(path: Path, new: Path | None, marker: str, *, force: bool, **known: Any) -> None:
    """Like ``check_replaceable``; if the result is finished, in the folder ``new``, its files are compared too."""
    kind = MARKERS[marker]
    if new is None:
        check_replaceable(path, kind, force=force, **known)
        return
    existing = standing(path)
    if existing is not None and not force and not existing.same(kind, parse(read_small(new / marker), new / marker)):
        raise _in_the_way(path, existing)


def is_ours(folder: str | Path) -> bool:
    """Whether this is a folder of ours; another program's index.json does not mention polyseme at its beginning."""
    for file in (Path(folder) / marker for marker in MARKERS):
        if file.is_file():
            with open_plain(file) as handle:
                if b'"polyseme"' in handle.read(200):
                    return True
    return False


def _in_the_way(path: Path, there: ExistingResult) -> FormatError:
    return FormatError(f"{path} holds {there}: replace it with {as_given('force')}, or {_CHOOSE}")


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _edited(card: Path, found: dict[str, Any]) -> bool:
    kept = found.get("card")
    return kept is not None and hashlib.sha256(read_small(card)).hexdigest() != kept


def _some(names: set[str]) -> str:
    first = sorted(names)[0][:80]
    return f"{first} and {len(names) - 1} more" if len(names) > 1 else first


def _last_name(source: dict[str, Any]) -> str:
    return Path(str(source.get("relative") or source.get("path") or "")).name
