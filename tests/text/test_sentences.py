"""Sentences end where a reader would say they do."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.text.sentences import split_sentences


@pytest.mark.parametrize(
    "marked",
    [
        "“你好！”|他说。|真的？！|“是的……”|她笑了；|走吧。",
        '他说："你好。"|她笑了。|"我也好。|走吧。"|完。',
        "他想了想（没有说。）|然后走了。",
        "「走吧！」，他说。",
        "真的?|我不信!|是的.|好",
        "Yahoo!是公司。|圆周率是3.14。",
        "1.数学和2.语文",
        "今天 很 好 。 ”| 他 说 。",
        "Mr. Smith went to Washington.| He met Dr. J. K. Brown at 3.14 p.m. in the U.S. Army.| It was fine!",
        '"Really?" he asked.| She nodded.',
        "He lives in the U.S.| He likes it there.",
        "See Fig. 2 and e.g. Table 3.| That is all...| Then it ended.",
        "1. The first point.| 2. The second one.",
        "See Fig. 3.| The thing is big.| It is no. 5.| He left.",
        "So do I.| The end.",
        "The cat sat.| The sun shone on Sun. Jan. 5 at St. Mary's.| He said no.| They left.",
        "She works at Apple Inc. in California.| The company is large.",
        "第一行\n|第二行。|还有",
        "他说:'你好。'|她笑了。|'我也don't。'|完。|'走吧。",
        "我看了《你好！李焕英》和《Who?什么…》。|《怎么办？》很好；|〈走吧！再见〉也好。",
        "《开头。|没有完。|《西游记》完。|书名《这样\n|不算！》|完。",
        "यह ठीक है।| वह गया।| کیا حال ہے؟| ٹھیک ہے۔| بس",
        "One line\r\n|two lines\u2028|three",
    ],
)
def test_sentences(marked: str) -> None:
    assert split_sentences(marked.replace("|", "")) == [sentence.strip() for sentence in marked.split("|")]


@pytest.mark.parametrize("line_end", ["\r", "\r\n", "\u2028", "\x85", "\f"])
def test_every_line_end_is_one(line_end: str) -> None:
    lines = ["1. The first point.", "No. The end", "I. A king came. 2. He left", "5. The fifth Mr. Smith."]
    assert split_sentences(line_end.join(lines)) == split_sentences("\n".join(lines))


@given(st.text(max_size=120))
def test_nothing_but_space_is_lost(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    found = split_sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() and sentence for sentence in found)


@pytest.mark.parametrize("unit", [".)", ". ", " ", '."', "…」", "\u3000"])
def test_a_long_run_of_marks_takes_no_longer_than_its_length(unit: str) -> None:
    text = "a" + unit * 100_000 + "b"
    begun = time.process_time()
    found = split_sentences(text)
    assert time.process_time() - begun < 60
    assert "".join("".join(found).split()) == "".join(text.split())
