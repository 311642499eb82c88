"""Write HDF5 files so that a full disk raises an error: the library itself crashes if a write fails."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class CheckedFile(io.FileIO):
    """A file for HDF5 to write to: failed writes seem to succeed, and ``checked`` raises the first failure later."""

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

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Raise the first failure when the block ends.

        Also if the block itself fails, because HDF5 may fail when it reads back what could not be written.
        """
        try:
            yield
        finally:
            if self.failed is not None:
                raise self.failed


@contextmanager
def written_hdf5(path: Path) -> Iterator[Any]:
    """An ``h5py.File`` for writing, which is complete if the block succeeds."""
    import h5py

    with CheckedFile(path, "w+") as disk, disk.checked(), h5py.File(disk, "w") as file:
        yield file
