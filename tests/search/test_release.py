"""The memory that an array of the disk takes can be let go of while it is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from polyseme.search.layout import create, release


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
