"""Tags that mark stretches of tokens, and the stretches they mark (序列标注体系): BIO, BIOES and BMES.

    BIO    B-X begins, I-X continues                       BIOES  also E-X ends, S-X is alone
    BMES   the same with M-X in the middle; O is outside everywhere

What a tag sequence that breaks its scheme marks is defined as in conlleval and seqeval: a stretch begins where the type
changes or a B or S stands, whatever stood before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

OUTSIDE = "O"
MOST_BROKEN = 0.05  # share of sentences that break the scheme by mistake


class TaggedStretch(NamedTuple):
    """Tokens ``start`` … ``end`` (exclusive) of one type."""

    type: str
    start: int
    end: int


def scheme_of(tags: Iterable[str]) -> str | None:
    """``bio``, ``bioes``, ``bmes``, or None for tags that mark no stretches (parts of speech)."""
    prefixes = set()
    for tag in tags:
        prefix, _, kind = tag.partition("-")
        if tag != OUTSIDE and (prefix not in {"B", "I", "M", "E", "S"} or not kind):
            return None
        prefixes.add(prefix)
    if prefixes <= {OUTSIDE}:
        return None
    if "M" in prefixes:
        return None if "I" in prefixes else "bmes"
    return "bioes" if prefixes & {"E", "S"} else "bio"


def stretches(tags: Sequence[str]) -> list[TaggedStretch]:
    """What the tags mark, from left to right."""
    found = []
    prefix, kind, start = OUTSIDE, "", 0
    for place, tag in enumerate([*tags, OUTSIDE]):
        new_prefix, new_kind = _parts(tag)
        if _ends(prefix, kind, new_prefix, new_kind):
            found.append(TaggedStretch(kind, start, place))
        if _begins(prefix, kind, new_prefix, new_kind):
            start = place
        prefix, kind = new_prefix, new_kind
    return found


def _parts(tag: str) -> tuple[str, str]:
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, _, kind = tag.partition("-")
    return ("I" if prefix == "M" else prefix), kind


def _ends(prefix: str, kind: str, new_prefix: str, new_kind: str) -> bool:
    if prefix == OUTSIDE:
        return False
    return prefix in ("E", "S") or new_prefix in ("B", "S", OUTSIDE) or kind != new_kind


def _begins(prefix: str, kind: str, new_prefix: str, new_kind: str) -> bool:
    if new_prefix == OUTSIDE:
        return False
    return new_prefix in ("B", "S") or prefix in ("E", "S", OUTSIDE) or kind != new_kind


def allowed(tags: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Which tag may come first ``(K,)``, which may follow which ``(K, K)`` (row before column), and which may be last.

    Tags without a scheme may stand anywhere.
    """
    n = len(tags)
    scheme = scheme_of(tags)
    if scheme is None:
        return np.ones(n, bool), np.ones((n, n), bool), np.ones(n, bool)
    first = np.array([_may_follow(scheme, OUTSIDE, tag) for tag in tags])
    follow = np.array([[_may_follow(scheme, before, tag) for tag in tags] for before in tags])
    last = np.array([_may_follow(scheme, tag, OUTSIDE) for tag in tags])
    return first, follow, last


def kept_to(tags: Sequence[str], sentences: Sequence[Sequence[str]]) -> bool:
    """Whether nearly all sentences keep to the scheme of the tags; those of IOB1, where I-X begins too, do not."""
    first, follow, last = allowed(tags)
    place = {tag: number for number, tag in enumerate(tags)}
    broken = 0
    for sentence in sentences:
        numbers = [place[tag] for tag in sentence]
        kept = not numbers or (first[numbers[0]] and follow[numbers[:-1], numbers[1:]].all() and last[numbers[-1]])
        broken += not kept
    return broken <= MOST_BROKEN * len(sentences)


def _may_follow(scheme: str, before: str, tag: str) -> bool:
    (prefix, kind), (new_prefix, new_kind) = _parts(before), _parts(tag)
    inside = new_prefix in ("I", "E")
    if scheme == "bio":
        return not inside or (prefix in ("B", "I") and kind == new_kind)
    is_open = prefix in ("B", "I")
    return is_open == inside and (not inside or kind == new_kind)
