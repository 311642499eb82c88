"""Widths and forms are made one; what Chinese readers expect stays."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.errors import OptionError
from polyseme.text.normalise import WIDE, may_vanish, nfkc, normalise
from polyseme.text.segment import Segmentation


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ＡＢＣ１２３", "ABC123"),
        ("ｶﾞｷﾞ", "ガギ"),
        ("你好，世界！（是的）：；？……～", "你好，世界！（是的）：；？……～"),
        ("％＋＝", "%+="),
        ("①㈱℃", "1(株)°C"),
        ("全\u3000角\xa0空\t格", "全 角 空 格"),
        ("零\u200b宽\ufeff字\u00ad符", "零宽字符"),
        ("cafe\u0301", "café"),
        ("\u1112\u1161\u11ab", "한"),
        ("一行\n二行", "一行\n二行"),
    ],
)
def test_nfkc(text: str, expected: str) -> None:
    assert nfkc(text) == expected


@given(st.text(max_size=60))
def test_it_is_unicodes_nfkc_but_for_the_wide_marks_and_what_nobody_sees(text: str) -> None:
    unseen = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cn", "Cs") or ord(c) >= 0xE0000}
    kept = "".join(c for c in text if c not in WIDE and c not in unseen and c not in "\u1680\u2028\u2029")
    assert nfkc(kept) == unicodedata.normalize("NFKC", kept)


@given(st.text(st.sampled_from("，！？：；（）…～中文ab\n "), max_size=40))
def test_wide_marks_stay(text: str) -> None:
    assert nfkc(text) == text


def test_script_and_case() -> None:
    assert normalise("頭髮很長，發展ＯＫ", "nfkc", "simplified", "lower") == "头发很长，发展ok"
    assert normalise("头发", "none", "traditional", "keep") == "頭髮"
    assert normalise("ＡＢ", "none", "keep", "keep") == "ＡＢ"


def test_a_wrong_value_is_an_option_error() -> None:
    with pytest.raises(OptionError, match="normalise must be one of nfkc, none, not 'nfck'; did you mean 'nfkc'"):
        Segmentation(normalise="nfck")


def test_only_characters_that_may_vanish_leave_nothing() -> None:
    points = [point for point in range(1, 0x110000) if not 0xD800 <= point < 0xE000 and not chr(point).isspace()]
    alone = nfkc("\n".join(map(chr, points))).split("\n")
    assert may_vanish(np.array(points, dtype=np.uint32)).tolist() == [not left.strip() for left in alone]


@pytest.mark.parametrize("text", ["カﾞ", "ｶﾞ", "ハﾟ", "e\u200b\u0301", "\uac00\uffa0", "か\u200b\uff9e", "\u3131\u314f"])
def test_what_joins_the_character_before_it_joins_it(text: str) -> None:
    seen = "".join(c for c in text if c != "\u200b")
    assert nfkc(text) == unicodedata.normalize("NFKC", seen)
    assert nfkc(nfkc(text)) == nfkc(text)
