"""word2vec's formats and their kin, written by hand here, by our writer, and read by gensim where it is installed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
from pathlib import Path

import numpy as np
import pytest

from polyseme.errors import FormatError
from polyseme.words.files import word2vec as vector_lines
from polyseme.words.files import word2vec as word2vec_format
from polyseme.words.files.word2vec import read, write_binary, write_text

ROWS = {"the": [0.5, -1.25, 3.0], "北京": [1e-3, 2.0, -0.1], "c++": [0.0, -0.0, 7.0]}
MATRIX = np.array([*ROWS.values()], dtype=np.float32)


def text_file(header: bool = True, end: str = "\n", blank: str = " ") -> bytes:
    lines = ["3 3"] if header else []
    lines += [blank.join([word, *map(str, row)]) for word, row in ROWS.items()]
    return (end.join(lines) + end).encode()


def binary_file(newline: bytes = b"\n") -> bytes:
    rows = b"".join(word.encode() + b" " + struct.pack("<3f", *row) + newline for word, row in ROWS.items())
    return b"3 3\n" + rows


def check(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    file = read(path)
    assert file.words == [*ROWS]
    np.testing.assert_array_equal(file.vectors, MATRIX)


@pytest.mark.parametrize(
    "content",
    [
        text_file(),
        text_file(header=False),
        text_file(end=" \n"),  # fastText's .vec
        text_file(end="\r\n"),
        text_file().rstrip(),
        text_file() + b"\n \n",
        text_file(blank="\t"),
        b"\xef\xbb\xbf" + text_file(),
        b"\xef\xbb\xbf" + text_file(header=False),
        text_file(header=False, blank="  "),
        binary_file(),
        binary_file(newline=b""),
        binary_file() + b"\n",
    ],
)
def test_every_variant_reads_the_same(tmp_path: Path, content: bytes) -> None:
    check(tmp_path / "v", content)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("content", [text_file(), text_file(header=False), binary_file(), binary_file(b"")])
def test_compression_is_told_by_content(tmp_path: Path, compress, content: bytes) -> None:
    check(tmp_path / "v.dat", compress(content))


def test_words_keep_blanks_and_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_bytes(b"4 2\n. . . 1 2\n\xe3\x81 3 4\n\xe3\x80\x80 5 6\n 7 8\n")
    file = read(path)
    assert [w.encode("utf-8", "surrogateescape") for w in file.words] == [b". . .", b"\xe3\x81", b"\xe3\x80\x80", b""]
    np.testing.assert_array_equal(file.vectors, np.arange(1, 9).reshape(4, 2))
    write_text(tmp_path / "again", file.words[1:3], file.vectors[1:3])
    assert (tmp_path / "again").read_bytes() == b"2 2\n\xe3\x81 3.0 4.0\n\xe3\x80\x80 5.0 6.0\n"


def test_a_first_word_that_ends_in_a_number_does_not_lengthen_the_vectors(tmp_path: Path) -> None:
    (tmp_path / "v").write_bytes(b"at 5 1 2\nof 3 4\nin 5 6\n")
    file = read(tmp_path / "v")
    assert file.words == ["at 5", "of", "in"]
    np.testing.assert_array_equal(file.vectors, [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize("content", [b"4 2\na 1 1\nb 2 2\na 3 3\nc 4 4\n", b"a 1 1\nb 2 2\na 3 3\nc 4 4\n"])
def test_of_a_word_that_comes_twice_the_first_row_counts(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "v").write_bytes(content)
    file = read(tmp_path / "v")
    assert file.words == ["a", "b", "c"]
    np.testing.assert_array_equal(file.vectors[:, 0], [1, 2, 4])


def awkward_numbers() -> list[str]:
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2**32, size=4000, dtype=np.uint32).view(np.float32)
    singles = [str(x) for x in bits[np.isfinite(bits)]]
    doubles = [repr(float(x)) for x in rng.normal(size=4000)]
    # The middle between two float32 numbers, and a hair to each side of it: the hardest to round.
    middles = []
    for x in rng.normal(size=300).astype(np.float32):
        middle = (float(x) + float(np.nextafter(x, np.float32(9)))) / 2
        middles += [f"{middle:.25f}", f"{np.nextafter(middle, 9):.25f}", f"{np.nextafter(middle, -9):.25f}"]
    plain = ["0", "-0", "+1.5", ".5", "5.", "1e5", "1E-5", "12345678901234567890123", "0." + "0" * 30 + "1", "1e-50"]
    return [*singles, *doubles, *middles, *plain, "9" * 25 + "e-20", "3.4028235e38", "1e-45", "7.006492321624085e-46"]


def test_numbers_are_rounded_as_python_and_numpy_round_them(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = awkward_numbers()
    block = "".join(f"w{i} {x}\n" for i, x in enumerate(numbers)).encode()
    expected = np.array([float(x) for x in numbers]).astype(np.float32)
    for compiled_from in (0, len(block) + 1):
        monkeypatch.setattr(vector_lines, "COMPILED_FROM", compiled_from)
        words, rows = vector_lines.read_lines(block, 1, 1, "here")
        assert words == [f"w{i}" for i in range(len(numbers))]
        np.testing.assert_array_equal(rows[:, 0].view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("compiled_from", [0, 1 << 20])
@pytest.mark.parametrize(
    "line", [b"a 1 2", b"a 1 2 x", b"a 1 2 3_0", b"a 1 2 0x10", b"1 2 3", b"", b"a 1 2 --3", b"a 1 2 1e", b"a 1 2 ."]
)
def test_a_line_that_is_no_row_is_named(monkeypatch: pytest.MonkeyPatch, compiled_from: int, line: bytes) -> None:
    monkeypatch.setattr(vector_lines, "COMPILED_FROM", compiled_from)
    with pytest.raises(FormatError, match=r"f\.txt line 12 does not end in 3 numbers"):
        vector_lines.read_lines(b"ok 1 2 3\nalso 4 5 6\n" + line + b"\n", 3, 10, "f.txt")


def test_blocks_of_a_large_file_join_without_a_seam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(700, 9)).astype(np.float32)
    words = [f"w{'x' * (i % 17)}{i}" for i in range(700)]
    write_text(tmp_path / "t", words, vectors)
    write_binary(tmp_path / "b", words, vectors)
    (tmp_path / "b.gz").write_bytes(gzip.compress((tmp_path / "b").read_bytes()))
    for chunk in (64, 1000, 4096):
        monkeypatch.setattr(word2vec_format, "CHUNK", chunk)
        for name in ("t", "b", "b.gz"):
            file = read(tmp_path / name)
            assert file.words == words
            np.testing.assert_array_equal(file.vectors, vectors)


def test_what_we_write_is_what_gensim_reads(tmp_path: Path) -> None:
    models = pytest.importorskip("gensim.models", reason="gensim is not installed (extra: bench)")
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(50, 7)).astype(np.float32)
    words = [f"词{i}" for i in range(49)] + ["New York"]
    for name in ("v.txt", "v.txt.gz", "v.bin", "v.bin.gz"):
        binary = ".bin" in name
        (write_binary if binary else write_text)(tmp_path / name, words, vectors)
        peer = models.KeyedVectors.load_word2vec_format(str(tmp_path / name), binary=binary)
        assert peer.index_to_key == [*words[:-1], "New_York"]
        np.testing.assert_array_equal(peer.vectors, vectors)
    write_text(tmp_path / "glove", words, vectors, header=False)
    peer = models.KeyedVectors.load_word2vec_format(str(tmp_path / "glove"), binary=False, no_header=True)
    np.testing.assert_array_equal(peer.vectors, vectors)


def test_a_blank_inside_a_binary_word_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "v"
    path.write_bytes(b"2 2\n" + b"a b " + struct.pack("<2f", 1, 2) + b"\n" + b"b " + struct.pack("<2f", 3, 4) + b"\n")
    with pytest.raises(FormatError, match="a word in it has a space"):
        read(path)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(
    ("encoding", "words"), [("gb18030", ["北京", "天气", "我们", "ab"]), ("big5", ["臺灣", "天氣", "我們", "時間"])]
)
def test_words_in_another_encoding_are_read_in_it(binary, encoding, words, tmp_path):
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    numbers = [row.tobytes() if binary else f"{row[0]} {row[1]}\n".encode() for row in rows]
    body = b"".join(word.encode(encoding) + b" " + row for word, row in zip(words, numbers, strict=True))
    (tmp_path / "w.bin").write_bytes(b"4 2\n" + body)
    found = read(tmp_path / "w.bin")
    assert found.words == words
    np.testing.assert_array_equal(found.vectors, rows)


@pytest.mark.parametrize("rounded", [np.float32, np.float16])
def test_big_endian_numbers_are_told(rounded, tmp_path):
    rows = np.random.default_rng(0).normal(size=(5, 8)).astype(rounded)
    for order, path in ((">f4", tmp_path / "big.bin"), ("<f4", tmp_path / "little.bin")):
        lines = (f"word{number} ".encode() + row.astype(order).tobytes() for number, row in enumerate(rows))
        path.write_bytes(b"5 8\n" + b"\n".join(lines))
    with pytest.raises(FormatError, match=r"big.bin has big-endian numbers, and word2vec's .* little-endian ones$"):
        read(tmp_path / "big.bin")
    np.testing.assert_array_equal(read(tmp_path / "little.bin").vectors, rows.astype(np.float32))
