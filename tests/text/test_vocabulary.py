"""Words, counts and the file they are kept in."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.errors import FormatError
from polyseme.text.vocabulary import Vocabulary, WordLines, words_from_bytes, words_to_bytes

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


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), unique=True), st.text(max_size=3))
def test_a_few_words_are_read_and_found_without_a_list_of_all(words: list[str], unseen: str) -> None:
    lines = WordLines(np.frombuffer(words_to_bytes(words), dtype=np.uint8), where="here")
    assert len(lines) == len(words)
    assert lines.take(list(range(len(words)))) == words
    assert [lines.number(word) for word in words] == list(range(len(words)))
    assert lines.number(unseen) == (words.index(unseen) if unseen in words else -1)
    assert "all" not in vars(lines)


def test_many_words_are_read_and_found_in_a_list_of_all() -> None:
    words = [f"w{i}" for i in range(3000)]
    lines = WordLines(np.frombuffer(words_to_bytes(words), dtype=np.uint8), where="here")
    assert [lines.number(word) for word in words] == list(range(3000))
    assert lines.number("other") == -1
    assert lines.take([2999, 0]) == ["w2999", "w0"]
    assert {"all", "numbers"} <= set(vars(lines))


def test_a_cut_file_is_refused() -> None:
    with pytest.raises(FormatError, match="truncated"):
        WordLines(np.frombuffer("一\n二".encode(), dtype=np.uint8), where="words.txt")
    with pytest.raises(FormatError, match="truncated"):
        words_from_bytes(words_to_bytes(["一", "二"])[:-1], where="words.txt")
