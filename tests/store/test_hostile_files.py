"""Truncated, altered, inconsistent and random files: one clear line each, quickly and in little memory."""

from __future__ import annotations

import bz2
import gzip
import struct
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import polyseme
from polyseme.errors import FormatError, PolysemeError
from polyseme.words.files import fasttext as fasttext_format
from polyseme.words.files.fasttext import FastTextFile, FastTextSettings
from polyseme.words.files.word2vec import COMPILED_FROM, read_lines, write_binary, write_text

WORDS = ["the", "北京", "</s>", "ab"]
VECTORS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
QUANTISED = struct.pack("<?qqi", True, 9, 3, 18)  # a flag that asks for norms; 9 rows of 3, 18 codes


def fasttext_bytes(path: Path, *, labels: bool = False) -> bytes:
    model = FastTextFile(
        FastTextSettings(3, buckets=5, minn=1, maxn=2, model=3 if labels else 2),
        WORDS,
        np.array([9, 8, 7, 6]),
        own=VECTORS,
        buckets=np.ones((5, 3), np.float32),
        output=np.zeros((2 if labels else 4, 3), np.float32),
        labels=["__label__a", "__label__b"] if labels else [],
        label_counts=np.array([2, 1] if labels else [], dtype=np.int64),
    )
    fasttext_format.write(path, model)
    return path.read_bytes()


def quantised_bytes(path: Path, *, pruned: bool = False) -> bytes:
    """The same model with a quantised input matrix: pieces of 2 and 1 numbers, and norms; optionally pruned."""
    dense = fasttext_bytes(path)
    matrix_size = 1 + 16 + 9 * 3 * 4
    start = len(dense) - (1 + 16 + 4 * 3 * 4) - matrix_size
    codebook = struct.pack("<4i", 3, 2, 2, 1) + np.linspace(0, 1, 768, dtype="<f4").tobytes()
    norms = bytes(range(9)) + struct.pack("<4i", 1, 1, 1, 1) + np.linspace(1, 2, 256, dtype="<f4").tobytes()
    quantised = b"\x01" + QUANTISED + bytes(range(18)) + codebook + norms
    before = dense[:start]
    if pruned:
        n_kept = 8 + 56 + 20  # behind magic, settings and the other sizes
        before = dense[:n_kept] + struct.pack("<q", 5) + dense[n_kept + 8 : start]
        before += struct.pack("<10i", 4, 0, 3, 1, 2, 2, 1, 3, 0, 4)
    return before + quantised + dense[start + matrix_size :]


