"""Words become text as each language is written."""

from __future__ import annotations

import pytest

from polyseme import Corpus
from polyseme.text.blocks import unwrapped
from polyseme.text.byte_pairs import END, BytePairs
from polyseme.text.source import visible_text
from polyseme.text.spacing import join_words, joined, joined_with_spans


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["I", "see", ",", "he", "said", "."], "I see, he said."),
        (["我", "知道", "。"], "我知道。"),
        (["用", "Python", "写", "的"], "用Python写的"),
        (["Санкт", "Петербург"], "Санкт Петербург"),
        (["die", "Größe", "über", "alles"], "die Größe über alles"),
        (["서울", "대학교"], "서울 대학교"),
        (["“", "Go", "”", "he", "said"], "“Go” he said"),
        (["他", "说", "“", "好", "”"], "他说“好”"),
        (["𠮷", "野"], "𠮷野"),
        ([], ""),
    ],
)
def test_words_are_joined_as_they_are_written(words, text):
    assert join_words(words) == text


def test_sentences_in_a_row_stand_apart_in_every_language_with_spaces():
    assert joined(["Он пришёл.", "Дом был"]) == "Он пришёл. Дом был"
    assert joined(["Où ?", "Là."]) == "Où ? Là."
    assert joined(["他来了。", "天亮了"]) == "他来了。天亮了"
    assert joined(["", "Là"]) == "Là"


SPACED = ["나는 집에 간다", "ㄱ ㄴ", "ﾡ ﾢ", "Größe über", "Санкт Петербург", "😀 😀", "नमस्ते दुनिया"]
UNSPACED = [
    "我|去|北京",
    "カ|タカナ",
    "ｶﾀ|ｶﾅ",
    "ฉัน|รัก|คุณ",
    "ຂ້ອຍ|ຮັກ|ເຈົ້າ",
    "ខ្ញុំ|ស្រឡាញ់|អ្នក",
    "ကျွန်တော်|ချစ်တယ်",
    "ㄅ|ㄆ",
    "𠮷|野",
    "他说|—|—|好",
]


@pytest.mark.parametrize(("words", "text"), [
    *((line.split(" "), line) for line in SPACED), *((line.split("|"), line.replace("|", "")) for line in UNSPACED),
])  # fmt: skip
def test_every_way_from_words_to_text_puts_spaces_at_the_same_places(words, text):
    assert joined(words) == join_words(words) == unwrapped(words) == text
    assert Corpus.from_sentences([words]).text(0) == text
    assert BytePairs.join([word + END for word in words]) == text
    whole, spans = joined_with_spans(words)
    assert (whole, [whole[start:end] for start, end in spans]) == (text, words)


def test_a_web_page_keeps_the_space_between_lines_of_korean_and_not_of_chinese():
    assert list(visible_text("x.html", ["<p>나는\n집에</p><p>我们\n回家</p>"])) == ["나는 집에\n我们回家\n", ""]
