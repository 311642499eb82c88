"""Which pieces of an example are to be told, and what is put in their place. 遮盖

Of the 15 % that are chosen, 80 % become [MASK], 10 % stay and 10 % become any piece (Devlin et al. 2018). Chosen are
single pieces, whole words, or one to three words in a row with p(n) ∝ 1/n (Lan et al. 2019): words as the corpus cuts
them, so that of 电话 both characters are masked or none. Words that would exceed the number wanted are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyseme.contexts.transformer.pieces import Ints

LONGEST_NGRAM = 3


@dataclass(frozen=True)
class Masking:
    """How pieces are chosen and replaced."""

    unit: str  # token | word | ngram
    share: float
    masked: float  # of the chosen, the share that is masked
    kept: float  # … that is masked or left as it is
    mask: int
    ordinary: Ints  # the pieces that may stand for another: all but special ones

    def choose(self, words: Ints, size: int, random: np.random.Generator) -> Ints:
        """Places of an example, ascending. ``words`` numbers its words, -1 if none is; ``size`` is its length."""
        wanted = max(1, round(self.share * size))
        if self.unit == "token":
            places = np.flatnonzero(words >= 0)
            return np.sort(random.permutation(places)[:wanted])
        groups = _groups(words)
        if self.unit == "ngram":
            groups = _joined(groups, random)
        chosen: list[Ints] = []
        found = 0
        for number in random.permutation(len(groups)):
            group = groups[number]
            if found + len(group) <= wanted:
                chosen.append(group)
                found += len(group)
                if found == wanted:
                    break
        if not chosen and groups:  # every word is longer than what is wanted: of one of them a part
            chosen.append(groups[int(random.integers(len(groups)))][:wanted])
        return np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, dtype=np.int64)

    def replaced(self, ids: Ints, random: np.random.Generator) -> Ints:
        """What occurs in the place of the chosen pieces ``ids``."""
        draw = random.random(len(ids))
        others = self.ordinary[random.integers(len(self.ordinary), size=len(ids))]
        return np.where(draw < self.masked, self.mask, np.where(draw < self.kept, ids, others))


def _groups(words: Ints) -> list[Ints]:
    """The places of each word, in their order."""
    places = np.flatnonzero(words >= 0)
    if not len(places):
        return []
    numbers = words[places]
    edges = np.flatnonzero((numbers[1:] != numbers[:-1]) | (places[1:] != places[:-1] + 1)) + 1
    return np.split(places, edges)


def _joined(groups: list[Ints], random: np.random.Generator) -> list[Ints]:
    """One to three words as one, from the beginning of the text on."""
    weights: NDArray[np.float64] = 1 / np.arange(1, LONGEST_NGRAM + 1)
    lengths = random.choice(LONGEST_NGRAM, size=len(groups), p=weights / weights.sum()) + 1
    found, place = [], 0
    for n in lengths.tolist():
        if place >= len(groups):
            break
        found.append(np.concatenate(groups[place : place + n]))
        place += n
    return found
