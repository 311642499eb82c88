"""An n-gram language model with interpolated, modified Kneser-Ney smoothing: the baseline for NNLM.

Chen and Goodman, An Empirical Study of Smoothing Techniques for Language Modeling, 1999.

    p(w | h) = max(0, c(hw) - D(c(hw))) / c(h·) + γ(h) p(w | h'),     h' = h without its first word

Below the highest order c(hw) is the number of distinct words that precede hw. The lowest order is mixed with the
uniform distribution over all classes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain

import numpy as np

Gram = tuple[int, ...]


class KneserNey:
    """The model of one text, given as word numbers with a boundary between sentences."""

    def __init__(self, numbers: list[int], order: int, boundary: int, n_classes: int) -> None:
        self.order, self.boundary, self.n_classes = order, boundary, n_classes
        highest = Counter(self._grams(numbers))
        self.levels = [Level(highest)]
        for _ in range(order - 1):
            shorter = Counter(gram[1:] for gram in self.levels[-1].counts)
            self.levels.append(Level(shorter))

    def _grams(self, numbers: list[int]) -> list[Gram]:
        """Each number after the first with the ``order - 1`` before it; all boundaries beyond the nearest one."""
        grams, context = [], (self.boundary,) * (self.order - 1)
        for number in numbers[1:]:
            grams.append((*context, number))
            context = (*context[1:], number) if number != self.boundary else (self.boundary,) * (self.order - 1)
        return grams

    def probability(self, gram: Gram) -> float:
        """The probability of the last word given those before it."""
        chance = 1 / self.n_classes
        for level in reversed(self.levels):
            part = gram[len(gram) - level.size :]
            chance = level.mixed(part, chance)
        return chance

    def perplexity(self, numbers: list[int]) -> float:
        """The perplexity on another text with the same numbering of words."""
        return float(np.exp(-np.mean([np.log(self.probability(gram)) for gram in self._grams(numbers)])))


class Level:
    """The n-grams of one size: counts, discounts, and the totals and γ of each context."""

    def __init__(self, counts: Counter[Gram]) -> None:
        self.counts = counts
        self.size = len(next(iter(counts)))
        ones, twos, threes, fours = (sum(c == n for c in counts.values()) or 1 for n in (1, 2, 3, 4))
        share = ones / (ones + 2 * twos)
        steps = ((1, ones, twos), (2, twos, threes), (3, threes, fours))
        self.discounts = [0.0, *(n - (n + 1) * share * following / seen for n, seen, following in steps)]
        self.totals: defaultdict[Gram, int] = defaultdict(int)
        taken: defaultdict[Gram, float] = defaultdict(float)
        for gram, count in counts.items():
            self.totals[gram[:-1]] += count
            taken[gram[:-1]] += self.discounts[min(count, 3)]
        self.left = {context: taken[context] / total for context, total in self.totals.items()}  # γ

    def mixed(self, gram: Gram, lower: float) -> float:
        """The probability at this level, given that at the level below."""
        context = gram[:-1]
        total = self.totals.get(context)
        if not total:
            return lower
        count = self.counts.get(gram, 0)
        return max(0.0, count - self.discounts[min(count, 3)]) / total + self.left[context] * lower


def check() -> None:
    """Check that the probabilities after any context add up to one."""
    random = np.random.default_rng(0)
    numbers = [5, *chain.from_iterable([*random.integers(0, 5, 6).tolist(), 5] for _ in range(200))]
    model = KneserNey(numbers, 3, boundary=5, n_classes=7)
    for context in ((0, 1), (5, 5), (4, 6)):
        assert abs(sum(model.probability((*context, word)) for word in range(7)) - 1) < 1e-9


if __name__ == "__main__":
    check()
