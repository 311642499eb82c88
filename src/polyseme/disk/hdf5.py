"""HDF5 files, written so that a full disk is an error: the library crashes where a write fails."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class CheckedFile(io.FileIO):
    """A file for HDF5 to write to: it is told of no failure, and ``check`` raises the first there was."""

    failed: OSError | None = None

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest and self.failed is None:
                rest = rest[super().write(rest) or 0 :]
        except OSError as error:
            self.failed = error
        return size

    def truncate(self, size: int | None = None) -> int:
        if self.failed is None:
            try:
                return super().truncate(size)
            except OSError as error:
                self.failed = error
        return size or 0

    def check(self) -> None:
        """Raise what went wrong."""
        if self.failed is not None:
            raise self.failed


@contextmanager
def written_hdf5(path: Path) -> Iterator[Any]:
    """An ``h5py.File`` that is whole when the block ends well.

    What could not be written is missed when HDF5 reads it again: the first failure is told, not what followed from it.
    """
    import h5py

    with CheckedFile(path, "w+") as disk:
        try:
            with h5py.File(disk, "w") as file:
                yield file
        finally:
            disk.check()
