"""Words that are worth a look in an index. 示例词"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from polyseme.search.occurrences.index import Index
from polyseme.search.word_selection import tells_something

_LOOKED_AT = 2000  # most frequent words
_CHINESE = 0x2E80  # the first character of the scripts whose words are short


def split_words(index: Index) -> list[tuple[str, float]]:
    """The words that were seen to split when the index was made, the clearest first, with their scores."""
    known = index.facts.get("splits")
    pairs = [pair for pair in known if isinstance(pair, list) and len(pair) == 2] if isinstance(known, list) else []
    return [(str(word), float(score)) for word, score in pairs if index.count(str(word))]


def example_words(index: Index, n: int = 12) -> list[str]:
    """Words to begin with: those that split, or else the frequent ones that are not function words."""
    found = [word for word, _ in split_words(index)]
    frequent = (word for word in index.words.words if tells_something(word))
    return [*found, *(word for word in islice(frequent, n) if word not in found)][:n]


def frequent_words(words: Iterable[str], n: int = 12) -> list[str]:
    """Of words, the frequent ones first, those that are not function words; the full ones, if there are any."""
    known = [word for word in islice(words, _LOOKED_AT) if tells_something(word)]
    full = [word for word in known if len(word) > (1 if ord(word[0]) >= _CHINESE else 4)]
    return (full or known)[:n]
