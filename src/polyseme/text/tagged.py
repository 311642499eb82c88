"""Segmented text with a tag after every word: ``迈向/v 充满/v [中央/n 电台/n]nt``. 人民日报语料格式

``19980101-01-001-001/m`` at the start of a line is the number of the paragraph (day, page, article, paragraph), not a
word. Brackets group words into a longer name; the words and their own tags are kept, the brackets and the name's tag
are not.

The meanings of tags in well-known tag sets: Peking University's (People's Daily), Universal POS. 词性标记
"""

from __future__ import annotations

import re
from collections.abc import Iterable

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
    sentences: list[Pairs] = []
    ended = False
    for pair in pairs:
        ends = pair[0][0] in _END and all(character in _END for character in pair[0])
        if not sentences or (ended and not ends and pair[0] not in _CLOSE):
            sentences.append([])
            ended = False
        sentences[-1].append(pair)
        ended = ended or ends
    return sentences


def last_article(text: str) -> str:
    """The article number of the last line of the text."""
    lines = text.rstrip().rsplit("\n", 1)
    return read_tagged(lines[-1])[0]


# tag: English, Chinese
_PKU = """
a adjective 形容词|ad adjective as adverb 副形词|ag adjectival morpheme 形语素|an adjective as noun 名形词
b attributive 区别词|bg attributive morpheme 区别语素|c conjunction 连词|d adverb 副词|dg adverbial morpheme 副语素
e interjection 叹词|f locality 方位词|g morpheme 语素|h prefix 前接成分|i idiom 成语|j abbreviation 简称
k suffix 后接成分|l set phrase 习用语|m numeral 数词|mg numeral morpheme 数语素|n noun 名词|ng noun morpheme 名语素
nr person 人名|ns place 地名|nt organisation 机构团体|nx letters 外文字符|nz other name 其他专名|o onomatopoeia 拟声词
p preposition 介词|q measure word 量词|r pronoun 代词|rg pronoun morpheme 代语素|s space 处所词|t time 时间词
tg time morpheme 时语素|u particle 助词|v verb 动词|vd verb as adverb 副动词|vg verb morpheme 动语素
vn verb as noun 名动词|w punctuation 标点|x symbol 非语素字|y modal particle 语气词|yg modal morpheme 语气语素
z status word 状态词
"""
_UNIVERSAL = """
ADJ adjective 形容词|ADP adposition 介词|ADV adverb 副词|AUX auxiliary 助动词|CCONJ conjunction 并列连词
DET determiner 限定词|INTJ interjection 叹词|NOUN noun 名词|NUM numeral 数词|PART particle 助词|PRON pronoun 代词
PROPN proper noun 专有名词|PUNCT punctuation 标点|SCONJ subordinator 从属连词|SYM symbol 符号|VERB verb 动词
X other 其他
"""


def _read(table: str) -> dict[str, tuple[str, str]]:
    entries = [entry.split() for line in table.split("\n") for entry in line.split("|") if entry.strip()]
    return {entry[0]: (" ".join(entry[1:-1]), entry[-1]) for entry in entries}


NAMES = {**_read(_PKU), **_read(_UNIVERSAL)}


def named_tags(tags: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The known ones among the tags, each once, in order: tag → (English, Chinese). ``Ng`` counts as ``ng``."""
    names = {}
    for tag in dict.fromkeys(tags):
        known = NAMES.get(tag) or NAMES.get(tag.lower())
        if known:
            names[tag] = known
    return names
