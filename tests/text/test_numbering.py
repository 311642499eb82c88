"""The vectorised numbering gives what a dictionary gives."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from polyseme.text.numbering import WordNumbers
from polyseme.text.segmenter import CODING
from polyseme.text.vocabulary import words_from_bytes

# Words as long as a piece, several, and the longest that is no digest; of two that differ, one behind its 32nd unit.
AT_THE_EDGES = ["的", "the", *("a" * n for n in (4, 5, 8, 9, 32, 33, 40)), "a" * 39 + "b", "𠀀" * 16, "𠀀" * 17, "\n"]
WORD = st.text(st.characters(exclude_categories=["Cs", "Zs", "Cc"]), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(st.one_of(WORD, st.sampled_from(AT_THE_EDGES)), max_size=60),
        max_size=5,
    )
)
def test_blocks_of_words(blocks: list[list[str]]) -> None:
    numbers, expected = WordNumbers(), {"\n": 0}
    numbers.number("\n".encode(CODING))
    for block in blocks:
        words = [word for word in block if " " not in word]
        known = len(expected)
        want = [expected.setdefault(word, len(expected)) for word in words]
        got, new = numbers.number(" ".join(words).encode(CODING))
        assert got.tolist() == want
        assert words_from_bytes(new, where="here") == list(expected)[known:]
    assert numbers.count == len(expected)


def test_many_words_and_one_of_a_megabyte() -> None:
    numbers = WordNumbers()
    words = [f"word{i % 70_000}" for i in range(150_000)]
    got, new = numbers.number(("x" * (1 << 20) + "  " + " ".join(words) + " ").encode(CODING))
    assert got.tolist() == [0, *(1 + i % 70_000 for i in range(150_000))]
    assert new.count(b"\n") == numbers.count == 70_001
