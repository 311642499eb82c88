from __future__ import annotations

import errno
import json
import mmap
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from polyseme.errors import FormatError
from polyseme.store import safetensors_file

ARRAYS = {
    "weights": np.arange(12, dtype=np.float32).reshape(3, 4),
    "counts": np.array([5, 3, 1], dtype=np.int64),
    "empty": np.zeros((0, 4), dtype=np.float32),
    "half": np.array([0.5, 1.5], dtype=np.float16),
}


def test_what_is_written_reads_back_here_and_with_the_safetensors_library(tmp_path):
    safetensors_file.write(tmp_path / "w", ARRAYS, {"note": "词"})
    ours, metadata = safetensors_file.read_with_metadata(tmp_path / "w")
    theirs = load_file(tmp_path / "w")
    assert metadata == {"note": "词"}
    for name, array in ARRAYS.items():
        for read in (ours[name], theirs[name]):
            assert read.dtype == array.dtype
            np.testing.assert_array_equal(read, array)


def test_reading_maps_the_file_instead_of_loading_it(tmp_path):
    safetensors_file.write(tmp_path / "w", ARRAYS)
    array = safetensors_file.read(tmp_path / "w")["weights"]
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)
    assert not array.flags.writeable


def test_a_file_cut_anywhere_is_refused(tmp_path):
    safetensors_file.write(tmp_path / "w", ARRAYS)
    data = (tmp_path / "w").read_bytes()
    for length in range(len(data)):
        (tmp_path / "w").write_bytes(data[:length])
        with pytest.raises(FormatError):
            safetensors_file.read(tmp_path / "w")


@given(st.binary(max_size=200))
def test_random_bytes_give_our_error_or_arrays(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("random") / "w"
    path.write_bytes(data)
    try:
        safetensors_file.read(path)
    except FormatError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, -4]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "object", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": "abc", "data_offsets": [0, 4]},
        7,
    ],
)
def test_a_lying_header_allocates_nothing(tmp_path, entry):
    header = json.dumps({"w": entry}).encode()
    (tmp_path / "w").write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
    with pytest.raises(FormatError, match="'w'"):
        safetensors_file.read(tmp_path / "w")


def file_of(header: dict[str, object], data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    ("places", "size", "why"),
    [
        ([(0, 8), (4, 12)], 12, "overlaps another"),
        ([(0, 8), (0, 8)], 8, "overlaps another"),
        ([(0, 8), (12, 20)], 20, "does not follow"),
        ([(4, 12)], 12, "does not follow"),
        ([(0, 8)], 12, "has extra bytes after its arrays"),
        ([], 4, "has extra bytes after its arrays"),
        ([(0, 8), (8, 16)], 12, "lies outside the file"),
    ],
)
def test_arrays_that_overlap_or_leave_holes_are_refused(tmp_path, places, size, why):
    header = {f"a{n}": {"dtype": "F32", "shape": [2], "data_offsets": list(p)} for n, p in enumerate(places)}
    (tmp_path / "w").write_bytes(file_of(header, bytes(size)))
    with pytest.raises(FormatError, match=why):
        safetensors_file.read(tmp_path / "w")


@pytest.mark.parametrize("metadata", [[], "text", {"a": 1}, {"a": {}}])
def test_what_stands_beside_the_arrays_is_text(tmp_path, metadata):
    (tmp_path / "w").write_bytes(file_of({"__metadata__": metadata}, b""))
    with pytest.raises(FormatError, match="is not text"):
        safetensors_file.read_with_metadata(tmp_path / "w")


def test_no_bit_of_a_sealed_file_changes_unseen(tmp_path):
    safetensors_file.write_sealed(tmp_path / "w", ARRAYS, {"note": "词", "quote": '"sha256":"' + "0" * 64 + '"'})
    arrays, metadata = safetensors_file.read_sealed(tmp_path / "w")
    assert metadata["note"] == "词"
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        np.testing.assert_array_equal(load_file(tmp_path / "w")[name], array)
    whole = (tmp_path / "w").read_bytes()
    for place in range(len(whole)):
        for bit in (1, 16):
            (tmp_path / "w").write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            with pytest.raises(FormatError):
                safetensors_file.read_sealed(tmp_path / "w")


def test_a_file_can_be_read_by_whom_the_umask_allows(tmp_path):
    safetensors_file.write(tmp_path / "w", ARRAYS)
    (tmp_path / "plain").touch()
    assert (tmp_path / "w").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_full_disk_is_an_error_of_the_system(tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            safetensors_file.write(tmp_path / "w", {"large": np.zeros(10_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
