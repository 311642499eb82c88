"""Text that holds halves of surrogate pairs, which are not characters, becomes text that can be written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polyseme.encode_files import writer
from polyseme.text.byte_pairs import BytePairs
from polyseme.text.strings import Strings, well_formed

ILL = "好\ud800a\udfff"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("", ""),
        ("好 a 😀", "好 a 😀"),
        (ILL, "好\ufffda\ufffd"),
        ("\ud83d\ude00", "😀"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
    ],
)
def test_halves_are_replaced_and_two_that_belong_together_are_joined(text: str, clean: str) -> None:
    assert well_formed(text) == clean
    strings = Strings()
    strings.append(text)
    assert list(strings) == [clean]


def test_subwords_and_vector_files_replace_them_by_the_same_sign(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    known = BytePairs.learn([("a?", 5), ("好", 5)], size=20)
    assert known.cut("a\ud800") == known.cut("a\ufffd")
    assert known.cut("a\ud800") != known.cut("a?")
    with writer("parquet", tmp_path / "x.parquet") as write:
        write(ILL, [ILL], np.zeros((1, 3), dtype=np.float32))
    assert parquet.read_table(tmp_path / "x.parquet")["token"].to_pylist() == ["好\ufffda\ufffd"]
