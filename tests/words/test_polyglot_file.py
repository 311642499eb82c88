"""Polyglot's published pickles open as data; whatever else a pickle can do is refused."""

from __future__ import annotations

import os
import pickle
import struct

import numpy as np
import pytest

import polyseme
from polyseme.errors import FormatError

WORDS = ("<UNK>", "<S>", "</S>", "<PAD>", "，", "的", "北京")
MATRIX = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("matrix", [MATRIX, MATRIX.astype(np.float64), np.asfortranarray(MATRIX), MATRIX.astype(">f4")])
def test_words_and_matrix_come_back(tmp_path, protocol, matrix):
    file = tmp_path / "polyglot-zh.pkl"
    file.write_bytes(pickle.dumps((WORDS, matrix), protocol))
    wv = polyseme.load(file)
    assert tuple(wv.index_to_key) == WORDS
    np.testing.assert_array_equal(wv.vectors, MATRIX)
    assert wv.most_similar("北京", topn=2)


def python2_pickle() -> bytes:
    """A pickle as written by Python 2, protocol 2: words as unicode, array data and names as byte strings."""
    words = b"(" + b"".join(b"X" + struct.pack("<I", len(w.encode())) + w.encode() for w in WORDS) + b"t"
    raw = MATRIX.tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR"
        b"(K\x01K\x07K\x04\x86cnumpy\ndtype\n(U\x02f4K\x00K\x01tR(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T" + struct.pack("<i", len(raw)) + raw + b"tb"
    )
    return b"\x80\x02" + words + array + b"\x86."


def test_a_file_written_by_python_2_opens(tmp_path):
    (tmp_path / "p.pkl").write_bytes(python2_pickle())
    wv = polyseme.load(tmp_path / "p.pkl")
    assert tuple(wv.index_to_key) == WORDS
    np.testing.assert_array_equal(wv.vectors, MATRIX)


class Hostile:
    def __reduce__(self):
        return os.system, ("echo pwned > pwned",)


class Plain:
    pass


def lying(matrix: bytes, shape: tuple[int, int]) -> bytes:
    """The pickle with a wrong shape for the array."""
    old = b"K" + bytes([7]) + b"K" + bytes([4])
    new = b"".join(b"J" + struct.pack("<i", size) for size in shape)
    assert matrix.count(old) == 1
    return matrix.replace(old, new)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps((WORDS, Hostile())), "could run code"),
        (pickle.dumps((("a", Hostile()), MATRIX)), "could run code"),
        (pickle.dumps((WORDS, Plain())), "could run code"),
        (pickle.dumps((WORDS, np.array([Plain()], dtype=object))), "floating-point|could run code"),
        (pickle.dumps((WORDS, MATRIX.astype(np.int32))), "floating-point"),
        (pickle.dumps((WORDS[:5], MATRIX)), "do not fit"),
        (pickle.dumps((("a", 5), MATRIX[:2])), "no string"),
        (pickle.dumps((WORDS, np.full((7, 4), np.nan))), "NaN"),
        (pickle.dumps((WORDS, "matrix")), "no array"),
        (lying(python2_pickle(), (2_000_000_000, 64)), "does not fit the bytes"),
        (lying(python2_pickle(), (-7, -4)), "does not fit the bytes"),
        (python2_pickle()[:-40], "truncated"),
    ],
)
def test_anything_else_is_refused_in_one_line(tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.pkl").write_bytes(content)
    with pytest.raises(FormatError, match=message) as error:
        polyseme.load(tmp_path / "p.pkl")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "pwned").exists()


def test_other_pickles_are_no_polyglot_files(tmp_path):
    (tmp_path / "p.pkl").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(FormatError, match="pickle, which could run code"):
        polyseme.load(tmp_path / "p.pkl")


def test_of_a_word_that_comes_twice_the_first_row_counts(tmp_path):
    (tmp_path / "p.pkl").write_bytes(pickle.dumps((("a", "b", "a"), MATRIX[:3]), 2))
    wv = polyseme.load(tmp_path / "p.pkl")
    assert wv.index_to_key == ["a", "b"]
    np.testing.assert_array_equal(wv.vectors, MATRIX[:2])


def test_no_memory_is_taken_on_a_pickle_s_word(tmp_path):
    # bytes(10**12), by way of what protocol 5 makes arrays with, and a list of lists of lists … where a name should be
    nested = b"]" + b"".join(b"q\x00]h\x00ah\x00ah\x00ah\x00a" for _ in range(40))
    for calls in (
        b"cnumpy.core.numeric\n_frombuffer\n("
        b"\x8a\x06\x00\x10\xa5\xd4\xe8\x00cnumpy\ndtype\n(X\x02\x00\x00\x00f4tRK\x01\x85U\x01CtR",
        b"cnumpy\ndtype\n(" + nested + b"tR",
    ):
        (tmp_path / "p.pkl").write_bytes(b"\x80\x02(X\x01\x00\x00\x00at" + calls + b"\x86.")
        with pytest.raises(FormatError):
            polyseme.load(tmp_path / "p.pkl")
