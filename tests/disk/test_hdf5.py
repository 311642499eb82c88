"""HDF5 on a full disk: the library crashes or misreads, we say that there is no room."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from polyseme.disk.disk_space import written_hdf5

resource = pytest.importorskip("resource", reason="the size of files can be limited on Unix only")


@pytest.mark.parametrize("stumbles", [False, True])
def test_a_full_disk_is_told_as_such_also_where_the_library_stumbles_over_what_is_missing(
    stumbles: bool, tmp_path: Path
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)), written_hdf5(tmp_path / "x.h5") as file:
            file["numbers"] = np.ones(100_000)
            if stumbles:  # as it does with thousands of sentences, where it reads what it wrote before
                raise OSError("Unable to create link (bad symbol table node signature)")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
