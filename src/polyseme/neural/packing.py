"""Packed sequences: sentences of different lengths as one array without padding, in the order an LSTM reads them.

Rows are sorted by decreasing length, so at step t the sentences that have not ended are the first ``sizes[t]``, and all
their t-th tokens are contiguous. The backward direction reads the same layout with each sentence reversed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def mask_of(lengths: Sequence[int] | NDArray[np.int64] | Tensor, longest: int, device: torch.device) -> Tensor:
    """The mask ``(B, longest)``, True at the tokens of each text."""
    return torch.arange(longest, device=device)[None] < torch.as_tensor(lengths).to(device)[:, None]


@dataclass(frozen=True)
class Packing:
    """The position of each token of a batch in the packed array of N tokens."""

    order: NDArray[np.int64]  # (B,) sentence of each packed row
    lengths: NDArray[np.int64]  # (B,) of the sorted rows
    sizes: list[int]  # (T,) number of rows at step t
    row: NDArray[np.int64]  # (N,) sentence of each packed token
    time: NDArray[np.int64]  # (2, N) its position in the sentence, as each direction reads it
    real: NDArray[np.bool_]  # (N,) False for filler tokens, which fill a step up to ``least`` rows

    @classmethod
    def of(cls, lengths: Sequence[int] | NDArray[np.int64], *, least: int = 1) -> Packing:
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
