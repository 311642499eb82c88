"""Batches of texts of similar length, each up to a budget of tokens (按词元预算分批).

Each epoch shuffles the texts, depending only on the seed and the number of the epoch. Texts are then sorted by length
within pools of some dozens of batches, so there is little padding but batches still vary. The batches come in random
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from polyseme.arrays import Ints

POOL = 64  # batches that are sorted by length together


class BudgetBatches:
    """Divides texts of these ``sizes`` (in tokens) into batches; within a batch the longest text comes first.

    A batch has about ``tokens`` tokens; with ``padded``, at most that many including padding, and at most ``most``
    texts (0: any number). A text longer than the budget is a batch of its own.
    """

    def __init__(
        self, sizes: Sequence[int] | Ints, *, tokens: int, seed: int, padded: bool = False, most: int = 0
    ) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.tokens, self.seed, self.padded, self.most = tokens, seed, padded, most
        self._plan = lru_cache(maxsize=2)(self._make_plan)

    def n_steps(self, epoch: int) -> int:
        """The number of batches in an epoch."""
        return len(self._plan(epoch))

    def rows(self, epoch: int, index: int) -> Ints:
        """The indices of the texts in a batch."""
        return self._plan(epoch)[index]

    def in_order(self) -> list[Ints]:
        """Batches of all texts by decreasing length, without shuffling."""
        return self._cut(np.argsort(-self.sizes, kind="stable"))

    def _make_plan(self, epoch: int) -> list[Ints]:
        random = np.random.default_rng((self.seed, epoch))
        order = random.permutation(len(self.sizes))
        mean = max(self.sizes.mean(), 1) if len(self.sizes) else 1
        pool = max(int(POOL * self.tokens / mean), 1)
        plan: list[Ints] = []
        for start in range(0, len(order), pool):
            chosen = order[start : start + pool]
            plan.extend(self._cut(chosen[np.argsort(-self.sizes[chosen], kind="stable")]))
        return [plan[i] for i in random.permutation(len(plan))]

    def _cut(self, falling: Ints) -> list[Ints]:
        """Cut texts, sorted by decreasing size, into batches."""
        if self.padded or self.most:
            return self._cut_padded(falling)
        total = np.cumsum(self.sizes[falling])
        n = max(round(total[-1] / self.tokens), 1) if len(total) else 0
        edges = np.searchsorted(total, total[-1] * np.arange(1, n) / n) if n else []
        return [part for part in np.split(falling, edges) if len(part)]

    def _cut_padded(self, falling: Ints) -> list[Ints]:
        batches, start = [], 0
        while start < len(falling):
            longest = max(int(self.sizes[falling[start]]), 1)
            n = max(self.tokens // longest, 1)
            n = min(n, self.most) if self.most else n
            batches.append(falling[start : start + n])
            start += n
        return batches


def sized_batches(sizes: Ints, most: int, seed: int) -> BudgetBatches:
    """Batches of ``most`` texts, or of fewer if these are more than eight times as long as the average."""
    mean = max(float(sizes.mean()), 1.0) if len(sizes) else 1.0
    return BudgetBatches(np.maximum(sizes, 1), tokens=max(int(8 * mean * most), 1), seed=seed, padded=True, most=most)
