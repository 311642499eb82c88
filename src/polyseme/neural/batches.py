"""Batches of texts: which texts are in one (按词元预算分批), and its tokens packed without padding (打包).

Each epoch shuffles the texts, depending only on the seed and the number of the epoch. Texts are then sorted by length
within pools of some dozens of batches, so there is little padding but batches still vary. The batches come in random
order, each up to a budget of tokens.

A packed batch holds sentences of different lengths as one array, in the order an LSTM reads them. Rows are sorted by
decreasing length, so at step t the sentences that have not ended are the first ``sizes[t]``, and all their t-th tokens
are contiguous. The backward direction reads the same layout with each sentence reversed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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


def mask_of(lengths: Sequence[int] | Ints | Tensor, longest: int, device: torch.device) -> Tensor:
    """The mask ``(B, longest)``, True at the tokens of each text."""
    return torch.arange(longest, device=device)[None] < torch.as_tensor(lengths).to(device)[:, None]


@dataclass(frozen=True)
class Packing:
    """The position of each token of a batch in the packed array of N tokens."""

    order: Ints  # (B,) sentence of each packed row
    lengths: Ints  # (B,) of the sorted rows
    sizes: list[int]  # (T,) number of rows at step t
    row: Ints  # (N,) sentence of each packed token
    time: Ints  # (2, N) its position in the sentence, as each direction reads it
    real: NDArray[np.bool_]  # (N,) False for filler tokens, which fill a step up to ``least`` rows

    @classmethod
    def of(cls, lengths: Sequence[int] | Ints, *, least: int = 1) -> Packing:
        """The packing of sentences with these lengths; a length may be 0.

        Every step has at least ``least`` rows; missing ones are filled with tokens that are ignored. BLAS adds in
        another order when a matrix has very few rows, so this makes the result of a sentence independent of the others.
        """
        whole = np.asarray(lengths, dtype=np.int64)
        order = np.argsort(-whole, kind="stable")
        sorted_lengths = whole[order]
        steps = int(sorted_lengths[0]) if len(order) else 0
        sizes = np.searchsorted(-sorted_lengths, -np.arange(steps), side="left")  # how many are longer than t
        running = np.maximum(sizes, least)
        place = np.arange(running.sum()) - np.repeat(np.cumsum(running) - running, running)  # packed row of each token
        step = np.repeat(np.arange(steps), running)
        real = place < np.repeat(sizes, running)
        place = np.where(real, place, 0)
        time = np.stack([step, sorted_lengths[place] - 1 - step])
        return cls(order, sorted_lengths, running.tolist(), order[place], time, real)

    def of_the_real(self) -> Packing:
        """The same packing without filler tokens."""
        kept = self.real
        sizes = [int(n) for n in np.bincount(self.time[0, kept], minlength=len(self.sizes))]
        return Packing(self.order, self.lengths, sizes, self.row[kept], self.time[:, kept], self.real[kept])

    @property
    def n_tokens(self) -> int:
        """N, the number of packed tokens."""
        return len(self.row)


# ---- the states of a recurrent layer: those before the first step, then those of the packed tokens


def steps_of(sizes: Sequence[int], rows: int) -> Iterator[tuple[int, int, int]]:
    """For each step: its first packed token, its number of rows, and the index where the previous states begin."""
    start, before = 0, 0
    for size in sizes:
        yield start, size, before
        before, start = rows + start, start + size


def previous_of(sizes: Sequence[int], rows: int, device: torch.device) -> slice | Tensor:
    """For each packed token, the index of its previous state (the first ``rows`` are the initial states)."""
    if not sizes or sizes[-1] == rows:  # no row ends early
        return slice(0, sum(sizes))
    places = np.concatenate([before + np.arange(size) for _, size, before in steps_of(sizes, rows)])
    return torch.from_numpy(places).to(device)


def ends_of(sizes: Sequence[int], rows: int, device: torch.device) -> Tensor:
    """For each row, the index of its last state."""
    ends = np.arange(rows)
    for start, size, _ in steps_of(sizes, rows):
        ends[:size] = rows + start + np.arange(size)
    return torch.from_numpy(ends).to(device)
