"""Choose the segmenter for each sentence: ``auto`` decides by script. 按文字种类选择分词方法"""

from __future__ import annotations

import re
from itertools import pairwise
from string import ascii_letters

import numpy as np

from polyseme.text.segmenter import FLAG_RANGES, FOREIGN_RANGES, HAN_RANGES, JOINER_RANGES, SKIN_RANGES, Job

_HAN, _FOREIGN, _LEADS, _MAYBE = 1, 2, 4, 8  # bits: Han characters; signs of foreign words; what precedes such a sign
_RULES = {0: "english", _HAN: "chinese", _HAN | _FOREIGN: "mixed"}
_SIGNS = np.zeros(HAN_RANGES[-1][1] + 2, dtype=np.uint8)
_SIGNS[[ord(sign) for sign in "'’@"]] = _FOREIGN
_SIGNS[[ord(sign) for sign in ":" + ascii_letters]] = _LEADS
_SIGNS[[ord(sign) for sign in "./"]] = _MAYBE  # in U.S. and in an address, but not in 3.14 or 1/2
_WORDS = FOREIGN_RANGES + JOINER_RANGES + SKIN_RANGES + FLAG_RANGES
for _bit, _ranges in ((_FOREIGN, _WORDS), (_HAN, HAN_RANGES)):
    for _low, _high in _ranges:
        _SIGNS[_low : _high + 1] = _bit

_ONE_HAN = re.compile(f"[{''.join(f'{chr(low)}-{chr(high)}' for low, high in HAN_RANGES)}]")


def has_han(text: str) -> bool:
    """Whether the text contains a Chinese character."""
    return _ONE_HAN.search(text) is not None


def jobs(method: str, sentences: str) -> list[Job]:
    """Group the sentences (one per line) into jobs: each is a run of lines that the same rule segments."""
    if not sentences:
        return []
    if method != "auto":
        return [(method, sentences)]
    codes = np.frombuffer(f"{sentences}\n".encode("utf-32-le", "replace"), dtype=np.uint32)
    starts = np.append(0, np.flatnonzero(codes == ord("\n")) + 1)
    signs = _SIGNS.take(codes, mode="clip")
    maybe = np.flatnonzero(signs == _MAYBE)
    signs[maybe[signs[maybe - 1] == _LEADS]] = _FOREIGN
    bits = np.bitwise_or.reduceat(signs, starts[:-1])
    bits = np.where(bits & _HAN, bits & (_HAN | _FOREIGN), 0)  # without Han characters nothing else matters
    changes = np.append(0, np.flatnonzero(np.diff(bits)) + 1)
    bounds = [*starts[changes].tolist(), len(codes)]
    rules = [_RULES[bit] for bit in bits[changes].tolist()]
    return [(rule, sentences[start : end - 1]) for rule, (start, end) in zip(rules, pairwise(bounds), strict=True)]


def mostly_chinese(text: str) -> bool:
    """Whether at least half of the text's letters are Han characters."""
    codes = np.frombuffer(text.encode("utf-32-le", "replace"), dtype=np.uint32)
    han = int(np.count_nonzero(_SIGNS.take(codes, mode="clip") == _HAN))
    return 2 * han >= sum(character.isalpha() for character in text) > 0
