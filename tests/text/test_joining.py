"""Words become text as each language is written."""

from __future__ import annotations

import pytest

from polyseme.cli.kwic import joined
from polyseme.text.joining import join_words


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
    assert joined("Он пришёл.", "Дом был") == "Он пришёл. Дом был"
    assert joined("Où ?", "Là.") == "Où ? Là."
    assert joined("他来了。", "天亮了") == "他来了。天亮了"
    assert joined("", "Là") == "Là"
