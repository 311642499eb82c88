"""Splitting a paragraph into sentences, Chinese and English. 断句

Chinese: after 。！？；… (any run of them) and the closing quotes and brackets that follow, except before a comma.
English: after . ! ? and closing quotes, before a space and something that can begin a sentence; not after
abbreviations (Mr. e.g. U.S.), initials (J. Smith) or in numbers.
"""

from __future__ import annotations

import re

# No sentence ends after these and a full stop.
_TITLES = """
mr mrs ms mx dr prof rev hon st sr jr messrs mme mlle gen col maj capt cmdr lt sgt cpl pvt adm gov sen rep pres amb
vs eg ie viz cf al ca fig figs eq eqs sec ch vol vols ed eds no nos op pp p art dept univ inc ltd co corp bros
jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun mt ft ave blvd rd approx est
"""
# After these one may end: a following word that usually begins a sentence decides.
_EITHER = "inc ltd co corp bros jr sr al etc no ed st a.m p.m u.s u.k e.u d.c ph.d b.a m.a"
_BEGINNERS = """
The A An This That These Those He She It They We I You His Her Its Their Our My Your There Here In On At But And
However When While As If After Before Since For From With Both Each Some Many Most Other Another
"""
_NEVER, _MAYBE, _BEGIN = (frozenset(words.split()) for words in (_TITLES, _EITHER, _BEGINNERS))
_CLOSING = "”’」』）】》〉〕］｝\"')\\]}»"
_OPENING = "“‘「『（【《〈〔［\"'(\\[«"

_BOUNDARY = re.compile(
    rf"[。！？；…｡]+[!?]*[{_CLOSING}]*(?![，、：,])\s*"  # Chinese
    rf"|(?<=[^\x00-\u2fff])[!?]+[{_CLOSING}]*(?![，、：,])\s*"  # narrow ! and ? in Chinese
    rf"|(?<=[\u3400-\u9fff])\.(?=[\u3400-\u9fff])"  # a narrow full stop between Han characters
    rf"|[.!?]+[{_CLOSING}]*\s+(?=[{_OPENING}]*[^\W_])"  # English
)
_BEFORE = re.compile(r"([^\s(\[\"“‘'—–-]*)$")


def split_sentences(paragraph: str) -> list[str]:
    """The sentences of one paragraph, without the spaces around them."""
    found: list[str] = []
    start = 0
    for match in _BOUNDARY.finditer(paragraph):
        end = match.end()
        if match[0][0] == "." and end < len(paragraph) and not _ends(paragraph, start, match):
            continue
        if sentence := paragraph[start:end].strip():
            found.append(sentence)
        start = end
    if sentence := paragraph[start:].strip():
        found.append(sentence)
    return found


def _ends(text: str, start: int, match: re.Match[str]) -> bool:
    """Does this full stop end a sentence? What stands before and after it decides."""
    after = text[match.end() : match.end() + 24].lstrip(_OPENING.replace("\\", ""))
    if after[:1].islower():
        return False
    if not match[0][-1].isspace() or match[0].startswith(".."):
        return True
    before = _BEFORE.search(text, max(start, match.start() - 24), match.start())
    word = before[1] if before else ""
    bare = word.lower().rstrip(".")
    first = re.match(r"[^\W_]+", after)
    begins = bool(first) and first[0] in _BEGIN  # type: ignore[index]
    if len(word) == 1 and word.isalpha() and word.isupper():
        return begins and word == "I"
    if bare in _MAYBE:
        return begins
    if bare in _NEVER or ("." in word and len(bare) <= 5):
        return bool(begins and bare not in _NEVER)
    return True
