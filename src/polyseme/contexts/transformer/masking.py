"""Masking 遮盖: which subwords of an example are predicted, and what replaces them.

Of the 15 % that are chosen, 80 % become [MASK], 10 % stay and 10 % become a random subword (Devlin et al. 2018). The
units are single subwords, whole words, or one to three consecutive words with p(n) ∝ 1/n (Lan et al. 2019). Words are
those of the corpus segmentation, so that both characters of 电话 are masked or neither. Units that would exceed the
wanted number are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyseme.contexts.transformer.tokenizer import Ints

LONGEST_NGRAM = 3


@dataclass(frozen=True)
class Masking:
    """How subwords are chosen and replaced."""

    unit: str  # token | word | ngram
    share: float
    masked: float  # of the chosen, the share that is masked
    kept: float  # … that is masked or kept
    mask: int
    ordinary: Ints  # the possible random replacements: all subwords but special tokens

    def choose(self, words: Ints, size: int, random: np.random.Generator) -> Ints:
        """The chosen positions, sorted. ``words``: the word of each position (-1: none); ``size``: their number."""
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
        if not chosen and groups:  # every word is longer than the wanted number: take part of one
            chosen.append(groups[int(random.integers(len(groups)))][:wanted])
        return np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, dtype=np.int64)

    def replaced(self, ids: Ints, random: np.random.Generator) -> Ints:
        """The replacements of the chosen subwords ``ids``."""
        draw = random.random(len(ids))
        others = self.ordinary[random.integers(len(self.ordinary), size=len(ids))]
        return np.where(draw < self.masked, self.mask, np.where(draw < self.kept, ids, others))


def _groups(words: Ints) -> list[Ints]:
    """The positions of each word, in order."""
    places = np.flatnonzero(words >= 0)
    if not len(places):
        return []
    numbers = words[places]
    edges = np.flatnonzero((numbers[1:] != numbers[:-1]) | (places[1:] != places[:-1] + 1)) + 1
    return np.split(places, edges)


def _joined(groups: list[Ints], random: np.random.Generator) -> list[Ints]:
    """Join the words of a text into groups of one to three."""
    weights: NDArray[np.float64] = 1 / np.arange(1, LONGEST_NGRAM + 1)
    lengths = random.choice(LONGEST_NGRAM, size=len(groups), p=weights / weights.sum()) + 1
    found, place = [], 0
    for n in lengths.tolist():
        if place >= len(groups):
            break
        found.append(np.concatenate(groups[place : place + n]))
        place += n
    return found
