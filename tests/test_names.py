"""A file and a class are known by their names alone, and a class is a noun."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "polyseme"
MODULES = sorted(file for file in SOURCE.rglob("*.py") if file.name != "__init__.py")
# Rooms whose files are called after the command, route, format or kernel that they serve, and packages of one method.
NAMED_AFTER_ANOTHER = {
    "cli",
    "routes",
    "serve",
    "files",
    "kernels",
    "elmo",
    "cove",
    "ulmfit",
    "transformer",
    "pretrain",
}
EVERYWHERE = {"options.py", "model.py"}  # a room's options; what a room calls a model
# Irregular ones; all others end in -ed.
PARTICIPLES = {
    "Chosen",
    "Drawn",
    "Found",
    "Frozen",
    "Given",
    "Hidden",
    "Known",
    "Left",
    "Read",
    "Seen",
    "Told",
    "Written",
}
NOUNS = {
    "Distilled": "a public name: the method's",
    "Pooled": "a public name: the method's",
    "Tagged": "a public name: a tagged sentence",
    "FileChanged": "errors are called after what happened",
    "MapFailed": "errors are called after what happened",
}


def classes_in(file: Path) -> list[str]:
    return [node.name for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]


def test_no_public_class_name_occurs_twice():
    places: dict[str, list[str]] = defaultdict(list)
    for file in MODULES:
        for name in classes_in(file):
            places[name].append(str(file.relative_to(SOURCE)))
    assert len(places) > 300
    assert {name: files for name, files in places.items() if len(files) > 1 and not name.startswith("_")} == {}


def test_no_file_name_occurs_in_two_rooms():
    places: dict[str, list[str]] = defaultdict(list)
    for file in MODULES:
        room = file.parent.name
        if room not in NAMED_AFTER_ANOTHER and file.name not in EVERYWHERE:
            places[file.name].append(str(file.relative_to(SOURCE)))
    assert len(places) > 100
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_no_class_is_a_participle():
    names = {name for file in MODULES for name in classes_in(file)}
    participles = {name for name in names if re.search(r"[a-z]ed$", name) or name.lstrip("_") in PARTICIPLES}
    assert participles - set(NOUNS) == set()
    assert set(NOUNS) <= names  # none is excused that is gone


@pytest.mark.parametrize("folder", ["src/polyseme", "benchmarks", "scripts"])
def test_a_file_that_a_docstring_or_a_comment_names_exists(folder):
    known = {file.name for file in SOURCE.rglob("*.py")} | {"extract_features.py"}  # of BERT's authors
    for file in sorted((ROOT / folder).rglob("*.py")):
        for name in re.findall(r"(?<![\w/.-])((?:\w+/)*\w+\.py)\b", file.read_text(encoding="utf-8")):
            near = (ROOT, SOURCE, file.parent, ROOT / "benchmarks", ROOT / "scripts")
            assert ("/" not in name and name in known) or any((place / name).exists() for place in near), (file, name)
