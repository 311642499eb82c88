"""Runs sequences of subwords through a network: batched by length, long ones in windows, independent of each other.

Overlapping windows over a long sequence: the subwords that each window reads, and those it gives the states of.

subwords  0 ……………………………………………………… n
window 1  [------------------]
window 2            [------------------]
states    [-------------)[-------------)…      change in the middle of the overlap; in a causal model at its end,
                                               where the left context is longest
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from polyseme.arrays import FloatArray
from polyseme.contexts.transformer.network import Network, TokenBatch
from polyseme.contexts.transformer.tokenizer import Ints, Pieces
from polyseme.interfaces import Layers


class Window(NamedTuple):
    """Reads the subwords ``start … end`` and gives the states of ``first … last``."""

    start: int
    end: int
    first: int
    last: int

    @classmethod
    def whole(cls, n: int) -> Window:
        """One window over all subwords."""
        return cls(0, n, 0, n)


def windows(n: int, room: int, *, causal: bool) -> list[Window]:
    """Windows of ``room`` subwords over ``n``, each overlapping the previous by half; one window if all fit."""
    if n <= room:
        return [Window.whole(n)]
    stride = max(room // 2, 1)
    starts = [*range(0, n - room, stride), n - room]
    bounds = [0]
    for start, following in pairwise(starts):
        end = start + room
        bounds.append(end if causal else (following + end) // 2)
    bounds.append(n)
    return [
        Window(start, start + room, first, last)
        for start, first, last in zip(starts, bounds[:-1], bounds[1:], strict=True)
    ]


BATCH_PIECES = 384  # more do not fit in the caches, fewer make the matrix products too small
QUANTISED_PIECES = 768  # more int8 numbers fit
USUAL_LIMIT = 512  # subwords at once, if neither the network nor the tokenizer gives a limit


class Runner:
    """Encodes sequences with a network and its tokenizer; ``room`` is the limit without special tokens.

    A given ``limit`` replaces that of the tokenizer.
    """

    def __init__(self, network: Network, pieces: Pieces, *, limit: int | None = None) -> None:
        self.network, self.pieces = network, pieces
        limits = [n for n in (limit or pieces.limit, network.positions()) if n]
        self.limit = min(limits) if limits else USUAL_LIMIT
        self.room = max(self.limit - len(pieces.before) - len(pieces.behind), 1)
        self.padding = pieces.id_of("pad") or 0

    @torch.inference_mode()
    def run(
        self, sequences: Sequence[Ints], layers: Layers, mix: Sequence[float] | None = None
    ) -> Iterator[tuple[int, Tensor]]:
        """The index of each sequence and its hidden states ``(planes, before + pieces + behind, D)``, in any order.

        The states include those of the special tokens before and after the sequence.
        """
        weights = layers.weights(mix)
        parts = [windows(len(ids), self.room, causal=self.network.causal) for ids in sequences]
        jobs = [(number, window) for number, of_sequence in enumerate(parts) for window in of_sequence]
        unfinished = {
            number: _Whole(len(of_sequence)) for number, of_sequence in enumerate(parts) if len(of_sequence) > 1
        }
        for rows in self._batches(jobs):
            computed = self._planes(self._batch(sequences, rows), layers, weights)  # (P, B, T, D)
            for row, (number, window) in enumerate(rows):
                states = computed[:, row]
                if number not in unfinished:
                    yield number, states[:, : self._length(window)]
                elif unfinished[number].add(window, self._answers(states, window, len(sequences[number]))):
                    yield number, unfinished.pop(number).states()

    def alone(self, ids: Ints) -> TokenBatch:
        """A batch of one sequence with its special tokens."""
        return self._batch([ids], [(0, windows(len(ids), self.room, causal=self.network.causal)[0])])

    def together(self, sequences: Sequence[Ints]) -> TokenBatch:
        """A batch of sequences with their special tokens; none may be longer than the network's limit."""
        return self._batch(sequences, [(number, Window.whole(len(ids))) for number, ids in enumerate(sequences)])

    def _length(self, window: Window) -> int:
        return len(self.pieces.before) + window.end - window.start + len(self.pieces.behind)

    def _batches(self, jobs: list[tuple[int, Window]]) -> Iterator[list[tuple[int, Window]]]:
        """Batches of windows of similar length, longest first; of equal length if padding would change the result."""
        most = QUANTISED_PIECES if self.network.quantised else BATCH_PIECES
        jobs = sorted(jobs, key=lambda job: (-self._length(job[1]), job[0]))
        start = 0
        while start < len(jobs):
            length = self._length(jobs[start][1])
            rows = jobs[start : start + max(most // max(length, 1), 1)]
            if not self.network.pads:
                rows = [job for job in rows if self._length(job[1]) == length]
            yield rows
            start += len(rows)

    def _batch(self, sequences: Sequence[Ints], rows: list[tuple[int, Window]]) -> TokenBatch:
        before, behind = self.pieces.before, self.pieces.behind
        lengths = [self._length(window) for _, window in rows]
        longest = max(max(lengths), 1)
        ids = np.full((len(rows), longest), self.padding, dtype=np.int64)
        for row, (number, window) in enumerate(rows):
            ids[row, : lengths[row]] = [*before, *sequences[number][window.start : window.end].tolist(), *behind]
        padded = min(lengths) < longest
        mask = np.arange(longest) < np.array(lengths)[:, None] if padded else None
        return TokenBatch(torch.from_numpy(ids), None if mask is None else torch.from_numpy(mask.astype(np.int64)))

    def _planes(self, batch: TokenBatch, layers: Layers, weights: list[float] | None) -> Tensor:
        computed = self.network(batch)
        wanted = [computed[number] for number in layers.numbers]
        if weights is None:
            return torch.stack(wanted)
        total: Tensor = wanted[0] * weights[0]
        for layer, weight in zip(wanted[1:], weights[1:], strict=True):
            total.add_(layer, alpha=weight)
        return total[None]

    def _answers(self, states: Tensor, window: Window, n: int) -> Tensor:
        """The part of a window's states that goes into the result.

        The first window also gives the special tokens before the sequence, the last window those after it.
        """
        offset = len(self.pieces.before) - window.start
        first = 0 if window.first == 0 else window.first + offset
        last = self._length(window) if window.last == n else window.last + offset
        return states[:, first:last]


class _Whole:
    """Collects the states of a sequence from several windows."""

    def __init__(self, n_windows: int) -> None:
        self.missing = n_windows
        self.found: dict[int, Tensor] = {}

    def add(self, window: Window, states: Tensor) -> bool:
        """Add the states of a window; returns whether the sequence is complete."""
        self.found[window.start] = states.clone()
        self.missing -= 1
        return self.missing == 0

    def states(self) -> Tensor:
        return torch.cat([self.found[start] for start in sorted(self.found)], dim=1)


def word_states(states: FloatArray, words: Ints, pooling: str) -> FloatArray:
    """Pool subword states into word states, ``(P, T, D) -> (P, W, D)``; zeros for a word without subwords.

    ``words (W, 2)`` holds the start and end of each word among the subwords.
    """
    first, last = words[:, 0], words[:, 1]
    count = last - first
    if not len(words) or not states.shape[1]:
        return np.zeros((len(states), len(words), states.shape[2]), dtype=np.float32)
    if pooling == "mean" and (count > 1).any():
        padded = np.concatenate([states, np.zeros_like(states[:, :1])], axis=1)  # reduceat needs every end as an index
        sums = np.add.reduceat(padded, words.reshape(-1), axis=1)[:, ::2]
        pooled = sums / np.maximum(count, 1)[None, :, None].astype(np.float32)
    else:
        chosen = last - 1 if pooling == "last" else first
        pooled = states[:, np.clip(chosen, 0, states.shape[1] - 1)]
    pooled[:, count == 0] = 0
    return np.ascontiguousarray(pooled, dtype=np.float32)