@contextmanager
def bounded(megabytes: int = 64, seconds: float = 60) -> Iterator[None]:
    began = time.process_time()
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes << 20
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < seconds


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile first, so that memory used by the compiler is not attributed to a file."""
    read_lines(b"a 1\n" * COMPILED_FROM, 1, 1, "good")


def refused(path: Path) -> str:
    with pytest.raises(FormatError) as caught:
        polyseme.load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


MAKERS = {
    "text": lambda path: write_text(path, WORDS, VECTORS) or path.read_bytes(),
    "binary": lambda path: write_binary(path, WORDS, VECTORS) or path.read_bytes(),
    "fasttext": fasttext_bytes,
    "supervised": lambda path: fasttext_bytes(path, labels=True),
    "quantised": quantised_bytes,
    "pruned": lambda path: quantised_bytes(path, pruned=True),
}


@pytest.mark.parametrize("name", MAKERS)
def test_the_whole_file_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / "whole"
    path.write_bytes(MAKERS[name](path))
    assert polyseme.load(path).index_to_key == WORDS


@pytest.mark.parametrize("compress", [None, gzip.compress])
@pytest.mark.parametrize("name", MAKERS)
def test_a_file_cut_anywhere_is_refused(name: str, compress, tmp_path: Path) -> None:
    path = tmp_path / "cut"
    whole = MAKERS[name](path)
    # word2vec's binary rows may lack the last newline, and the last digits of a text may be missing unnoticed.
    end = len(whole) - (len(b".0\n") if name == "text" else 1)
    places = range(end) if compress is None and len(whole) < 1000 else range(0, end, max(1, end // 150))
    for place in places:
        path.write_bytes(compress(whole[:place]) if compress else whole[:place])
        refused(path)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
def test_cut_compressed_data_is_refused(compress, tmp_path: Path) -> None:
    path = tmp_path / "cut"
    whole = compress(MAKERS["text"](path) * 50)
    for place in range(1, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:place])
        refused(path)


@pytest.mark.parametrize(
    "content",
    [
        b"1000000000000 300\nthe 1 2 3\n",
        b"1000000000000 300\nthe " + bytes(1200),
        b"3 1000000000000\nthe " + bytes(1200),
        b"2 100000000\nthe " + bytes(range(256)) * 9,
        b"0 3\n",
        b"3 0\n",
        b"999999999999999999999999999 3\na 1 2 3\n",
        b"2 3\n" + bytes(200_000),
        b"2 3\na 1 2 3\n",
        b"1 3\na 1 2 3\nb 1 2 3\n",
        b"1 3\na " + bytes(12) + b"b " + bytes(12),
        b"2 3\na 1 2 nan\nb 1 2 3\n",
        b"2 3\na 1 2 1e99\nb 1 2 3\n",
        b"2 2\na " + struct.pack("<2f", 1, float("nan")) + b"b " + bytes(8),
        b"2 2\na " + struct.pack("<2f", 1, float("inf")) + b"b " + bytes(8),
        struct.pack("<2i", fasttext_format.MAGIC, 99) + bytes(200),
        struct.pack("<2i", fasttext_format.MAGIC, 12) + FastTextSettings(1 << 30).to_bytes(),
        struct.pack("<2i", fasttext_format.MAGIC, 12)
        + FastTextSettings(3).to_bytes()
        + struct.pack("<3iqq", 2**31 - 1, 2**31 - 1, 0, 5, -1),
        struct.pack("<2i", fasttext_format.MAGIC, 12)
        + FastTextSettings(3).to_bytes()
        + struct.pack("<3iqq", 1, 1, 0, 5, 1 << 60)
        + b"a\x00"
        + struct.pack("<qb", 1, 0),
        struct.pack("<2i", fasttext_format.MAGIC, 12)
        + FastTextSettings(3).to_bytes()
        + struct.pack("<3iqq", 1, 1, 0, 5, -1)
        + b"a\x00"
        + struct.pack("<qb?qq", 1, 0, False, 1 << 62, 3),
        struct.pack("<2i", fasttext_format.MAGIC, 12)
        + FastTextSettings(3).to_bytes()
        + struct.pack("<3iqq", 1, 1, 0, 5, -1)
        + b"a\x00"
        + struct.pack("<qb??qqi", 1, 0, True, True, 1 << 40, 3, 1 << 30),
        struct.pack("<2i", fasttext_format.MAGIC, 12)
        + FastTextSettings(3).to_bytes()
        + struct.pack("<3iqq", 1, 1, 0, 5, -1)
        + b"a\x00"
        + struct.pack("<qb?qq", 1, 0, False, 1 << 62, 0),
        b"",
        b"\x80\x04\x95" + bytes(50),
        b"PK\x03\x04" + bytes(50),
        bytes(10_000),
    ],
)
@pytest.mark.parametrize("compress", [None, gzip.compress])
def test_lies_are_refused_before_they_cost_anything(content: bytes, compress, tmp_path: Path) -> None:
    path = tmp_path / "lie"
    path.write_bytes(compress(content) if compress else content)
    with bounded():
        refused(path)


@pytest.mark.parametrize(
    "unit",
    [b"\x00", b"a", b"\n", b" ", b"a 0 0 0 0 0 0 0\n", b"1 "],
    ids=["zeros", "a", "lines", "blanks", "rows", "numbers"],
)
@pytest.mark.parametrize("header", [b"", b"1000000000000 7\n", b"9 7\nthe 1 2 3 4 5 6 7\n"])
def test_a_decompression_bomb_is_refused_early(unit: bytes, header: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(header)
        for _ in range(96):
            file.write(unit * ((1 << 20) // len(unit)))
    with bounded(megabytes=80):
        refused(path)


def test_a_bomb_in_the_shape_of_a_fasttext_model_is_refused_early(tmp_path: Path) -> None:
    path = tmp_path / "bomb.bin.gz"
    start = struct.pack("<2i", fasttext_format.MAGIC, 12) + FastTextSettings(100).to_bytes()
    words = struct.pack("<3iqq", 1, 1, 0, 5, -1) + b"a\x00" + struct.pack("<qb?qq", 1, 0, False, 1 << 20, 100)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(start + words)
        for _ in range(400):
            file.write(bytes(1 << 20))
    with bounded(megabytes=400):
        assert "100 times its size" in refused(path)


def test_nan_is_found_in_fasttext_files(tmp_path: Path) -> None:
    path = tmp_path / "nan.bin"
    whole = bytearray(fasttext_bytes(path))
    whole[-4:] = struct.pack("<f", float("nan"))
    path.write_bytes(bytes(whole))
    assert "NaN" in refused(path)


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_altered_file_is_read_or_refused_but_never_breaks(name: str, tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "altered"
    whole = bytearray(MAKERS[name](path))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, min(len(whole), 400) - 1))
        whole[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=8))
    path.write_bytes(bytes(whole))
    try:
        model = polyseme.load(path)
    except PolysemeError as error:
        assert "\n" not in str(error)
    else:
        assert np.isfinite(model.vectors).all()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.one_of(st.binary(max_size=600), st.text(max_size=300).map(str.encode)))
def test_random_bytes_are_read_or_refused_but_never_break(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "random"
    path.write_bytes(content)
    try:
        polyseme.load(path)
    except PolysemeError as error:
        assert "\n" not in str(error)
