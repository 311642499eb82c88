"""Every method and every head of a task trained with torch runs on the chosen device: one that rejects CPU tensors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.contract.conftest import FITS
from tests.processes import run_program

from polyseme.api import options_of
from polyseme.catalog import METHODS
from polyseme.tasks.options import HEADS
from polyseme.training.options import TrainingOptions

HERE = str(Path(__file__).parent)
BY_TORCH = [row.name for row in METHODS if issubclass(options_of(row.name), TrainingOptions)]


@pytest.fixture(scope="module")
def results(fifty_lines, tmp_path_factory) -> dict[str, str]:
    """The results of training each method and each head on that device, in a separate process."""
    folder = tmp_path_factory.mktemp("device")
    (folder / "lines.txt").write_text("\n".join(fifty_lines[::2]), encoding="utf-8")
    program = f"import sys; sys.path.insert(0, {HERE!r}); import other_device; other_device.main(*sys.argv[1:])"
    imports = ["polyseme.contexts.elmo.model", "polyseme.contexts.transformer.model", "polyseme.tasks.fit"]
    ended = run_program(program, folder / "lines.txt", folder, *BY_TORCH, *FITS, text=True, imports=imports)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize("method", BY_TORCH)
def test_it_trains_on_another_device_than_the_cpu(method, results):
    assert results[method] == "trained"


@pytest.mark.parametrize("name", FITS)
def test_it_learns_a_task_on_another_device_than_the_cpu(name, results):
    assert results[name] == "trained"


def test_every_head_that_torch_trains_is_among_them():
    heads = {f"{task} {head}" for task, of_task in HEADS.items() for head in of_task} - {"classify fasttext"}
    assert heads <= {" ".join(name.split()[:2]) for name in FITS}
