"""Sentences of unlike lengths as one array without padding, in the order in which an LSTM reads them.

Rows are sorted by falling length, so at step t the sentences still running are the first ``sizes[t]`` of them, and all
their t-th tokens are contiguous. The backward direction reads the same grid with each sentence turned round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def mask_of(lengths: Sequence[int] | NDArray[np.int64] | Tensor, longest: int, device: torch.device) -> Tensor:
    """``(B, longest)``, True at a text's tokens."""
    return torch.arange(longest, device=device)[None] < torch.as_tensor(lengths).to(device)[:, None]


@dataclass(frozen=True)
class Packing:
    """Where each token of a batch is in the packed array of N tokens."""

    order: NDArray[np.int64]  # (B,) sentence of each packed row
    lengths: NDArray[np.int64]  # (B,) of the sorted rows
    sizes: list[int]  # (T,) sentences still running at step t
    row: NDArray[np.int64]  # (N,) sentence of each packed token
    time: NDArray[np.int64]  # (2, N) its place in the sentence, as each direction reads it
    real: NDArray[np.bool_]  # (N,) False for a row that has ended and only keeps the others company

    @classmethod
    def of(cls, lengths: Sequence[int] | NDArray[np.int64], *, least: int = 1) -> Packing:
        """The packing of sentences with these lengths; a length may be 0.

        ``least`` rows are read at every step, ended or invented ones where there are not enough: products of very few
        rows are computed in another order by BLAS, so this makes a sentence's numbers independent of the others.
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
        """The same without the rows that only keep company."""
        kept = self.real
        sizes = [int(n) for n in np.bincount(self.time[0, kept], minlength=len(self.sizes))]
        return Packing(self.order, self.lengths, sizes, self.row[kept], self.time[:, kept], self.real[kept])

    @property
    def n_tokens(self) -> int:
        """N."""
        return len(self.row)


# ---- the states of a recurrent layer: those before the first step, then those of the packed tokens


def steps_of(sizes: Sequence[int], rows: int) -> Iterator[tuple[int, int, int]]:
    """For each step, its first packed row, its number of rows, and where the states before it begin."""
    start, before = 0, 0
    for size in sizes:
        yield start, size, before
        before, start = rows + start, start + size


def previous_of(sizes: Sequence[int], rows: int, device: torch.device) -> slice | Tensor:
    """For each packed token, where the state before it extends beyond the ``rows`` first states."""
    if not sizes or sizes[-1] == rows:  # no row ends early
        return slice(0, sum(sizes))
    places = np.concatenate([before + np.arange(size) for _, size, before in steps_of(sizes, rows)])
    return torch.from_numpy(places).to(device)


def ends_of(sizes: Sequence[int], rows: int, device: torch.device) -> Tensor:
    """For each row, where its last state lies."""
    ends = np.arange(rows)
    for start, size, _ in steps_of(sizes, rows):
        ends[:size] = rows + start + np.arange(size)
    return torch.from_numpy(ends).to(device)
