"""Folders that an older version wrote are opened, answer as they did then, and are saved in the same form again.

``write.py`` made them: one folder of every method, task and head, of corpora and of indexes, with their answers.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.golden.questions import (
    HERE,
    ROOMS,
    WEIGHTS,
    answers_of,
    differences,
    layout_of,
    read_answers,
    unpack,
)

import polyseme
from polyseme.search import TextIndex, build_index

NAMES = (HERE / "folders.txt").read_text(encoding="utf-8").split()
MODELS = [name for name in NAMES if name.split("/")[0] in ("words", "contexts", "sentences", "tasks")]


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All golden folders, unpacked."""
    folder = tmp_path_factory.mktemp("golden")
    for room in ROOMS:
        unpack(HERE / f"{room}.tar.xz", folder / room)
    return folder


@pytest.fixture(scope="session")
def opened(golden: Path) -> Callable[[str], Any]:
    """The model in a golden folder, opened once."""
    models: dict[str, Any] = {}

    def model(name: str) -> Any:
        if name not in models:
            models[name] = polyseme.load(golden / name / "folder")
        return models[name]

    return model


def test_every_folder_is_asked(golden: Path) -> None:
    assert sorted(NAMES) == sorted(f"{room}/{place.name}" for room in ROOMS for place in (golden / room).iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_it_opens_and_answers_as_it_did(name: str, golden: Path, opened: Callable[[str], Any]) -> None:
    before = read_answers(golden / name)
    now = answers_of(name.split("/")[0], golden / name, opened(name) if name in MODELS else None)
    assert not list(differences(before["answers"], now))
    assert not list(differences(before["layout"], layout_of(golden / name / "folder")))


@pytest.mark.parametrize("name", MODELS)
def test_it_is_saved_in_the_form_it_had(name: str, golden: Path, opened: Callable[[str], Any], tmp_path: Path) -> None:
    opened(name).save(tmp_path / "again")
    layout = read_answers(golden / name)["layout"]
    assert not list(differences(layout, layout_of(tmp_path / "again")))
    for file in layout["files"]:
        if Path(file).name == WEIGHTS:
            before, after = load_file(golden / name / "folder" / file), load_file(tmp_path / "again" / file)
            for tensor, numbers in before.items():
                np.testing.assert_array_equal(after[tensor], numbers, f"{file}: {tensor}")
        elif file.endswith(".txt"):
            assert (tmp_path / "again" / file).read_bytes() == (golden / name / "folder" / file).read_bytes(), file


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("corpora/", "texts/"))])
def test_its_text_is_put_in_the_same_form(name: str, golden: Path, tmp_path: Path) -> None:
    place = golden / name
    how = json.loads((place / "how.json").read_text(encoding="utf-8"))
    again = tmp_path / "folder"
    shutil.copyfile(place / "source.txt", tmp_path / "source.txt")
    if name.startswith("corpora/"):
        polyseme.Corpus.build(tmp_path / "source.txt", again, workers=1, **how)
    else:
        TextIndex.build(polyseme.load(place / "model"), tmp_path / "source.txt", again, **how)
    assert not list(differences(read_answers(place)["layout"], layout_of(again)))


@pytest.mark.parametrize("name", ["occurrences/static", "occurrences/cells"])
def test_an_index_is_made_in_the_form_it_had(name: str, golden: Path) -> None:
    place = golden / name
    how = json.loads((place / "how.json").read_text(encoding="utf-8"))
    build_index(place / "model", place / "corpus", place / "again", **how)  # next to them, as it was written
    assert not list(differences(read_answers(place)["layout"], layout_of(place / "again")))
