"""What may be replaced: nothing but a corpus, model or index of ours, whole and unchanged, and only where it is asked.

A folder is ours if its description has the checksum that it keeps of itself, and every file in it is listed there and
as long as it says. Notes that a person put into the folder, or wrote into the card of a model, stop the replacement.
What we made of the same is replaced unasked: the same files, or the same recipe (method, options and data, as a
checksum). Other work of ours is replaced with ``force``.
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
from polyseme.disk.plain import open_plain, read_small
from polyseme.errors import FormatError, as_given

CARD = "README.md"
_CHOOSE = "choose another output path"


@dataclass(frozen=True)
class Standing:
    """A folder of ours that stands where another is to go."""

    kind: str  # corpus | model | index | text index | export
    found: dict[str, Any]

    def __str__(self) -> str:
        """What it is, and of what it was made."""
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
        """Whether the new one is of the same kind and made of the same."""
        recipe = new.get("recipe")
        return self.kind == kind and (
            (bool(recipe) and recipe == self.found.get("recipe")) or self.found["files"] == new.get("files")
        )


def recipe(identity: Any) -> str:
    """A checksum of what a result follows from."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()


def standing(path: Path) -> Standing | None:
    """What of ours is at this path; None if nothing does. What is not ours, or not whole, is a FormatError."""
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
    return Standing(MARKERS[marker := markers.pop()], _checked(path, marker, names))


def _checked(path: Path, marker: str, names: set[str]) -> dict[str, Any]:
    """The description of a folder in which nothing is missing or anybody's own."""
    try:
        found = parse(read_small(path / marker), path / marker)
        check_seal(found, path / marker)
        inner = inner_models(found, path / marker)
    except (FormatError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise FormatError(f"{path} was not written by polyseme, or was altered ({reason}): {_CHOOSE}") from None
    if "polyseme" not in found:
        raise FormatError(f"{path} is a folder with files that polyseme did not write: {_CHOOSE}")
    folders: dict[str, Any] = found.get("folders") or {}  # only where we keep an export's
    expected = {marker, *found["files"], *inner, *folders}
    if CARD in names and (path / CARD).is_file() and not _edited(path / CARD, found):
        expected.add(CARD)
    missing, more = expected - names, names - expected
    if missing:
        raise FormatError(f"{path} is incomplete ({_some(missing)} is missing): delete it or {_CHOOSE}")
    if more:
        what = f"{CARD} was edited" if more == {CARD} else f"{_some(more)} is not polyseme's"
        raise FormatError(f"{path} contains your own changes ({what}): move it away or {_CHOOSE}")
    for place, seals in [(path, found["files"]), *((path / name, seals) for name, seals in folders.items())]:
        if place != path and set(os.listdir(place)) != set(seals):
            raise FormatError(f"{place} contains your own changes, or is incomplete: move it away or {_CHOOSE}")
        for name, seal in seals.items():
            if not (place / name).is_file() or (place / name).stat().st_size != seal["size"]:
                raise FormatError(f"{place} was altered ({name} was changed): delete it or {_CHOOSE}")
    for name in inner:
        if standing(path / name) is None:
            raise FormatError(f"{path} is incomplete ({name} is empty): delete it or {_CHOOSE}")
    return found


def check_replaceable(
    path: str | Path, kind: str, *, recipe: str | None = None, force: bool = False, **known: Any
) -> None:
    """Refuse to write over anything but an earlier result of the same; call it before long work.

    ``recipe`` and ``known`` entries of the description say what the new result will be, as far as that is clear yet.
    """
    path = followed(path)
    check_place(path)
    if os.path.isdir(path) and path.resolve() == Path.cwd():
        raise FormatError(f"{path} is the current folder, which cannot be replaced: {_CHOOSE}")
    there = standing(path)
    if there is None or force:
        return
    differs = there.kind != kind or any(there.found.get(name) != _as_json(value) for name, value in known.items())
    if differs or (recipe is not None and there.found.get("recipe") != recipe):
        raise _in_the_way(path, there)


def check_new(path: Path, new: Path | None, marker: str, *, force: bool, **known: Any) -> None:
    """The same for a result that is finished, where it is in the folder ``new``."""
    kind = MARKERS[marker]
    if new is None:
        check_replaceable(path, kind, force=force, **known)
        return
    there = standing(path)
    if there is not None and not force and not there.same(kind, parse(read_small(new / marker), new / marker)):
        raise _in_the_way(path, there)


def is_ours(folder: str | Path) -> bool:
    """Is this a corpus, model or index? A stranger's index.json does not speak of polyseme at its beginning."""
    for file in (Path(folder) / marker for marker in MARKERS):
        if file.is_file():
            with open_plain(file) as handle:
                if b'"polyseme"' in handle.read(200):
                    return True
    return False


def _in_the_way(path: Path, there: Standing) -> FormatError:
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
