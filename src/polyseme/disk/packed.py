"""Plain and compressed files alike: gz, bz2 and xz are recognised by their first bytes, whatever the name."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from polyseme.disk.files import open_plain
from polyseme.errors import FormatError

PACKED = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))  # first bytes, opener
_BY_SUFFIX = {".gz": lambda path, mode: gzip.GzipFile(path, mode, mtime=0), ".bz2": bz2.open, ".xz": lzma.open}


@contextmanager
def open_for_reading(path: Path) -> Iterator[tuple[IO[bytes], int | None]]:
    """The uncompressed content as a stream, and its size in bytes; None if the file is compressed."""
    try:
        with open_plain(path) as plain:
            start = plain.read(6)
            plain.seek(0)
            for magic, opener in PACKED:
                if start.startswith(magic):
                    with opener(plain, "rb") as inside:
                        yield inside, None  # type: ignore[misc]
                    return
            yield plain, os.fstat(plain.fileno()).st_size
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise FormatError(f"{path} is truncated or damaged: its compressed data cannot be read ({error})") from None
    except OSError as error:
        if error.errno is None:  # bz2 reports damage this way
            raise FormatError(f"{path} is damaged: its compressed data cannot be read ({error})") from None
        raise FormatError(f"{path} cannot be read: {error.strerror}") from None


@contextmanager
def open_for_writing(path: Path, named: Path) -> Iterator[IO[bytes]]:
    """Open ``path`` for writing, compressed if its final name (``named``) ends in .gz, .bz2 or .xz."""
    opener = _BY_SUFFIX.get(named.suffix.lower(), open)
    with opener(path, "wb") as file:  # type: ignore[operator]
        yield file


def first_bytes(path: Path, n: int) -> bytes:
    """The first ``n`` bytes of the uncompressed content; fewer if it is shorter."""
    with open_for_reading(path) as (file, _):
        return file.read(n)
