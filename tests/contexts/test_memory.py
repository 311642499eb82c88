"""What does not fit in memory is told in one line: how much was needed, and what limits it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from polyseme.machine import is_out_of_memory, told_out_of_memory
from polyseme.serve.responses import failure
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS limits only on Linux")

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4_000_000_000, 4_000_000_000))
from polyseme.cli.main import main
main()
"""


def encode(model: Path, text: Path, out: Path) -> subprocess.CompletedProcess[str]:
    arguments = ["encode", str(model), str(text), "-o", str(out), "--segment", "space"]
    return subprocess.run([sys.executable, "-c", LIMITED, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("reader", ["torch", "numpy"])
def test_a_line_that_does_not_fit_is_told_in_one_line(reader: str, random_elmo, tmp_path: Path) -> None:
    if reader == "torch":
        random_elmo(hidden=512, projection=512).save(tmp_path / "model")
    else:
        wide = np.ones((1, 2000), dtype=np.float32)
        WordVectors(Vocabulary(["一"], np.array([1])), wide).save(tmp_path / "model")
    (tmp_path / "long.txt").write_text("一 " * 1_000_000 + "\n", encoding="utf-8")
    done = encode(tmp_path / "model", tmp_path / "long.txt", tmp_path / "out.npy")
    assert done.returncode == 1, done.stderr
    told = done.stderr.splitlines()[-1]
    assert re.match(r"polyseme: not enough memory: \d\.\d GB were needed at once, ", told), done.stderr
    assert "and the process may have 4.0 GB (ulimit -v); " in told
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.npy").exists()


def test_another_runtime_error_is_not_taken_for_a_lack_of_memory() -> None:
    assert not is_out_of_memory(RuntimeError("shape mismatch"))
    refused = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4200000000 bytes.")
    assert is_out_of_memory(refused)
    assert told_out_of_memory(refused).startswith("not enough memory: 4.2 GB were needed at once")


def test_the_server_refuses_what_does_not_fit_and_names_the_reason() -> None:
    refused = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4200000000 bytes.")
    answer = failure("POST", "/api/encode", refused)
    assert answer.status_code == 503
    assert b"not enough memory" in answer.body
    assert failure("POST", "/api/encode", RuntimeError("another")).status_code == 500
