"""Segmented text with a tag after every word: ``迈向/v 充满/v [中央/n 电台/n]nt``. 人民日报语料格式

``19980101-01-001-001/m`` at the start of a line is the number of the paragraph (day, page, article, paragraph), not a
word. Brackets group words into a longer name; the words and their own tags are kept, the brackets and the name's tag
are not.
"""

from __future__ import annotations

import re

from polyseme.text.sentences import ENDS, WIDE_CLOSING

_NUMBER = re.compile(r"(\d{8}-\d{2,3}-\d{3})-\d{3}(?:/m)?$")
_END = frozenset(ENDS + "!?.")
_CLOSE = frozenset(WIDE_CLOSING + "\"'")
_READING = re.compile(r"(?<=.)\{[^{}]*\}$")  # 解{jie3}: the pronunciation of a character

Pairs = list[tuple[str, str]]


def read_tagged(line: str) -> tuple[str, Pairs]:
    """The article number ("" if the line has none) and the words with their tags."""
    parts = line.split()
    number = _NUMBER.match(parts[0]) if parts else None
    pairs = [_pair(part) for part in (parts[1:] if number else parts)]
    return (number[1] if number else ""), [(word, tag) for word, tag in pairs if word]


def _pair(part: str) -> tuple[str, str]:
    word, slash, tag = part.rpartition("/")
    if not slash:
        return part, ""
    if "]" in part:
        if len(word) > 1 and word.endswith("]") and "/" in word:  # …/n]/nt
            word, _, tag = word[:-1].rpartition("/")
        tag = tag.partition("]")[0]
    if word[:1] == "[" and len(word) > 1:
        word = word.lstrip("[") or "["
    return (_READING.sub("", word) if "{" in word else word), tag


def tagged_sentences(pairs: Pairs) -> list[Pairs]:
    """Split tagged words into sentences, after end marks and the closing quotes that follow."""
    found: list[Pairs] = []
    ended = False
    for pair in pairs:
        ends = pair[0][0] in _END and all(character in _END for character in pair[0])
        if not found or (ended and not ends and pair[0] not in _CLOSE):
            found.append([])
            ended = False
        found[-1].append(pair)
        ended = ended or ends
    return found


def last_article(text: str) -> str:
    """The article number of the last line of the text."""
    lines = text.rstrip().rsplit("\n", 1)
    return read_tagged(lines[-1])[0]
