"""The memory of an array on disk can be released while it is being written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polyseme.search.occurrences.cells import build_cells
from polyseme.search.occurrences.index_folder import create, release


def resident(path: Path) -> int:
    """The bytes of the file that this process holds in memory, as Linux counts them."""
    lines = iter(Path("/proc/self/smaps").read_text(errors="replace").splitlines())
    for line in lines:
        if line.endswith(str(path)):
            return next(int(one.split()[1]) * 1024 for one in lines if one.startswith("Rss:"))
    return 0


def test_what_was_written_stays_and_the_memory_is_free(tmp_path: Path) -> None:
    array = create(tmp_path / "a.npy", (4_000_000,), np.dtype(np.int8))
    array[:] = np.arange(4_000_000) % 100
    if Path("/proc/self/smaps").exists():
        assert resident(tmp_path / "a.npy") > 3_000_000
        release(array)
        assert resident(tmp_path / "a.npy") < 100_000
    release(array)
    array[7] = 42
    assert array[7] == 42
    assert (array[8:] == np.arange(8, 4_000_000) % 100).all()
    array.flush()  # type: ignore[attr-defined]
    assert np.load(tmp_path / "a.npy")[:9].tolist() == [0, 1, 2, 3, 4, 5, 6, 42, 8]


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells what a process holds of a file")
def test_making_cells_holds_no_more_than_a_block_of_the_codes(tmp_path: Path) -> None:
    n, dim = 150_000, 16
    codes = create(tmp_path / "codes.npy", (n, dim), np.dtype(np.int8))
    codes[:] = np.random.default_rng(0).integers(-100, 100, size=(n, dim))
    release(codes)
    held: list[int] = []

    def watched(what: str, done: float, total: float | None, /, **facts: object) -> None:
        held.append(resident(tmp_path / "codes.npy"))

    ones = np.ones(dim, dtype=np.float32)
    build_cells(codes, ones / 127, tmp_path / "cells.npy", seed=1, progress=watched)
    held.append(resident(tmp_path / "codes.npy"))
    assert max(held) < codes.nbytes / 3
