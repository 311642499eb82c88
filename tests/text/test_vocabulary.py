"""Words, counts and the file they are kept in."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.errors import FormatError
from polyseme.text.vocabulary import Vocabulary, words_from_bytes, words_to_bytes

WORDS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8))


@given(WORDS)
def test_words_come_back_from_bytes(words: list[str]) -> None:
    assert words_from_bytes(words_to_bytes(words), where="here") == words


@given(WORDS, st.integers(1, 3), st.integers(1, 9))
def test_the_vocabulary_is_the_frequent_words_first(words: list[str], min_count: int, max_size: int) -> None:
    counts = Counter(words)
    whole = Vocabulary.from_counts(counts)
    assert dict(zip(whole.words, whole.counts.tolist(), strict=True)) == counts
    assert whole.counts.tolist() == sorted(counts.values(), reverse=True)
    part = whole.cut(min_count=min_count, max_size=max_size)
    assert len(part) == min(max_size, sum(n >= min_count for n in counts.values()))
    assert part.words == whole.words[: len(part)]


def test_a_cut_file_is_refused() -> None:
    with pytest.raises(FormatError, match="cut short"):
        words_from_bytes(words_to_bytes(["一", "二"])[:-1], where="words.txt")
